"""A penalty that levels off, on top of another problem: smooth, not convex, much used to test methods where it matters.

``f(x) = inner(x) + weight * sum_k x_k^2 / (1 + x_k^2)``. A coordinate beyond ``1 / sqrt(3)`` is pulled back with
falling force, so the penalty's curvature is negative there, down to ``-weight / 2`` at 1.
"""

from collections.abc import Callable

import numpy as np

from mpi_opt.problems.base import Curved, Figures
from mpi_opt.problems.modelled import quiet
from mpi_opt.types import Indices, Vector


class SaturatingPenalty:
    """Another problem plus ``weight * sum_k x_k^2 / (1 + x_k^2)``; implements `problems.base.Problem`.

    Parameters
    ----------
    inner : Curved
        What is penalised, mostly without a penalty of its own.
    weight : float
        At least 0.

    Raises
    ------
    ValueError
        ``weight`` is negative or not finite.
    """

    def __init__(self, inner: Curved, weight: float) -> None:
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; a finite number >= 0 is needed")
        self._inner, self._weight = inner, float(weight)

    @property
    def dim(self) -> int:
        """Length of x."""
        return self._inner.dim

    @property
    def rows(self) -> int:
        """Rows of the shard, possibly 0."""
        return self._inner.rows

    def value(self, x: Vector) -> float:
        """Return f(x)."""
        return self._inner.value(x) + self._levelled(x)

    def gradient(self, x: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at x, shape ``(dim,)``, written to ``out`` where given (``out`` may be x)."""
        return self.sampled_gradient(x, None, out)

    @quiet
    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Vector:
        """Return the gradient with the row sum of the inner problem sampled, the penalty's in full; see there."""
        pull = x * x
        pull += 1.0
        pull *= pull
        np.divide(x, pull, out=pull)
        pull *= 2.0 * self._weight
        result = self._inner.sampled_gradient(x, rows, out)
        result += pull
        return result

    @quiet
    def hvp_at(self, x: Vector) -> Callable[[Vector], Vector]:
        """Return the map v -> (Hessian of f at x) v."""
        square = x * x
        curvature = 2.0 * self._weight * (1.0 - 3.0 * square) / (1.0 + square) ** 3
        inner = self._inner.hvp_at(x)
        return lambda v: inner(v) + curvature * v

    def figures(self, x: Vector) -> Figures:
        """Return loss sum (unscaled, without penalties), errors and rows of the shard at x."""
        return self._inner.figures(x)

    def penalty(self, x: Vector) -> float:
        """Return the inner problem's penalty and this one's."""
        return self._inner.penalty(x) + self._levelled(x)

    @quiet
    def _levelled(self, x: Vector) -> float:
        square = x * x
        return self._weight * float((square / (1.0 + square)).sum())
