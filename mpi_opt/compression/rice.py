"""Supports as Rice-coded gaps in two streams.

A support of n ascending indices below d is n gaps (zeros skipped before each index). With parameter b a gap is its low
b bits, and its high part in unary: that many 0s, then a 1. All low parts come first, plane by plane, then all unary
parts as one stream, whose j-th 1 (from 0) stands at position j + (sum of the high parts up to j). So both streams are
read without a loop. At b = 0 the unary stream is the support's bitmap, cut after its last 1: the bitmap needs no format
of its own and never costs more than d bits.

For indices drawn at random this is within about 1 % of log2 C(d, n).
"""

import numpy as np

from mpi_opt.compression.bits import read_planes, write_planes
from mpi_opt.types import Bytes, Indices

MAX_PARAMETER = 31
"""The parameter fits the header's five bits."""


def _safe_parameter(dim: int, count: int) -> int:
    """Return the parameter whose worst case, `max_bits`, is the least."""
    return min(MAX_PARAMETER, max(0, ((dim - count) // count).bit_length() - 1))


def max_bits(dim: int, count: int) -> int:
    """Return the most bits that a support of ``1 <= count`` or fewer indices takes with the parameter of `plan`.

    ``count (b + 1) + (dim - count) / 2^b`` grows with ``count`` for every b, so its least over b does too; `plan`
    looks at that b first and takes another only where it is shorter.
    """
    b = _safe_parameter(dim, count)
    return count * (b + 1) + ((dim - count) >> b)


def gaps_of(indices: Indices) -> Indices:
    """Return the zeros skipped before each of the ascending ``indices``."""
    gaps = indices.copy()
    gaps[1:] -= indices[:-1]
    gaps[1:] -= 1
    return gaps


def plan(gaps: Indices, dim: int) -> tuple[int, int]:
    """Return a good parameter and the bits that ``gaps`` (not empty) take with it, at most `max_bits`."""
    b = _safe_parameter(dim, gaps.size)
    size = gaps.size * (b + 1) + int((gaps >> b).sum())
    while b:
        shorter = gaps.size * b + int((gaps >> (b - 1)).sum())
        if shorter >= size:
            break
        b, size = b - 1, shorter
    return b, size


def write_gaps(gaps: Indices, b: int, bits: Bytes) -> None:
    """Write ``gaps`` with parameter ``b`` into ``bits``, which has exactly their size."""
    low = gaps.size * b
    if b:
        write_planes(gaps & ((1 << b) - 1), b, bits[:low])
    unary = bits[low:]
    unary[:] = 0
    unary[np.cumsum((gaps >> b) + 1) - 1] = 1


def read_indices(bits: Bytes, b: int, count: int, dim: int) -> tuple[Indices, int]:
    """Return the ``count >= 1`` indices at the front of ``bits``, and how many bits they took.

    ``bits`` must hold nothing but 0s after them.

    Raises
    ------
    ValueError
        The bits hold more or fewer than ``count`` indices, or one is not below ``dim``.
    """
    low = count * b
    if bits.size < low:
        raise ValueError(f"malformed message: it ends within the {count} indices announced")
    ones = np.flatnonzero(bits[low:])
    if ones.size != count:
        raise ValueError(f"malformed message: {count} indices announced, {ones.size} found")
    indices = ones
    used = low + int(ones[-1]) + 1
    if b:
        order = np.arange(count)
        indices = ((ones - order) << b) + np.cumsum(read_planes(bits[:low], b, count)) + order
    if indices[-1] >= dim:
        raise ValueError(f"malformed message: index {int(indices[-1])} of {dim} coordinates")
    return indices, used
