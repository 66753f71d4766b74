"""Modules of PyTorch for programs of one's own; needs ``pip install 'mpi_opt[torch]'``.

`TorchProblem` of a `FlatModule` goes to `mpi_opt.minimize`; `load_module` returns the module of a model file.
"""

from mpi_opt.problems.torch.flat import Block, FlatModule
from mpi_opt.problems.torch.problem import TorchProblem
from mpi_opt.problems.torch.setting import steady
from mpi_opt.restoring import load_module

__all__ = ["Block", "FlatModule", "TorchProblem", "load_module", "steady"]
