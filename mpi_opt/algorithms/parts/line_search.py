"""Armijo backtracking over a fixed list of step lengths: locally, or with the losses of all nodes in one message."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROUND_OFF = 1e-12
"""A rise of the loss by this share is rounding: near the optimum the true decrease is smaller."""


@dataclass(frozen=True, slots=True)
class Backtracking:
    """Take the first step length ``a`` with ``f(w - a p) <= f(w) - a beta p.g``.

    Parameters
    ----------
    beta : float
        Armijo's constant in (0, 1/2].
    ratio : float
        Candidates are ``ratio^i``; GIANT's codes and LocalNewton's authors take 1/4.
    count : int
        Number of candidates.
    """

    beta: float = 0.1
    ratio: float = 0.25
    count: int = 10

    @property
    def lengths(self) -> tuple[float, ...]:
        """The candidates, 1 first."""
        return tuple(self.ratio**i for i in range(self.count))

    def search(self, value: Callable[[float], float], base: float, slope: float) -> float:
        """Return the first length that passes, or 0 if none does.

        Parameters
        ----------
        value : callable
            a -> f(w - a p).
        base : float
            f(w).
        slope : float
            p.g >= 0, the decrease of f along -p.
        """
        for a in self.lengths:
            if self.passes(value(a), base, a, slope):
                return a
        return 0.0

    def choose(self, values: Sequence[float], lengths: Sequence[float], base: float, slope: float) -> float:
        """Return the first of ``lengths`` whose value passes, or 0; ``values`` are those of all nodes together."""
        for value, a in zip(values, lengths, strict=True):
            if self.passes(value, base, a, slope):
                return a
        return 0.0

    def passes(self, value: float, base: float, a: float, slope: float) -> bool:
        """Return whether ``value`` at length ``a`` is low enough; never true for NaN."""
        return value <= base - a * self.beta * slope + ROUND_OFF * abs(base)
