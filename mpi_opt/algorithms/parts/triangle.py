"""A symmetric matrix as its upper triangle: what travels is d (d + 1) / 2 numbers, not d^2."""

import functools

import numpy as np

from mpi_opt.types import Indices, Vector


@functools.lru_cache(maxsize=4)
def _places(d: int) -> Indices:
    """Return the flat places of the upper triangle of a (d, d) C-ordered matrix, row by row."""
    rows, columns = np.triu_indices(d)
    return rows * d + columns


def fold(matrix: Vector) -> Vector:
    """Return the upper triangle of ``matrix``, shape ``(d, d)``, as a new vector of d (d + 1) / 2 numbers."""
    return matrix.reshape(-1).take(_places(matrix.shape[0]))


def unfold(triangle: Vector, d: int) -> Vector:
    """Return the symmetric matrix, shape ``(d, d)``, of an upper triangle."""
    matrix = np.zeros((d, d))
    matrix.reshape(-1)[_places(d)] = triangle
    diagonal = np.einsum("ii->i", matrix).copy()
    matrix += matrix.T
    np.einsum("ii->i", matrix)[:] = diagonal
    return matrix
