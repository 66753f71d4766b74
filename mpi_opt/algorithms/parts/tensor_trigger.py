"""The event trigger tensor by tensor: each block of the model tells for itself whether it has moved enough."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from mpi_opt.algorithms.base import check_counts
from mpi_opt.algorithms.parts.trigger import bound_of
from mpi_opt.compression.base import Compressor, Message, Partial
from mpi_opt.draws import Key
from mpi_opt.errors import JobError
from mpi_opt.schedules import FiringRate
from mpi_opt.types import Indices, Mask, Vector


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemory:
    """What the trigger remembers of each block (part of the state, so of a checkpoint); arrays are never written to."""

    silent: Indices
    """Synchronisations since the block last spoke, shape ``(blocks,)``."""
    log_levels: Vector | None = None
    """log c of each block's firing-rate controller, NaN before the block's first non-zero drift."""


@dataclass(frozen=True, slots=True)
class TensorTrigger:
    """Block b of d_b of the d coordinates fires if ``|v_b|^2 > c_t eta_t^2 d_b / d`` with v = x - xhat.

    The bound is shared out by length, so that the blocks' bounds add up to the model's (`trigger.Trigger`): a node all
    of whose blocks are silent would be silent there too.

    Parameters
    ----------
    sizes : sequence of int
        Length of each block, those of the compressor.
    threshold : callable or FiringRate
        c_t by step number, or a controller for each block.
    longest_silence : int or None
        A block that was silent for ``longest_silence - 1`` synchronisations fires at the next.
    """

    sizes: Sequence[int]
    threshold: Callable[[int], float] | FiringRate
    longest_silence: int | None = None

    def __post_init__(self) -> None:
        check_counts(longest_silence=self.longest_silence)
        object.__setattr__(self, "sizes", tuple(self.sizes))

    def check(self, C: Compressor) -> None:
        """Check that the compressor has the same blocks and may leave some out; raises ``JobError`` otherwise."""
        sizes = getattr(C, "sizes", None)
        if sizes is None or not hasattr(C, "compress_some") or tuple(sizes) != self.sizes:
            raise JobError(f"a trigger for blocks of {list(self.sizes)} needs a blockwise compressor of these sizes")

    def memory(self) -> TensorMemory:
        """Return what is known before the first synchronisation."""
        levels = None
        if isinstance(self.threshold, FiringRate):
            initial = self.threshold.initial
            levels = np.full(len(self.sizes), math.nan if initial is None else math.log(initial))
        return TensorMemory(np.zeros(len(self.sizes), dtype=np.int64), levels)

    def drift(self, difference: Vector) -> Vector:
        """Return |v_b|^2 of each block, shape ``(blocks,)``."""
        drifts, start = [], 0
        for size in self.sizes:
            v = difference[start : start + size]
            drifts.append(v @ v)
            start += size
        return np.array(drifts)

    def say(self, C: Compressor, difference: Vector, key: Key, fired: Mask) -> Message:
        """Return the message of the blocks that fired."""
        return cast(Partial, C).compress_some(difference, key, fired)

    def share(self, fired: Mask) -> float:
        """Return the share of blocks that fired."""
        return np.count_nonzero(fired) / fired.size

    def decide(self, drift: Vector, t: int, eta: float, memory: TensorMemory) -> tuple[Mask, float, TensorMemory]:
        """Return which blocks fire, the sum of their bounds, and the new memory. ``drift`` is finite."""
        share = np.array(self.sizes) / sum(self.sizes)
        overdue = np.zeros(drift.size, dtype=np.bool_)
        if self.longest_silence is not None:
            overdue = memory.silent + 1 >= self.longest_silence
        levels = memory.log_levels
        if not isinstance(self.threshold, FiringRate) or levels is None:
            bound = bound_of(self.threshold(t), eta) if callable(self.threshold) else 0.0
            fired = (drift > bound * share) | overdue
        else:
            fired, bound, levels = self._controlled(self.threshold, drift, eta, levels, share, overdue)
        return fired, bound, TensorMemory(np.where(fired, 0, memory.silent + 1), levels)

    def _controlled(
        self, rate: FiringRate, drift: Vector, eta: float, levels: Vector, share: Vector, overdue: Mask
    ) -> tuple[Mask, float, Vector]:
        """Decide by controllers; a block's first drift sets its level, and the block introduces itself."""
        known = ~np.isnan(levels)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            bounds = np.where(known, np.exp(levels) * eta * eta * share, 0.0)
            if eta > 0:
                first = np.log(drift / share) - 2 * math.log(eta)
                levels = np.where(known | (drift == 0), levels, first)
        fired = (drift > bounds) | overdue
        return fired, float(bounds.sum()), levels + rate.gain * (fired - rate.target)
