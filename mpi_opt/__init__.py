"""mpi_opt: training over many machines when the network is the bottleneck.

The names below are what scripts use; they are loaded when first asked for, so that ``import mpi_opt`` stays light and
starts no MPI. Everything else is reached through its module.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi_opt.algorithms.admm import ADMM
    from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
    from mpi_opt.algorithms.giant import Giant
    from mpi_opt.algorithms.lbfgs import LBFGS
    from mpi_opt.algorithms.local_newton import LocalNewton
    from mpi_opt.algorithms.local_sgd import LocalSGD
    from mpi_opt.algorithms.newton import Newton
    from mpi_opt.algorithms.newton_cg import NewtonCG
    from mpi_opt.algorithms.parts.tensor_trigger import TensorTrigger
    from mpi_opt.algorithms.parts.trigger import Trigger
    from mpi_opt.algorithms.sparq_sgd import SparqSGD
    from mpi_opt.compression.registry import make_compressor
    from mpi_opt.errors import DataError, DivergedError, JobError, MpiOptError
    from mpi_opt.library import Result, minimize
    from mpi_opt.problems.registry import make_problem
    from mpi_opt.schedules import Constant, FiringRate, Inverse

__version__ = "0.1.0"

_HOMES = {
    "NewtonCG": "algorithms.newton_cg",
    "Newton": "algorithms.newton",
    "LocalNewton": "algorithms.local_newton",
    "LBFGS": "algorithms.lbfgs",
    "Giant": "algorithms.giant",
    "ADMM": "algorithms.admm",
    "AllreduceSGD": "algorithms.allreduce_sgd",
    "Constant": "schedules",
    "DataError": "errors",
    "DivergedError": "errors",
    "JobError": "errors",
    "MpiOptError": "errors",
    "FiringRate": "schedules",
    "Inverse": "schedules",
    "LocalSGD": "algorithms.local_sgd",
    "Result": "library",
    "SparqSGD": "algorithms.sparq_sgd",
    "TensorTrigger": "algorithms.parts.tensor_trigger",
    "Trigger": "algorithms.parts.trigger",
    "make_compressor": "compression.registry",
    "make_problem": "problems.registry",
    "minimize": "library",
}

__all__ = [
    "ADMM",
    "LBFGS",
    "AllreduceSGD",
    "Constant",
    "DataError",
    "DivergedError",
    "FiringRate",
    "Giant",
    "Inverse",
    "JobError",
    "LocalNewton",
    "LocalSGD",
    "MpiOptError",
    "Newton",
    "NewtonCG",
    "Result",
    "SparqSGD",
    "TensorTrigger",
    "Trigger",
    "make_compressor",
    "make_problem",
    "minimize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mpi_opt' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"mpi_opt.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
