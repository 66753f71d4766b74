"""The theorems' average of the iterates, weights (a + t)^2 (Singh et al. 2019, arXiv 1910.14280, Theorem 1)."""

from dataclasses import dataclass

from mpi_opt.types import Vector

HUGE = 1e100
"""Offsets above this are the unit of the weights."""


@dataclass(slots=True)
class WeightedMean:
    """Running mean of the iterates x^0, x^1, ... with weights ``(a + t)^2``.

    Attributes
    ----------
    a : float
        Offset, that of the inverse step size where there is one.
    mean : ndarray, shape (d,)
        ``sum_t (a+t)^2 x^t / sum_t (a+t)^2`` so far.
    total : float
        ``sum_t (a+t)^2`` so far, in units of a^2 where a is above ``HUGE``.
    """

    a: float
    mean: Vector
    total: float = 0.0

    def add(self, x: Vector, t: int, spare: Vector) -> None:
        """Take in the iterate before step ``t``."""
        # Only ratios of weights count: in units of a huge a their squares stay within the range of floats.
        weight = ((self.a + t) / (self.a if self.a > HUGE else 1.0)) ** 2
        self.total += weight
        spare[:] = x
        spare -= self.mean
        # The squares of the first steps are 0 where a is 0 or tiny; the first iterate is then its own mean.
        spare *= weight / self.total if self.total else 1.0
        self.mean += spare
