"""The theorems' average of the iterates, weights (a + t)^2 (Singh et al. 2019, arXiv 1910.14280, Theorem 1)."""

from dataclasses import dataclass

from mpi_opt.types import Vector


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
        ``sum_t (a+t)^2`` so far.
    """

    a: float
    mean: Vector
    total: float = 0.0

    def add(self, x: Vector, t: int, spare: Vector) -> None:
        """Take in the iterate before step ``t``."""
        weight = (self.a + t) ** 2
        self.total += weight
        spare[:] = x
        spare -= self.mean
        spare *= weight / self.total
        self.mean += spare
