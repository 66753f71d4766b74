"""Problems that are a sum of one loss over rows, plus a penalty: written once for all losses and storages."""

from collections.abc import Callable

import numpy as np

from mpi_opt.problems.base import Figures
from mpi_opt.problems.modelled import ModelledRows, quiet
from mpi_opt.types import Indices, Vector


class RowwiseProblem(ModelledRows):
    """``f(x) = scale * sum_j omega_j loss_j(x) + (l2 / 2) |weights|^2``; implements `problems.base.Problem`.

    ``loss_j`` is the loss at the margins of row j and its label, ``omega_j`` the row's weight, 1 where none are given.

    With one column ``x`` is ``(w_1, ..., w_p[, b])``; with C columns it is the C-ordered array of shape
    ``(p[+1], C)``, flattened, the intercepts in its last row. Intercepts are not penalised. Nothing is remembered
    between calls: the same call gives the same bits. At a point that is not finite the results are not finite
    either, without a warning. Built by `LinearProblem` and `SoftmaxProblem`.

    Parameters
    ----------
    features, labels, loss, columns, l2, scale, intercept, row_weights
        See `ModelledRows`.
    """

    def center(self, p: Vector) -> None:
        """Leave ``p`` as it is: with one column every direction changes a margin or the penalty."""

    @quiet
    def hessian_diagonal(self, x: Vector) -> Vector:
        """Return the diagonal of the Hessian of f at x, shape ``(dim,)``."""
        curvature = self._loss.curvature(self._outputs(self._matrix, x), self._labels)
        self._scaled(curvature, self._scale, slice(None))
        result = np.empty(self._dim)
        result[: self._weights] = self._matrix.squares(curvature).reshape(-1)
        result[: self._weights] += self._l2
        if self._intercept:
            result[self._weights :] = np.add.reduce(curvature, axis=-1)
        return result

    @quiet
    def shared_curvature(self, x: Vector, rows: int) -> Vector:
        """Return the mean over columns of the Hessian's diagonal blocks, about ``rows`` rows standing for all.

        Parameters
        ----------
        x : ndarray, shape (dim,)
            The point.
        rows : int
            Rows to look at, at least 1; they are evenly spaced in the shard.

        Returns
        -------
        ndarray, shape (p[+1], p[+1])
            Symmetric, with l2 added where a weight is penalised.
        """
        step = max(1, round(self.rows / rows))
        some = self._matrix.thinned(step)
        curvature = self._loss.curvature(self._outputs(some, x), self._labels[::step])
        if self._columns:
            curvature = np.add.reduce(curvature, axis=0) / self.columns
        self._scaled(curvature, self._scale * self.rows / max(some.count, 1), slice(None, None, step))
        result = self._gram(some, curvature)
        weights = np.arange(self._matrix.features)
        result[weights, weights] += self._l2
        return result

    @quiet
    def value(self, x: Vector) -> float:
        """Return f(x)."""
        losses = self._loss.value(self._outputs(self._matrix, x), self._labels)
        return self._scale * self._sum(losses) + self.penalty(x)

    def gradient(self, x: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at x, shape ``(dim,)``, written to ``out`` where given (``out`` may be x)."""
        return self._gradient(x, None, out)

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
        return self._gradient(x, rows, out)

    @quiet
    def hvp_at(self, x: Vector) -> Callable[[Vector], Vector]:
        """Return the map v -> (Hessian of f at x) v; each call of it returns a new array of shape ``(dim,)``.

        Squared hinge and Huber have a generalised Hessian (see their ``curvature``).
        """
        pieces = [
            (piece, block, self._loss.slope_change(self._outputs(block, x), self._labels[piece]))
            for piece, block in self._matrix.blocks()
        ]

        @quiet
        def product(v: Vector) -> Vector:
            result = self._penalty_gradient(v, None)
            for piece, block, slope_change in pieces:
                slopes = slope_change(self._outputs(block, v))
                self._scaled(slopes, self._scale, piece)
                self._add_back(block, slopes, result)
            return result

        return product

    @quiet
    def value_along(self, x: Vector, p: Vector) -> Callable[[float], float]:
        """Return the map a -> f(x + a p) for line searches: the margins of x and p are computed once."""
        z, dz = self._outputs(self._matrix, x), self._outputs(self._matrix, p)
        w, dw = x[: self._weights], p[: self._weights]
        square, mixed, square_p = float(w @ w), float(w @ dw), float(dw @ dw)

        @quiet
        def value(a: float) -> float:
            losses = self._loss.value(z + a * dz, self._labels)
            return self._scale * self._sum(losses) + 0.5 * self._l2 * (square + a * (2 * mixed + a * square_p))

        return value

    @quiet
    def figures(self, x: Vector) -> Figures:
        """Return loss sum (unscaled, without penalty, the rows weighted), errors and rows of the shard at x."""
        z = self._outputs(self._matrix, x)
        loss = self._sum(self._loss.value(z, self._labels))
        return Figures(loss, self._loss.wrong(z, self._labels), self._matrix.count)

    @quiet
    def _gradient(self, x: Vector, rows: Indices | None, out: Vector | None) -> Vector:
        if rows is not None:
            batch = self._matrix.pick(rows)
            slopes = self._loss.slope(self._outputs(batch, x), self._labels.take(rows))
            self._scaled(slopes, self._scale * self._matrix.count / max(batch.count, 1), rows)
            result = self._penalty_gradient(x, out)
            self._add_back(batch, slopes, result)
            return result
        result = self._penalty_gradient(x, None)  # not yet in out: later blocks still read x, which out may be
        for piece, block in self._matrix.blocks():
            slopes = self._loss.slope(self._outputs(block, x), self._labels[piece])
            self._scaled(slopes, self._scale, piece)
            self._add_back(block, slopes, result)
        if out is None:
            return result
        np.copyto(out, result)
        return out
