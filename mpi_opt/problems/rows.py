"""Rows of features, dense or CSR: the products that every loss needs, written once for each storage.

Here are what the two have in common, and the dense ones; CSR is in `sparse_rows`.

Outputs are class-major: a model with C columns gives an array of shape ``(C, rows)``, one with a single column gives
shape ``(rows,)``. Reductions over classes then run along contiguous rows, and BLAS is faster on this shape as well.
"""

from collections.abc import Iterator
from typing import Any, Protocol, TypeGuard

import numpy as np

from mpi_opt.types import Features, Indices, Vector

_BLOCK_BYTES = 1 << 19
"""Dense rows are worked through in blocks of about this size, so that the second product finds them in the cache."""


class Rows(Protocol):
    """Rows of features ``X`` with shape ``(rows, features)``."""

    @property
    def count(self) -> int:
        """Number of rows."""
        ...

    def dot(self, weights: Vector) -> Vector:
        """Return ``X w``, shape ``(rows,)``; for weights of shape ``(features, C)`` ``(X W)^T``, ``(C, rows)``."""
        ...

    def add_back(self, slopes: Vector, out: Vector) -> None:
        """Add ``X^T slopes`` to ``out``: shapes ``(rows,)``, ``(features,)`` or ``(C, rows)``, ``(features, C)``."""
        ...


class Matrix(Rows, Protocol):
    """All rows of a shard."""

    @property
    def features(self) -> int:
        """Number of columns."""
        ...

    def pick(self, rows: Indices) -> Rows:
        """Return the rows numbered ``rows``, in that order, repeated ones repeated; O(what is picked)."""
        ...

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """Yield consecutive pieces that are best worked on one at a time; none when there are no rows."""
        ...

    def thinned(self, step: int) -> "Matrix":
        """Return every ``step``-th row, from the first on."""
        ...

    def gram(self, weights: Vector) -> Vector:
        """Return ``X^T diag(weights) X``, dense ``(features, features)``, for weights >= 0 of shape ``(rows,)``."""
        ...

    def squares(self, weights: Vector) -> Vector:
        """Return ``(X * X)^T weights``: shapes ``(rows,)``, ``(features,)`` or ``(C, rows)``, ``(features, C)``."""
        ...

    @property
    def nonzeros(self) -> int:
        """Stored entries."""
        ...

    def present(self) -> Vector:
        """Return 1.0 for each column with an entry that is not zero, else 0.0, shape ``(features,)``."""
        ...


class DenseRows:
    """Rows of a C-ordered float64 array.

    Parameters
    ----------
    array : ndarray, shape (rows, features)
        Kept, not copied.
    """

    __slots__ = ("_array", "count", "features")

    def __init__(self, array: Vector) -> None:
        self._array = array
        self.count, self.features = array.shape

    def dot(self, weights: Vector) -> Vector:
        """See `Rows`."""
        product: Vector
        product = np.matmul(self._array, weights) if weights.ndim == 1 else np.matmul(weights.T, self._array.T)
        return product

    def add_back(self, slopes: Vector, out: Vector) -> None:
        """See `Rows`."""
        product = np.matmul(slopes, self._array)
        out += product.T

    def pick(self, rows: Indices) -> "DenseRows":
        """See `Matrix`."""
        return DenseRows(self._array.take(rows, axis=0))

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """See `Matrix`."""
        size = max(64, _BLOCK_BYTES // (8 * max(self.features, 1)))
        for start in range(0, self.count, size):
            piece = slice(start, min(start + size, self.count))
            yield piece, DenseRows(self._array[piece])

    def thinned(self, step: int) -> "DenseRows":
        """See `Matrix`; a view."""
        return DenseRows(self._array[::step])

    def gram(self, weights: Vector) -> Vector:
        """See `Matrix`."""
        total = np.zeros((self.features, self.features))
        roots = np.sqrt(weights)[:, np.newaxis]
        for piece, _ in self.blocks():
            scaled = self._array[piece] * roots[piece]
            # A^T A of one array goes to syrk: half the work, and symmetric to the last bit.
            total += np.matmul(scaled.T, scaled)
        return total

    def squares(self, weights: Vector) -> Vector:
        """See `Matrix`."""
        total: Vector = np.zeros((*weights.shape[:-1], self.features))
        for piece, _ in self.blocks():
            total += np.matmul(weights[..., piece], np.square(self._array[piece]))
        transposed: Vector = total.T
        return transposed

    @property
    def nonzeros(self) -> int:
        """See `Matrix`; a dense array stores all its entries."""
        return int(self._array.size)

    def present(self) -> Vector:
        """See `Matrix`."""
        present: Vector = np.any(self._array, axis=0).astype(np.float64)
        return present


def as_matrix(features: Features) -> Matrix:
    """Return the products for ``features``.

    Parameters
    ----------
    features : ndarray or scipy.sparse CSR, shape (rows, features)
        Copied only where it is not float64 or, if dense, not C-ordered.

    Raises
    ------
    TypeError
        Neither an array nor CSR.
    ValueError
        Not two-dimensional.
    """
    if isinstance(features, np.ndarray):
        if features.ndim != 2:
            raise ValueError(f"features have {features.ndim} dimension(s); 2 are needed, (rows, features)")
        return DenseRows(np.ascontiguousarray(features, dtype=np.float64))
    if not _is_csr(features):
        raise TypeError(f"features are {type(features).__name__}; a NumPy array or a SciPy CSR array is needed")
    from scipy.sparse import csr_array  # only here: a dense run never loads SciPy

    from mpi_opt.problems.sparse_rows import SparseRows

    if features.dtype == np.float64 and isinstance(features, csr_array):
        return SparseRows(features)
    return SparseRows(csr_array(features, dtype=np.float64))


def _is_csr(features: Features) -> TypeGuard[Any]:
    """Return whether this is one of SciPy's CSR classes, without importing SciPy for it."""
    return getattr(features, "format", None) == "csr" and hasattr(features, "indptr")
