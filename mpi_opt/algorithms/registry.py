"""The methods by name, and how each is made of a job's settings.

To add a method: one file beside this one, one line here, one twin in ``tests/twins``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mpi_opt.algorithms.admm import ADMM
from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
from mpi_opt.algorithms.base import Algorithm
from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.lbfgs import LBFGS
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.local_sgd import LocalSGD
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.newton_cg import NewtonCG
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.finish import Finish
from mpi_opt.algorithms.parts.solver import Cheaper, Cholesky, ConjugateGradients, Solver
from mpi_opt.algorithms.parts.tensor_trigger import TensorTrigger
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.base import Compressor
from mpi_opt.schedules import FiringRate


@dataclass(frozen=True, kw_only=True, slots=True)
class SgdSettings:
    """The hyper-parameters of the SGD methods; each takes what it needs. Meanings as in the methods' files."""

    step_size: Callable[[int], float]
    batch: int | None
    sync_every: int
    beta: float
    threshold: Callable[[int], float] | FiringRate
    longest_silence: int | None
    compressor: Compressor | None
    consensus_rate: float
    overlap: bool
    weighted_offset: float | None
    check: bool
    blocks: Sequence[int] | None = None
    """Of a trigger by tensor: their lengths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewtonSettings:
    """The hyper-parameters of the methods that take whole passes; each takes what it needs."""

    tolerance: Tolerance
    solver: str
    damping: float | None
    by_support: bool
    local_steps: int
    adaptive: bool
    finish: str
    hessian_every: int
    memory: int


def _sparq(s: SgdSettings) -> Algorithm:
    if s.compressor is None:
        raise ValueError("a gossip method needs a compressor")
    return SparqSGD(
        step_size=s.step_size,
        trigger=Trigger(s.threshold, s.longest_silence)
        if s.blocks is None
        else TensorTrigger(s.blocks, s.threshold, s.longest_silence),
        compressor=s.compressor,
        consensus_rate=s.consensus_rate,
        sync_every=s.sync_every,
        batch=s.batch,
        beta=s.beta,
        overlap=s.overlap,
        weighted_offset=s.weighted_offset,
        check=s.check,
    )


def _allreduce(s: SgdSettings) -> Algorithm:
    return AllreduceSGD(step_size=s.step_size, batch=s.batch, beta=s.beta)


def _local(s: SgdSettings) -> Algorithm:
    return LocalSGD(step_size=s.step_size, sync_every=s.sync_every, batch=s.batch, beta=s.beta)


SGD: Mapping[str, Callable[[SgdSettings], Algorithm]] = {
    "sparq-sgd": _sparq,
    "choco-sgd": _sparq,  # the engine with threshold 0, which the job fixes
    "d-psgd": _sparq,  # threshold 0, identity, consensus rate 1
    "squarm-sgd": _sparq,  # momentum on
    "allreduce-sgd": _allreduce,
    "local-sgd": _local,
}
"""SGD methods: they work on SPARQ-SGD's node functions, of scale n/N."""

EXCHANGES = frozenset({"sparq-sgd", "choco-sgd", "d-psgd", "squarm-sgd"})
"""Methods whose nodes talk with graph neighbours; all others reduce over all nodes."""

SOLVERS: Mapping[str, Callable[[], Solver]] = {"auto": Cheaper, "cholesky": Cholesky, "cg": ConjugateGradients}


def _giant(s: NewtonSettings) -> Giant:
    solver = SOLVERS[s.solver]()
    return Giant(tolerance=s.tolerance, solver=solver, damping=s.damping, by_support=s.by_support)


def _newton(s: NewtonSettings) -> Newton:
    return Newton(tolerance=s.tolerance, hessian_every=s.hessian_every)


def _newton_cg(s: NewtonSettings) -> NewtonCG:
    return NewtonCG(tolerance=s.tolerance)


FINISHES: Mapping[str, Callable[[NewtonSettings], Finish | None]] = {
    "none": lambda _: None,
    "giant": _giant,
    "newton": _newton,
    "newton-cg": _newton_cg,
}


def _local_newton(s: NewtonSettings) -> Algorithm:
    return LocalNewton(
        local_steps=s.local_steps,
        adaptive=s.adaptive,
        finish=FINISHES[s.finish](s),
        solver=SOLVERS[s.solver](),
        damping=s.damping,
        by_support=s.by_support,
        patience=5,
    )


NEWTON: Mapping[str, Callable[[NewtonSettings], Algorithm]] = {
    "local-newton": _local_newton,
    "giant": _giant,
    "newton": _newton,
    "newton-cg": _newton_cg,
    "lbfgs": lambda s: LBFGS(tolerance=s.tolerance, memory=s.memory),
    "admm": lambda s: ADMM(tolerance=s.tolerance),
}
"""Methods of whole passes: they work on the local mean loss, of scale 1/N_k, and weight by rows themselves."""

BY_ROWS = (LocalNewton, Giant, Newton, NewtonCG, LBFGS, ADMM)
"""Their classes: what they minimise is ``sum N_k f_k / N``."""
