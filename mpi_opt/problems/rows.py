"""Rows of features, dense or CSR: the four products that every loss needs, written once for each storage.

Outputs are class-major: a model with C columns gives an array of shape ``(C, rows)``, one with a single column gives
shape ``(rows,)``. Reductions over classes then run along contiguous rows, and BLAS is faster on this shape as well.
"""

from collections.abc import Iterator
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from mpi_opt.types import Features, Indices, Vector

_BLOCK_BYTES = 1 << 19
"""Dense rows are worked through in blocks of about this size, so that the second product finds them in the cache."""

_FEW_NONZEROS = 4096
"""Picks of up to this many entries skip SciPy, whose constructors cost more than the arithmetic (60 us against 16)."""

_DENSE_ROWS = 1024
_SPARSE_PAIR, _DENSE_ENTRY, _DENSE_CELL = 2.1, 5.5, 0.025
"""Nanoseconds of a Gram matrix: for each pair of entries of a row by SciPy, for each entry put into a dense block and
for each cell of a row's outer product there. Only their ratios matter; measured on a9a, w8a, ijcnn1 and covtype."""


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


class PickedRows:
    """A few rows of a CSR matrix, as triplets ``(row, column, value)``.

    Parameters
    ----------
    count : int
        Number of rows, empty ones included.
    owners, columns : ndarray of int, shape (nonzeros,)
        Row, ascending, and column of each stored entry.
    values : ndarray, shape (nonzeros,)
        The entries.
    """

    __slots__ = ("_columns", "_owners", "_values", "count")

    def __init__(self, count: int, owners: Indices, columns: npt.NDArray[np.integer[Any]], values: Vector) -> None:
        self.count = count
        self._owners = owners
        self._columns = columns
        self._values = values

    def dot(self, weights: Vector) -> Vector:
        """See `Rows`."""
        taken = weights.take(self._columns, axis=0)
        if weights.ndim == 1:
            taken *= self._values
            sums: Vector = np.bincount(self._owners, taken, self.count).astype(np.float64, copy=False)
            return sums
        taken *= self._values[:, np.newaxis]
        classes = weights.shape[1]
        cells = np.bincount(_cells(self._owners, classes), taken.reshape(-1), self.count * classes)
        return np.ascontiguousarray(cells.reshape(self.count, classes).T, dtype=np.float64)

    def add_back(self, slopes: Vector, out: Vector) -> None:
        """See `Rows`."""
        if slopes.ndim == 1:
            parts = slopes.take(self._owners)
            parts *= self._values
            np.add.at(out, self._columns, parts)
            return
        rows = slopes.T.take(self._owners, axis=0)
        rows *= self._values[:, np.newaxis]
        # One-dimensional, because add.at is several times slower on rows of a matrix.
        np.add.at(out.reshape(-1), _cells(self._columns, out.shape[1]), rows.reshape(-1))


class SparseRows:
    """Rows of a CSR matrix.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array, shape (rows, features)
        float64; kept, not copied.
    """

    __slots__ = ("_matrix", "_transpose", "count", "features")

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        self._transpose = matrix.T  # the same arrays read as CSC: faster than a transposed copy
        self.count, self.features = matrix.shape

    def dot(self, weights: Vector) -> Vector:
        """See `Rows`."""
        product: Vector = self._matrix @ weights
        return product if weights.ndim == 1 else np.ascontiguousarray(product.T)

    def add_back(self, slopes: Vector, out: Vector) -> None:
        """See `Rows`."""
        out += self._transpose @ slopes.T

    def pick(self, rows: Indices) -> Rows:
        """See `Matrix`."""
        pointers = self._matrix.indptr
        starts = pointers.take(rows)
        lengths = pointers.take(rows + 1) - starts
        ends = lengths.cumsum()
        if rows.size and ends[-1] > _FEW_NONZEROS:
            return SparseRows(self._matrix[rows])
        owners = np.arange(rows.size).repeat(lengths)
        # Entry e of the pick, in row r, stands at starts[r] + (e - first entry of r).
        places = (starts - ends + lengths).take(owners)
        places += np.arange(owners.size)
        return PickedRows(rows.size, owners, self._matrix.indices.take(places), self._matrix.data.take(places))

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """See `Matrix`."""
        if self.count:
            yield slice(0, self.count), self

    def thinned(self, step: int) -> "SparseRows":
        """See `Matrix`."""
        return SparseRows(self._matrix[::step])

    def gram(self, weights: Vector) -> Vector:
        """See `Matrix`."""
        lengths = np.diff(self._matrix.indptr)
        roots, matrix = np.sqrt(weights), self._matrix
        pairs = float(lengths @ lengths.astype(np.float64))
        dense = _DENSE_ENTRY * matrix.nnz + _DENSE_CELL * self.count * self.features**2
        if dense < _SPARSE_PAIR * pairs:
            return _gram_by_blocks(matrix, roots)
        parts = (matrix.data * roots.repeat(lengths), matrix.indices, matrix.indptr)
        scaled = type(matrix)(parts, shape=matrix.shape, copy=False)
        product: Vector = (scaled.T @ scaled).toarray()
        return product

    def squares(self, weights: Vector) -> Vector:
        """See `Matrix`."""
        matrix = self._matrix
        squared = type(matrix)((np.square(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)
        product: Vector = squared.T @ weights.T
        return product

    @property
    def nonzeros(self) -> int:
        """See `Matrix`."""
        return int(self._matrix.nnz)

    def present(self) -> Vector:
        """See `Matrix`."""
        present = np.zeros(self.features)
        present[self._matrix.indices[self._matrix.data != 0.0]] = 1.0
        return present


def _gram_by_blocks(matrix: Any, roots: Vector) -> Vector:
    """Return ``matrix^T diag(roots^2) matrix``, dense, made of dense blocks of rows; for few columns."""
    rows, d = matrix.shape
    size = min(_DENSE_ROWS, max(rows, 1))
    block, total = np.zeros((size, d)), np.zeros((d, d))
    flat, pointers = block.reshape(-1), matrix.indptr
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        piece = slice(pointers[start], pointers[stop])
        lengths = np.diff(pointers[start : stop + 1])
        places = np.arange(0, (stop - start) * d, d).repeat(lengths)
        places += matrix.indices[piece]
        values = matrix.data[piece] * roots[start:stop].repeat(lengths)
        np.add.at(flat, places, values)  # an entry may be stored in parts
        part = block[: stop - start]
        total += np.matmul(part.T, part)
        flat[places] = 0.0
    return total


def _cells(rows: npt.NDArray[np.integer[Any]], width: int) -> Indices:
    """Return the flat places of all entries of ``rows`` of a C-ordered matrix, shape ``(rows * width,)``."""
    return (rows.astype(np.int64)[:, np.newaxis] * width + np.arange(width)).reshape(-1)


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

    if features.dtype == np.float64 and isinstance(features, csr_array):
        return SparseRows(features)
    return SparseRows(csr_array(features, dtype=np.float64))


def _is_csr(features: Features) -> TypeGuard[Any]:
    """Return whether this is one of SciPy's CSR classes, without importing SciPy for it."""
    return getattr(features, "format", None) == "csr" and hasattr(features, "indptr")
