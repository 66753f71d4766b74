"""The k largest magnitudes of a vector, exactly, without sorting or partitioning all of it."""

import math

import numpy as np

from mpi_opt.types import Indices, Vector

_DIRECT = 1024
"""Below this length a plain partition is faster than a sampled threshold."""
_CHUNK = 65536
"""Entries scanned at a time; their magnitudes (512 KiB) stay in the second-level cache."""
_SAMPLE = 16384
"""Entries looked at to guess a threshold."""


def largest(v: Vector, k: int) -> Indices:
    """Return the indices of the ``min(k, non-zeros)`` largest ``|v_i|``, ascending, int64.

    Ties go to the lowest index and zeros are never taken. A threshold guessed from a strided sample leaves slightly
    more than k candidates, among which an exact partition decides; a guess that leaves too few costs one partition
    of everything. The answer is the same either way.

    Where NaNs leave fewer than k numbers to take, the NaNs are returned, so that rounding finds them; otherwise they
    are passed over. Callers check ``|v|^2`` first.
    """
    if k >= v.size:
        return np.flatnonzero(v)
    if v.size <= _DIRECT:
        return _exact(np.abs(v), k)
    threshold = _guess(v, k)
    if threshold is not None:
        candidates = _at_least(v, threshold) if threshold > 0.0 else np.flatnonzero(v)
        if candidates.size >= k:
            return candidates[_exact(np.abs(v[candidates]), k)]
        if threshold == 0.0:
            return candidates
    return _exact(np.abs(v), k)


def _exact(magnitudes: Vector, k: int) -> Indices:
    """Return the positions of the k largest of ``magnitudes``, by one partition."""
    cut = np.partition(magnitudes, magnitudes.size - k)[magnitudes.size - k]
    if cut == 0.0:
        return np.flatnonzero(magnitudes)
    chosen = np.flatnonzero(magnitudes >= cut)
    if chosen.size < k:
        return np.flatnonzero(np.isnan(magnitudes))
    if chosen.size > k:
        tied = np.flatnonzero(magnitudes[chosen] == cut)
        chosen = np.delete(chosen, tied[k - chosen.size :])
    return chosen


def _guess(v: Vector, k: int) -> float | None:
    """Return a threshold that about k entries, and hardly ever fewer, reach; None where a sample cannot tell.

    It is 0 where there seem to be fewer than k non-zeros.
    """
    # An odd stride does not lock on to the columns of a weight matrix.
    stride = max(8, v.size // _SAMPLE) | 1
    sample = np.abs(v[::stride])
    expected = k * sample.size / v.size
    rank = int(expected + 4.0 * math.sqrt(expected)) + 4
    if rank >= sample.size:
        return None
    return float(np.partition(sample, sample.size - rank)[sample.size - rank])


def _at_least(v: Vector, threshold: float) -> Indices:
    """Return the ascending indices with ``|v_i| >= threshold > 0``."""
    if v.size <= _CHUNK:
        return np.flatnonzero(np.abs(v) >= threshold)
    hit = np.empty(v.size, dtype=np.bool_)
    magnitudes = np.empty(_CHUNK)
    for start in range(0, v.size, _CHUNK):
        piece = v[start : start + _CHUNK]
        np.greater_equal(np.abs(piece, out=magnitudes[: piece.size]), threshold, out=hit[start : start + piece.size])
    return np.flatnonzero(hit)
