"""The event trigger of SPARQ-SGD: it tells whether a node has moved enough from what its neighbours believe."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from mpi_opt.algorithms.base import check_counts
from mpi_opt.compression.base import Compressor, Message
from mpi_opt.draws import Key
from mpi_opt.schedules import FiringRate
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class TriggerMemory:
    """What the trigger remembers between synchronisations (part of the state, so of a checkpoint)."""

    silent: int = 0
    """Synchronisations since the node last spoke."""
    log_level: float | None = None
    """log c of the firing-rate controller; ``None`` before the first non-zero drift."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Fire if ``|x - xhat|^2 > c_t eta_t^2`` (arXiv 1910.14280, Algorithm 1, line 8), or after a long silence.

    Parameters
    ----------
    threshold : callable or FiringRate
        c_t by step number, or a controller that moves log c by ``gain (fired - target)`` at each synchronisation,
        which drives the long-run share of firings to ``target`` whatever the scale of the gradients.
    longest_silence : int or None
        A node that was silent for ``longest_silence - 1`` synchronisations fires at the next.
    """

    threshold: Callable[[int], float] | FiringRate
    longest_silence: int | None = None

    def __post_init__(self) -> None:
        check_counts(longest_silence=self.longest_silence)

    def memory(self) -> TriggerMemory:
        """Return what is known before the first synchronisation."""
        return TriggerMemory()

    def drift(self, difference: Vector) -> float:
        """Return |x - xhat|^2."""
        return float(difference @ difference)

    def say(self, C: Compressor, difference: Vector, key: Key, fired: bool) -> Message:
        """Return the message of a node that fired."""
        return C.compress(difference, key)

    def share(self, fired: bool) -> float:
        """Return 1 for a node that fired: the model is one block."""
        return float(fired)

    def decide(self, drift: float, t: int, eta: float, memory: TriggerMemory) -> tuple[bool, float, TriggerMemory]:
        """Return whether to fire, the bound ``c_t eta_t^2``, and the new memory. ``drift`` is |x - xhat|^2, finite."""
        overdue = self.longest_silence is not None and memory.silent + 1 >= self.longest_silence
        if not isinstance(self.threshold, FiringRate):
            bound = bound_of(self.threshold(t), eta)
            fired = drift > bound or overdue
            return fired, bound, replace(memory, silent=0 if fired else memory.silent + 1)

        rate, log_level = self.threshold, memory.log_level
        if log_level is None and rate.initial is not None:
            log_level = math.log(rate.initial)
        if log_level is None:
            # Nothing is known of the scale yet: the first drift sets it, and the node introduces itself.
            fired, bound = drift > 0 or overdue, 0.0
            if drift > 0 and eta > 0:
                log_level = math.log(drift) - 2 * math.log(eta)
        else:
            bound = bound_of(_exp(log_level), eta)
            fired = drift > bound or overdue
        if log_level is not None:
            log_level += rate.gain * (fired - rate.target)
        return fired, bound, TriggerMemory(0 if fired else memory.silent + 1, log_level)


def bound_of(level: float, eta: float) -> float:
    """Return ``level * eta**2``, inf where too large: nothing exceeds it."""
    try:
        return level * eta**2
    except OverflowError:
        # One factor after the other: 0 stays 0, and a tiny level may bring the product back into range.
        return level * eta * eta


def _exp(x: float) -> float:
    """Return e^x, inf where too large."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
