"""Least, largest, mean and standard deviation of every column over the rows of all nodes, exact to the last bit or so.

Floating-point sums depend on the order of their terms, so that a figure would change with the number of nodes. Here the
terms are cut into slices on grids coarse enough that adding up any number of slices of one grid never rounds; the sum
is then the same bits however the rows are split and ordered, and more accurate than a plain one. The idea is that of
reproducible summation (Demmel, Nguyen 2013, IEEE ARITH 21).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Features, Vector

_ENTRIES = 1 << 16
"""Entries worked on at a time, so that they stay in the cache."""

_COLUMNS = 1 << 16
"""Columns summed over processes at a time: each process receives as many numbers from every other."""

_DIGITS = 53  # of a float64


@dataclass(frozen=True, slots=True)
class Range:
    """Least and largest value of every column, zeros that a sparse set does not store among them.

    Attributes
    ----------
    rows : int
        N, of all nodes together.
    least, largest : ndarray of float64, shape (features,)
    filled : ndarray of float64, shape (features,)
        Stored entries of each column; N for dense sets.
    """

    rows: int
    least: Vector
    largest: Vector
    filled: Vector

    @property
    def size(self) -> Vector:
        """The largest magnitude of every column."""
        return np.maximum(np.abs(self.least), np.abs(self.largest))

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which columns hold one value, rounding apart."""
        # half of each: the difference of two large numbers may not fit
        spread = 0.5 * self.largest - 0.5 * self.least
        result: npt.NDArray[np.bool_] = spread <= 5.0 * np.finfo(np.float64).eps * self.size
        return result


def column_range(parts: Sequence[Features], features: int, collectives: Collectives) -> Range:
    """Return the range of every column over all nodes; called by all processes together.

    Parameters
    ----------
    parts : sequence of ndarray or csr_array, each shape (rows, features)
        The rows of this process's nodes.
    features : int
    collectives : Collectives
    """
    least, largest, filled = np.full(features, np.inf), np.full(features, -np.inf), np.zeros(features)
    for columns, values in _pieces(parts):
        if columns is None:
            np.minimum(least, values.min(axis=0), out=least)
            np.maximum(largest, values.max(axis=0), out=largest)
            filled += values.shape[0]
        else:
            np.minimum.at(least, columns, values)
            np.maximum.at(largest, columns, values)
            filled += np.bincount(columns, minlength=features)
    rows = int(collectives.sum(np.array([sum(part.shape[0] for part in parts)]))[0])
    least, largest = -collectives.max(-least), collectives.max(largest)
    filled = _summed(filled, collectives)
    bare = filled < rows
    least[bare] = np.minimum(least[bare], 0.0)
    largest[bare] = np.maximum(largest[bare], 0.0)
    return Range(rows, least, largest, filled)


def moments(parts: Sequence[Features], within: Range, collectives: Collectives) -> tuple[Vector, Vector]:
    """Return mean and standard deviation (over N, not N - 1) of every column; called by all processes together.

    Two passes: the deviations are taken from the mean itself. Where numbers do not fit a float64 the result is not
    finite.

    Parameters
    ----------
    parts : sequence of ndarray or csr_array, each shape (rows, features)
        The rows of this process's nodes.
    within : Range
        As `column_range` returns it for the same rows.
    collectives : Collectives
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = _exact_sum(parts, within.size, within.rows, lambda values, _: values, collectives)
        mean: Vector = np.clip(total / within.rows, within.least, within.largest)
        bound = np.maximum(np.square(within.least - mean), np.square(within.largest - mean))

        def deviation(values: Vector, columns: Any) -> Vector:
            result: Vector = np.square(values - mean[columns])
            return result

        square = _exact_sum(parts, bound, within.rows, deviation, collectives)
        # zeros that are not stored lie as far from the mean as it does from them
        square += (within.rows - within.filled) * np.square(mean)
        deviations: Vector = np.sqrt(square / within.rows)
    return mean, deviations


def _exact_sum(
    parts: Sequence[Features],
    bound: Vector,
    rows: int,
    of: Callable[[Vector, Any], Vector],
    collectives: Collectives,
) -> Vector:
    """Return the sum over all rows of ``of(values, columns)``, whose magnitude is at most ``bound``, by column.

    With terms up to 2^m and fewer than 2^b of them, ``(x + 1.5 2^e) - 1.5 2^e`` at ``e = m + b`` is x rounded to a
    multiple of 2^(e - 52): sums of such slices stay below 2^53 multiples, so they are exact. What is left of x is at
    most 2^(e - 53), and is cut in the same way.
    """
    bits = max(1, rows.bit_length())
    gained = _DIGITS - bits
    levels = -(-(_DIGITS + 1 + bits) // gained)  # so that what is dropped stays below the last bit of the sum
    top = np.frexp(bound)[1] + bits
    anchors = [np.ldexp(1.5, top - level * gained) for level in range(levels)]
    totals = np.zeros((levels, bound.size))
    for columns, values in _pieces(parts):
        rest = of(values, slice(None) if columns is None else columns)
        for total, anchor in zip(totals, anchors, strict=True):
            coarse = anchor if columns is None else anchor[columns]
            piece = (rest + coarse) - coarse
            rest = rest - piece
            total += piece.sum(axis=0) if columns is None else np.bincount(columns, piece, bound.size)
    result = np.zeros(bound.size)
    for total in totals[::-1]:
        result += _summed(total, collectives)
    return result


def _pieces(parts: Sequence[Features]) -> Iterator[tuple[Any, Vector]]:
    """Yield rows of dense parts as ``(None, values)``, entries of sparse ones as ``(columns, values)``."""
    for part in parts:
        if isinstance(part, np.ndarray):
            step = max(1, _ENTRIES // max(1, part.shape[1]))
            for begin in range(0, part.shape[0], step):
                yield None, part[begin : begin + step]
        else:
            # a piece also costs a pass over all columns
            step = max(_ENTRIES, part.shape[1])
            for begin in range(0, part.data.size, step):
                yield part.indices[begin : begin + step], part.data[begin : begin + step]


def _summed(numbers: Vector, collectives: Collectives) -> Vector:
    """Return the sum over processes."""
    pieces = [collectives.sum(numbers[at : at + _COLUMNS]) for at in range(0, numbers.size, _COLUMNS)]
    return np.concatenate(pieces)
