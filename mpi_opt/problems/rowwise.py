"""Problems that are a sum of one loss over rows, plus a penalty: written once for all losses and storages."""

from collections.abc import Callable

import numpy as np

from mpi_opt.problems.base import Figures
from mpi_opt.problems.losses import Labels, Loss
from mpi_opt.problems.rows import Matrix, Rows, as_matrix
from mpi_opt.types import Features, Indices, Vector

quiet = np.errstate(over="ignore", invalid="ignore")
"""Where a point is not finite, neither is the result: whoever steps looks at that, and a warning would say it twice."""


class RowwiseProblem:
    """``f(x) = scale * sum_j omega_j loss_j(x) + (l2 / 2) |weights|^2``; implements `problems.base.Problem`.

    ``loss_j`` is the loss at the margins of row j and its label, ``omega_j`` the row's weight, 1 where none are given.

    With one column ``x`` is ``(w_1, ..., w_p[, b])``; with C columns it is the C-ordered array of shape
    ``(p[+1], C)``, flattened, the intercepts in its last row. Intercepts are not penalised. Nothing is remembered
    between calls: the same call gives the same bits. At a point that is not finite the results are not finite
    either, without a warning. Built by `LinearProblem` and `SoftmaxProblem`.

    Parameters
    ----------
    features : ndarray or scipy.sparse CSR, shape (rows, p)
        Kept, not copied, where it is float64 and (dense) C-ordered.
    labels : ndarray, shape (rows,)
        As the loss takes them.
    loss : Loss
        The loss of a row.
    columns : tuple of int
        ``()`` for one column, ``(C,)`` for C.
    l2, scale : float
        Factors of the penalty and of the sum; see `problems.base`.
    intercept : bool
        Whether x ends in intercepts.
    row_weights : ndarray of float64, shape (rows,), or None
        What each row's loss is multiplied by; they are not normalised. ``None`` costs nothing.

    Raises
    ------
    ValueError
        Rows and labels or weights differ in number, or ``l2``, ``scale`` or a weight is negative or not finite.
    """

    def __init__(
        self,
        features: Features,
        labels: Labels,
        loss: Loss,
        columns: tuple[int, ...],
        *,
        l2: float,
        scale: float,
        intercept: bool,
        row_weights: Vector | None = None,
    ) -> None:
        self._matrix = as_matrix(features)
        if labels.shape != (self._matrix.count,):
            raise ValueError(f"labels have shape {labels.shape}; ({self._matrix.count},) is needed, one a row")
        for name, number in (("l2", l2), ("scale", scale)):
            if not (np.isfinite(number) and number >= 0):
                raise ValueError(f"{name} is {number}; a finite number >= 0 is needed")
        if row_weights is not None:
            row_weights = np.ascontiguousarray(row_weights, dtype=np.float64)
            if row_weights.shape != labels.shape:
                raise ValueError(f"row weights have shape {row_weights.shape}; {labels.shape} is needed, one a row")
            if not (np.isfinite(row_weights) & (row_weights >= 0)).all():
                raise ValueError("a row weight is negative or not finite; finite numbers >= 0 are needed")
        self._row_weights = row_weights
        self._labels = labels
        self._loss = loss
        self._columns = columns
        self._l2 = float(l2)
        self._scale = float(scale)
        self._intercept = bool(intercept)
        self._weights = self._matrix.features * self.columns
        self._dim = self._weights + self.columns * self._intercept

    @property
    def dim(self) -> int:
        """Length of x."""
        return self._dim

    @property
    def rows(self) -> int:
        """Rows of the shard, possibly 0."""
        return self._matrix.count

    @property
    def columns(self) -> int:
        """C; 1 for one column."""
        return self._columns[0] if self._columns else 1

    @property
    def intercept(self) -> bool:
        """Whether x ends in intercepts."""
        return self._intercept

    @property
    def l2(self) -> float:
        """Factor of the penalty."""
        return self._l2

    @property
    def nonzeros(self) -> int:
        """Stored entries of the features."""
        return self._matrix.nonzeros

    @property
    def varied(self) -> bool:
        """Whether the shard's labels differ."""
        return bool(self._labels.size) and bool(np.any(self._labels != self._labels[0]))

    def support(self) -> Vector:
        """Return 1.0 for each coordinate that some row touches, else 0.0, shape ``(dim,)``."""
        result = np.full(self._dim, float(self.rows > 0))
        result[: self._weights] = self._matrix.present().repeat(self.columns)
        return result

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
    def penalty(self, x: Vector) -> float:
        """Return ``(l2 / 2) |weights of x|^2``."""
        weights = x[: self._weights]
        return 0.5 * self._l2 * float(np.dot(weights, weights)) if self._l2 else 0.0

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

    def _scaled(self, values: Vector, scale: float, rows: slice | Indices) -> None:
        """Multiply by ``scale`` and the weights of ``rows``, in place: shape ``(rows,)`` or ``(C, rows)``."""
        values *= scale
        if self._row_weights is not None:
            values *= self._row_weights[rows]

    def _sum(self, losses: Vector) -> float:
        """Return the sum of all rows' losses, weighted."""
        return float(losses.sum() if self._row_weights is None else losses @ self._row_weights)

    def _outputs(self, rows: Rows, x: Vector) -> Vector:
        """Return the margins of ``rows`` at x, shape ``(rows,)`` or ``(C, rows)``."""
        if x.shape != (self._dim,):
            raise ValueError(f"the point has shape {x.shape}; ({self._dim},) is needed")
        z = rows.dot(x[: self._weights].reshape(-1, *self._columns))
        if self._intercept:
            z += x[self._weights :].reshape(*self._columns, 1)
        return z

    def _gram(self, rows: Matrix, weights: Vector) -> Vector:
        """Return ``X^T diag(weights) X`` with the intercept's column of ones in X, shape ``(p[+1], p[+1])``."""
        gram = rows.gram(weights)
        if not self._intercept:
            return gram
        p = rows.features
        result = np.empty((p + 1, p + 1))
        result[:p, :p] = gram
        result[p, :p] = 0.0
        rows.add_back(weights, result[p, :p])
        result[:p, p] = result[p, :p]
        result[p, p] = weights.sum()
        return result

    def _penalty_gradient(self, x: Vector, out: Vector | None) -> Vector:
        """Return the gradient of the penalty at x: l2 times the weights, 0 at the intercepts."""
        result = np.multiply(x, self._l2, out=out)
        if self._intercept:
            result[self._weights :] = 0.0
        return result

    def _add_back(self, rows: Rows, slopes: Vector, out: Vector) -> None:
        """Add to ``out`` the derivative in x, given the one in the margins."""
        rows.add_back(slopes, out[: self._weights].reshape(-1, *self._columns))
        if self._intercept:
            out[self._weights :] += np.add.reduce(slopes, axis=-1)
