"""A shard's rows, labels and weights beside the shape of a model: from a point to margins, and back."""

import numpy as np

from mpi_opt.problems.losses import Labels, Loss
from mpi_opt.problems.rows import Matrix, Rows, as_matrix
from mpi_opt.types import Features, Indices, Vector

quiet = np.errstate(over="ignore", invalid="ignore")
"""Where a point is not finite, neither is the result: whoever steps looks at that, and a warning would say it twice."""


class ModelledRows:
    """What `RowwiseProblem` is made of; its page says how x is laid out.

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

    @quiet
    def penalty(self, x: Vector) -> float:
        """Return ``(l2 / 2) |weights of x|^2``."""
        weights = x[: self._weights]
        return 0.5 * self._l2 * float(np.dot(weights, weights)) if self._l2 else 0.0

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
