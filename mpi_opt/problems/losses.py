"""Losses of one row, as functions of its margin ``z = w.x + b`` and its label ``y``.

| loss | value | labels | curvature bound |
|---|---|---|---|
| logistic | log(1 + exp(-y z)) | -1/+1 | 1/4 |
| squared | (z - y)^2 / 2 | real | 1 |
| squared hinge | max(0, 1 - y z)^2 | -1/+1 | 2 |
| Huber (delta = 1) | (z - y)^2 / 2 where abs(z - y) <= 1, else abs(z - y) - 1/2 | real | 1 |
| softmax | log sum_c exp(z_c) - z_y | 0..C-1 | 1/2 |

All are vectorised over rows and written so that no intermediate overflows: a value that does not fit a float64 is
``inf``, without a warning. A loss with one column sees ``z`` of shape ``(rows,)``; softmax sees ``(C, rows)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.types import LabelKind, Vector

Labels: TypeAlias = npt.NDArray[Any]
"""One label a row: float64, or intp for softmax."""

_EXP_MAX = 709.0
"""exp of this still fits a float64."""


class Loss(Protocol):
    """What a problem needs of its loss."""

    @property
    def kind(self) -> LabelKind:
        """What labels the loss takes."""
        ...

    @property
    def curvature_bound(self) -> float:
        """Largest eigenvalue of the loss's second derivative in z, over all z and y."""
        ...

    def value(self, z: Vector, y: Labels) -> Vector:
        """Return the losses, shape ``(rows,)``."""
        ...

    def slope(self, z: Vector, y: Labels) -> Vector:
        """Return the derivatives in z, shape of z."""
        ...

    def slope_change(self, z: Vector, y: Labels) -> Callable[[Vector], Vector]:
        """Return the map dz -> (second derivative in z at z) dz, row by row; shapes of z."""
        ...

    def curvature(self, z: Vector, y: Labels) -> Vector:
        """Return the second derivatives in each z on its own, shape of z; never negative."""
        ...

    def wrong(self, z: Vector, y: Labels) -> int:
        """Return the number of rows predicted wrongly; 0 for regression. A margin that is NaN is wrong."""
        ...


class MarginLoss(Loss, Protocol):
    """A loss with one column: its second derivative is the one number that ``curvature`` gives a row."""


class _OneColumn:
    """What losses with one column share."""

    def curvature(self, z: Vector, y: Labels) -> Vector:
        raise NotImplementedError

    def slope_change(self, z: Vector, y: Labels) -> Callable[[Vector], Vector]:
        """See `Loss`."""
        curvature = self.curvature(z, y)
        return lambda change: curvature * change


class _Signs(_OneColumn):
    """Two classes, -1 and +1, told apart by the sign of the margin."""

    kind: ClassVar[LabelKind] = "binary"

    def wrong(self, z: Vector, y: Labels) -> int:
        """Count errors; the prediction is +1 for z > 0, else -1, as scikit-learn and LIBLINEAR have it.

        An empty row without an intercept has z = 0.
        """
        right = np.where(y > 0, z > 0, z <= 0)
        return z.size - int(np.count_nonzero(right))


class _Reals(_OneColumn):
    """Regression: no prediction is wrong, only far."""

    kind: ClassVar[LabelKind] = "real"

    def wrong(self, z: Vector, y: Labels) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


@dataclass(frozen=True, slots=True)
class Logistic(_Signs):
    """``log(1 + exp(-y z))``."""

    curvature_bound: ClassVar[float] = 0.25

    def value(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        m = y * z
        result = np.log1p(np.exp(-np.abs(m)))
        result -= np.minimum(m, 0.0)
        return result

    def slope(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`: ``-y / (1 + exp(y z))``."""
        m = y * z
        np.minimum(m, _EXP_MAX, out=m)
        np.exp(m, out=m)
        m += 1.0
        result: Vector = np.divide(y, m, out=m)
        return np.negative(result, out=result)

    def curvature(self, z: Vector, y: Labels) -> Vector:  # noqa: ARG002
        """See `MarginLoss`: ``e / (1 + e)^2`` with ``e = exp(-abs(z))``; y^2 = 1 falls out."""
        e = np.exp(-np.abs(z))
        result: Vector = e / np.square(1.0 + e)
        return result


@dataclass(frozen=True, slots=True)
class Squared(_Reals):
    """``(z - y)^2 / 2``."""

    curvature_bound: ClassVar[float] = 1.0

    def value(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        with np.errstate(over="ignore"):
            result: Vector = 0.5 * np.square(z - y)
        return result

    def slope(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        return z - y

    def curvature(self, z: Vector, y: Labels) -> Vector:  # noqa: ARG002
        """See `MarginLoss`."""
        return np.ones_like(z)


@dataclass(frozen=True, slots=True)
class SquaredHinge(_Signs):
    """``max(0, 1 - y z)^2``, LIBLINEAR's L2-loss support vector machine."""

    curvature_bound: ClassVar[float] = 2.0

    def value(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        with np.errstate(over="ignore"):
            result: Vector = np.square(np.maximum(1.0 - y * z, 0.0))
        return result

    def slope(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        result: Vector = -2.0 * y * np.maximum(1.0 - y * z, 0.0)
        return result

    def curvature(self, z: Vector, y: Labels) -> Vector:
        """See `MarginLoss`; generalised: 2 inside the margin, 0 outside and at the kink ``y z = 1``."""
        return np.where(y * z < 1.0, 2.0, 0.0)


@dataclass(frozen=True, slots=True)
class Huber(_Reals):
    """``(z - y)^2 / 2`` up to a distance of 1, linear with slope 1 beyond."""

    curvature_bound: ClassVar[float] = 1.0

    def value(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`: ``c (r - c / 2)`` with ``r = abs(z - y)`` and ``c = min(r, 1)``."""
        r = np.abs(z - y)
        c = np.minimum(r, 1.0)
        result: Vector = c * (r - 0.5 * c)
        return result

    def slope(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        return np.clip(z - y, -1.0, 1.0)

    def curvature(self, z: Vector, y: Labels) -> Vector:
        """See `MarginLoss`; generalised: 1 up to a distance of 1, kinks included, 0 beyond."""
        return (np.abs(z - y) <= 1.0).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Softmax:
    """``log sum_c exp(z_c) - z_y`` with one column a class; ``z`` has shape ``(C, rows)``, ``y`` is intp."""

    kind: ClassVar[LabelKind] = "classes"
    curvature_bound: ClassVar[float] = 0.5

    def probabilities(self, z: Vector) -> Vector:
        """Return ``exp(z_c) / sum_b exp(z_b)``, shape ``(C, rows)``."""
        result: Vector = z - np.maximum.reduce(z, axis=0)
        np.exp(result, out=result)
        result /= np.add.reduce(result, axis=0)
        return result

    def value(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`."""
        shifted = z - np.maximum.reduce(z, axis=0)
        picked = shifted[y, np.arange(y.size)]
        result: Vector = np.log(np.add.reduce(np.exp(shifted, out=shifted), axis=0)) - picked
        return result

    def slope(self, z: Vector, y: Labels) -> Vector:
        """See `Loss`: probabilities, less 1 at the row's own class."""
        result = self.probabilities(z)
        result[y, np.arange(y.size)] -= 1.0
        return result

    def curvature(self, z: Vector, y: Labels) -> Vector:  # noqa: ARG002
        """Return the second derivatives ``p_c (1 - p_c)`` of each class on its own, shape ``(C, rows)``."""
        p = self.probabilities(z)
        return p - p * p

    def slope_change(self, z: Vector, y: Labels) -> Callable[[Vector], Vector]:  # noqa: ARG002
        """See `Loss`: the map ``dz -> p (dz - sum_c p_c dz_c)``."""
        p = self.probabilities(z)

        def change_of_slope(change: Vector) -> Vector:
            result = p * change
            result -= p * np.add.reduce(result, axis=0)
            return result

        return change_of_slope

    def wrong(self, z: Vector, y: Labels) -> int:
        """Count errors; the prediction is the class of the largest margin, the lowest of several."""
        best = z.argmax(axis=0)  # the position of a NaN, where there is one
        right = (best == y) & ~np.isnan(z[best, np.arange(y.size)])
        return y.size - int(np.count_nonzero(right))
