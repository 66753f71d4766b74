"""Step sizes eta_t and thresholds c_t as functions of the step number t = 0, 1, 2, ...

Every schedule is a frozen dataclass, checked when it is made, with ``__call__(t) -> float``; a run is resumed by its
step number alone. `FiringRate` is a record of parameters only: the controller that follows it has state, and belongs to
the algorithms.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

from mpi_opt.errors import JobError


class Schedule(Protocol):
    """A number for every step."""

    def __call__(self, t: int) -> float:
        """Return the number of step ``t >= 0``."""
        ...


def _check(name: str, value: object, allowed: str, fits: bool) -> None:
    if not fits:
        raise JobError(f"{name} = {value!r} is not allowed; allowed: {allowed}")


def is_number(value: object) -> bool:
    """Return whether ``value`` is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def positive(name: str, value: Any) -> None:
    """Refuse what is no number > 0."""
    _check(name, value, "a number > 0", is_number(value) and value > 0)


def _not_negative(name: str, value: Any) -> None:
    _check(name, value, "a number >= 0", is_number(value) and value >= 0)


def _steps(name: str, value: Any, least: int = 1) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    _check(name, value, f"a whole number of steps >= {least}", whole and value >= least)


@dataclass(frozen=True, slots=True)
class Constant:
    """``value`` at every step; ``value >= 0`` (a step size: > 0)."""

    value: float

    def __post_init__(self) -> None:
        _not_negative("value", self.value)

    def __call__(self, t: int) -> float:  # noqa: ARG002
        """Return ``value``."""
        return float(self.value)


@dataclass(frozen=True, slots=True)
class Inverse:
    """``b / (a + t)``: SPARQ-SGD's step size for strongly convex functions (arXiv 1910.14280, theorem 1)."""

    a: float
    b: float

    def __post_init__(self) -> None:
        positive("a", self.a)
        positive("b", self.b)

    def __call__(self, t: int) -> float:
        """Return ``b / (a + t)``."""
        return self.b / (self.a + t)


@dataclass(frozen=True, slots=True)
class Step:
    """``initial * factor^k``: k grows by one every ``every`` steps, or at each of the steps in ``milestones``."""

    initial: float
    factor: float
    every: int | None = None
    milestones: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        positive("initial", self.initial)
        positive("factor", self.factor)
        if self.milestones is None:
            _check("every", self.every, "a number of steps, or milestones instead", self.every is not None)
            _steps("every", self.every)
            return
        _check("every", self.every, "nothing beside milestones", self.every is None)
        fits = isinstance(self.milestones, tuple) and len(self.milestones) > 0
        _check("milestones", self.milestones, "a list of steps", fits)
        for milestone in self.milestones:
            _steps("milestones", milestone)
        ascending = all(a < b for a, b in pairwise(self.milestones))
        _check("milestones", self.milestones, "a list of steps in ascending order", ascending)

    def __call__(self, t: int) -> float:
        """Return ``initial * factor^k``, inf where too large; the step at a milestone already has the new value."""
        k = t // self.every if self.every is not None else bisect_right(self.milestones or (), t)
        try:
            return float(self.initial * float(self.factor) ** k)
        except OverflowError:
            # Of the arithmetic of floats only powers raise where products and quotients are inf.
            return math.inf


@dataclass(frozen=True, slots=True)
class Cosine:
    """Half a cosine from ``initial`` at step 0 down to ``final`` at ``steps``, and ``final`` from there on."""

    initial: float
    final: float
    steps: int

    def __post_init__(self) -> None:
        positive("initial", self.initial)
        _not_negative("final", self.final)
        _steps("steps", self.steps)

    def __call__(self, t: int) -> float:
        """Return ``final + (initial - final) (1 + cos(pi t / steps)) / 2``."""
        part = min(t / self.steps, 1.0)
        return self.final + (self.initial - self.final) * 0.5 * (1.0 + math.cos(math.pi * part))


@dataclass(frozen=True, slots=True)
class WarmUp:
    """``schedule`` times ``(t + 1) / warm_up`` in the first ``warm_up`` steps, ``schedule`` itself after them.

    Time is not shifted: at t >= warm_up this is ``schedule(t)``.
    """

    schedule: Schedule
    warm_up: int

    def __post_init__(self) -> None:
        _steps("warm_up", self.warm_up)

    def __call__(self, t: int) -> float:
        """Return the number of step t."""
        return self.schedule(t) * min((t + 1) / self.warm_up, 1.0)


@dataclass(frozen=True, slots=True)
class Polynomial:
    """``c0 (t + 1)^(1 - eps)`` with 0 < eps < 1: the growth that SPARQ-SGD's rates allow (arXiv 1910.14280)."""

    c0: float
    eps: float

    def __post_init__(self) -> None:
        _not_negative("c0", self.c0)
        _check("eps", self.eps, "a number > 0 and < 1", is_number(self.eps) and 0 < self.eps < 1)

    def __call__(self, t: int) -> float:
        """Return ``c0 (t + 1)^(1 - eps)``."""
        return float(self.c0 * float(t + 1) ** (1.0 - self.eps))


@dataclass(frozen=True, slots=True)
class Stepwise:
    """``initial``, raised by ``increase`` every ``every`` steps, until step ``until`` and then held.

    SPARQ-SGD's ResNet-20 runs start at 2.0 and add 1.0 every 10 epochs.
    """

    initial: float
    increase: float
    every: int
    until: int | None = None

    def __post_init__(self) -> None:
        _not_negative("initial", self.initial)
        _not_negative("increase", self.increase)
        _steps("every", self.every)
        if self.until is not None:
            _steps("until", self.until, least=0)

    def __call__(self, t: int) -> float:
        """Return ``initial + increase * floor(min(t, until) / every)``."""
        last = t if self.until is None else min(t, self.until)
        return float(self.initial + self.increase * (last // self.every))


@dataclass(frozen=True, slots=True)
class FiringRate:
    """Parameters of the controller that adapts c_t until nodes fire at a given share of the synchronisations.

    Attributes
    ----------
    target : float
        Wanted share of synchronisations at which a node fires, in (0, 1].
    gain : float
        How far the controller moves at each synchronisation; > 0.
    initial : float or None
        First threshold, > 0; ``None`` leaves it to the controller.
    """

    target: float
    gain: float = 0.5
    initial: float | None = None

    def __post_init__(self) -> None:
        _check("target", self.target, "a number > 0 and <= 1", is_number(self.target) and 0 < self.target <= 1)
        positive("gain", self.gain)
        if self.initial is not None:
            positive("initial", self.initial)


StepSize: TypeAlias = Constant | Inverse | Step | Cosine | WarmUp
Threshold: TypeAlias = Constant | Polynomial | Stepwise | FiringRate
