"""The methods by name. A preset is the SPARQ-SGD engine with some of its parts fixed.

To add a method: one file beside this one, one line here, one twin in ``tests/twins``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
from mpi_opt.algorithms.base import Algorithm
from mpi_opt.algorithms.local_sgd import LocalSGD
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.base import Compressor
from mpi_opt.schedules import FiringRate


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The hyper-parameters of any method here; each takes what it needs. Meanings as in the methods' files."""

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


def _sparq(s: Settings) -> Algorithm:
    if s.compressor is None:
        raise ValueError("a gossip method needs a compressor")
    return SparqSGD(
        step_size=s.step_size,
        trigger=Trigger(s.threshold, s.longest_silence),
        compressor=s.compressor,
        consensus_rate=s.consensus_rate,
        sync_every=s.sync_every,
        batch=s.batch,
        beta=s.beta,
        overlap=s.overlap,
        weighted_offset=s.weighted_offset,
        check=s.check,
    )


def _allreduce(s: Settings) -> Algorithm:
    return AllreduceSGD(step_size=s.step_size, batch=s.batch, beta=s.beta)


def _local(s: Settings) -> Algorithm:
    return LocalSGD(step_size=s.step_size, sync_every=s.sync_every, batch=s.batch, beta=s.beta)


ALGORITHMS: Mapping[str, Callable[[Settings], Algorithm]] = {
    "sparq-sgd": _sparq,
    "choco-sgd": _sparq,  # threshold 0; the job fixes it
    "d-psgd": _sparq,  # threshold 0, identity, consensus rate 1
    "squarm-sgd": _sparq,  # momentum on
    "allreduce-sgd": _allreduce,
    "local-sgd": _local,
}

EXCHANGES = frozenset({"sparq-sgd", "choco-sgd", "d-psgd", "squarm-sgd"})
"""Methods whose nodes talk with graph neighbours; the others reduce over all nodes."""
