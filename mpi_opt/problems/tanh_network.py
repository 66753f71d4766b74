"""A small network with one hidden layer of tanh: smooth and not convex, with its own derivatives.

For studies and tests of methods where convexity is not there to help, and as a model of how a user's own function
comes into the package: it is handed to `mpi_opt.minimize` or to `run.loop` as it is. Job files do not know it.

| in the paper's letters | here | shape | meaning |
|---|---|---|---|
| a_j, y_j | ``features``, ``labels`` | (rows, p), (rows,) | row j and its label |
| W, b | the first and third part of x | (h, p), (h,) | hidden layer and its intercepts |
| v, c | the second and the last part of x | (h,), () | output layer and its intercept |
| t_j | | (h,) | tanh(W a_j + b) |
| z_j | | | v . t_j + c, the margin that the loss takes |
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mpi_opt.problems.base import Figures
from mpi_opt.problems.labels import check_mapped_labels
from mpi_opt.problems.losses import MarginLoss
from mpi_opt.problems.modelled import quiet
from mpi_opt.types import Indices, Vector


class _Parts(NamedTuple):
    """Views into a point: W (h, p), v (h,), b (h,), c (1,)."""

    W: Vector
    v: Vector
    b: Vector
    c: Vector


class TanhNetwork:
    """``f(x) = scale * sum_j loss(v . tanh(W a_j + b) + c; y_j) + (l2 / 2) (|W|^2 + |v|^2)`` on one shard.

    The point is ``x = (W in C order, v, b, c)``, length ``h (p + 2) + 1``; intercepts b and c are not penalised. At
    x = 0 all derivatives but c's vanish, so runs start elsewhere. Implements `problems.base.Problem`; it is not a
    `SecondOrder` problem, for local Newton methods need convexity. Nothing is remembered between calls.

    Parameters
    ----------
    features : ndarray, shape (rows, p)
        float64, dense.
    labels : ndarray, shape (rows,)
        As the loss takes them: -1/+1, or real.
    loss : MarginLoss
        One of `problems.losses`, twice differentiable where ``hvp_at`` is to be exact.
    hidden : int
        h, at least 1.
    l2, scale : float
        See `problems.base`.

    Raises
    ------
    DataError
        The labels do not fit the loss.
    ValueError
        Shapes that do not fit, ``hidden`` below 1, or ``l2`` or ``scale`` negative or not finite.
    """

    def __init__(
        self, features: Vector, labels: Vector, loss: MarginLoss, *, hidden: int, l2: float, scale: float
    ) -> None:
        self._features = np.ascontiguousarray(features, dtype=np.float64)
        self._labels: Vector = np.ascontiguousarray(labels, dtype=np.float64)
        if self._features.ndim != 2 or self._labels.shape != self._features.shape[:1]:
            raise ValueError(
                f"features have shape {self._features.shape} and labels {self._labels.shape}; "
                "(rows, p) and (rows,) are needed"
            )
        if hidden < 1:
            raise ValueError(f"hidden is {hidden}; at least 1 is needed")
        for name, number in (("l2", l2), ("scale", scale)):
            if not (np.isfinite(number) and number >= 0):
                raise ValueError(f"{name} is {number}; a finite number >= 0 is needed")
        check_mapped_labels(loss.kind, self._labels, type(loss).__name__)
        self._loss = loss
        self._hidden = hidden
        self._l2, self._scale = float(l2), float(scale)
        self._weights: int = hidden * (self._features.shape[1] + 1)

    @property
    def dim(self) -> int:
        """Length of x: ``h (p + 2) + 1``."""
        return self._weights + self._hidden + 1

    @property
    def rows(self) -> int:
        """Rows of the shard, possibly 0."""
        return len(self._labels)

    @quiet
    def value(self, x: Vector) -> float:
        """Return f(x)."""
        _, z = self._forward(self._parts(x), self._features)
        return self._scale * float(self._loss.value(z, self._labels).sum()) + self.penalty(x)

    def gradient(self, x: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at x, shape ``(dim,)``, written to ``out`` where given (``out`` may be x)."""
        return self.sampled_gradient(x, None, out)

    @quiet
    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Vector:
        """Return the gradient with the row sum replaced by ``(N_i / len(rows)) * (sum over rows)``.

        Parameters
        ----------
        x : ndarray, shape (dim,)
            The point.
        rows : ndarray of int64, shape (batch,), or None
            Rows of the shard, in 0..N_i-1; ``None`` means all. An empty batch leaves the penalty's gradient.
        out : ndarray, shape (dim,), optional
            Where the result goes; may be x.
        """
        at = self._parts(x)
        features, labels, scale = self._features, self._labels, self._scale
        if rows is not None:
            features, labels = features.take(rows, axis=0), labels.take(rows)
            scale *= self.rows / max(rows.size, 1)
        t, z = self._forward(at, features)
        slopes = self._loss.slope(z, labels)
        slopes *= scale
        before = slopes[:, None] * at.v
        before *= 1.0 - t * t
        result = np.empty(self.dim) if out is None else out
        # In this order v and W are read before they are overwritten, should out be x.
        penalised = self._l2 * x[: self._weights]
        to = self._parts(result)
        np.matmul(before.T, features, out=to.W)
        np.matmul(slopes, t, out=to.v)
        result[: self._weights] += penalised
        np.add.reduce(before, axis=0, out=to.b)
        to.c[0] = np.add.reduce(slopes)
        return result

    @quiet
    def hvp_at(self, x: Vector) -> Callable[[Vector], Vector]:
        """Return the map d -> (Hessian of f at x) d, which has negative eigenvalues too; a new array each call."""
        at = self._parts(x.copy())
        t, z = self._forward(at, self._features)
        slopes = self._scale * self._loss.slope(z, self._labels)
        curvature = self._scale * self._loss.curvature(z, self._labels)
        inner = 1.0 - t * t

        @quiet
        def product(direction: Vector) -> Vector:
            d = self._parts(direction)
            dt = inner * (self._features @ d.W.T + d.b)
            ds = curvature * (dt @ at.v + t @ d.v + d.c)
            # The slope in the hidden layer's input is s v (1 - t^2), a product of three that all change.
            change = inner * (ds[:, None] * at.v + slopes[:, None] * d.v) - 2.0 * slopes[:, None] * at.v * t * dt
            result = np.empty(self.dim)
            to = self._parts(result)
            to.W[:] = change.T @ self._features
            to.v[:] = slopes @ dt + ds @ t
            result[: self._weights] += self._l2 * direction[: self._weights]
            to.b[:] = change.sum(axis=0)
            to.c[0] = ds.sum()
            return result

        return product

    @quiet
    def figures(self, x: Vector) -> Figures:
        """Return loss sum (unscaled, without penalty), errors and rows of the shard at x."""
        _, z = self._forward(self._parts(x), self._features)
        losses = self._loss.value(z, self._labels)
        return Figures(float(losses.sum()), self._loss.wrong(z, self._labels), self.rows)

    @quiet
    def penalty(self, x: Vector) -> float:
        """Return ``(l2 / 2) (|W|^2 + |v|^2)``."""
        weights = x[: self._weights]
        return 0.5 * self._l2 * float(weights @ weights)

    def _parts(self, x: Vector) -> _Parts:
        if x.shape != (self.dim,):
            raise ValueError(f"the point has shape {x.shape}; ({self.dim},) is needed")
        h, w = self._hidden, self._weights
        return _Parts(x[: w - h].reshape(h, -1), x[w - h : w], x[w : w + h], x[w + h :])

    def _forward(self, at: _Parts, features: Vector) -> tuple[Vector, Vector]:
        """Return t, shape ``(rows, h)``, and z, shape ``(rows,)``."""
        t = features @ at.W.T
        t += at.b
        np.tanh(t, out=t)
        z = t @ at.v
        z += at.c
        return t, z
