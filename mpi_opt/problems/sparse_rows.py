"""Rows of features in CSR: a whole shard, and the few rows of a batch. See `rows` for what they have in common."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.problems.rows import Rows
from mpi_opt.types import Indices, Vector

_FEW_NONZEROS = 4096
"""Picks of up to this many entries skip SciPy, whose constructors cost more than the arithmetic (60 us against 16)."""

_DENSE_ROWS = 1024
_SPARSE_PAIR, _DENSE_ENTRY, _DENSE_CELL = 2.1, 5.5, 0.025
"""Nanoseconds of a Gram matrix: for each pair of entries of a row by SciPy, for each entry put into a dense block and
for each cell of a row's outer product there. Only their ratios matter; measured on a9a, w8a, ijcnn1 and covtype."""


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
