"""Compression operators, read from the papers: C(v) as a dense float64 vector, already rounded to what travels.

Values and scales travel as fp32 (``bits=32``) or unrounded (``bits=64``). Random operators take their random numbers as
an argument. The twins call a compressor as ``compress(v, node, round)``; wrap these with a lambda or `always`.
"""

import numpy as np


def rounded(values, bits):
    """Return ``values`` as they arrive: through fp32 and back for ``bits=32``."""
    if bits == 64:
        return np.asarray(values, dtype=float)
    return np.asarray(values).astype(np.float32).astype(float)


def always(operator, *arguments, **options):
    """Return ``compress(v, node, round)`` for an operator that depends on neither node nor round."""
    return lambda v, node, round: operator(v, *arguments, **options)


def largest(v, k):
    """Return the indices, ascending, of the k largest |v|: ties go to the lowest index, zeros are never kept."""
    order = sorted(range(v.size), key=lambda j: (-abs(v[j]), j))[:k]
    return np.array(sorted(j for j in order if v[j] != 0), dtype=int)


def identity(v, bits=32):
    """C(v) = v."""
    return rounded(v, bits)


def top_k(v, k, bits=32):
    """Keep the k entries of largest magnitude."""
    q = np.zeros(v.size)
    kept = largest(v, k)
    q[kept] = rounded(v[kept], bits)
    return q


def random_k(v, support, bits=32):
    """Keep the entries of ``support``, the k coordinates drawn."""
    q = np.zeros(v.size)
    q[support] = rounded(v[support], bits)
    return q


def sign_top_k(v, k, bits=32):
    """Qsparse-local-SGD (arXiv 1906.02367), m = 1: (|T|_1 / k') sign(T) with T = top-k of v, k' its non-zeros."""
    q = np.zeros(v.size)
    kept = largest(v, k)
    if kept.size:
        q[kept] = rounded(np.abs(v[kept]).mean(), bits) * np.sign(v[kept])
    return q


def scaled_sign(v, bits=32):
    """(|v|_1 / d) sign(v), with sign(0) = +1."""
    return rounded(np.abs(v).mean(), bits) * np.where(v >= 0, 1.0, -1.0)


def beta(d, s):
    """Return QSGD's variance bound beta_{d,s} = min(d / s^2, sqrt(d) / s)."""
    return min(d / s**2, d**0.5 / s)


def qsgd(v, s, uniform, shrink=False, bits=32):
    """QSGD with s levels: |v| sign(v) floor(s |v| / |v|_2 + u) / s; ``shrink`` divides by 1 + beta."""
    norm = rounded(np.linalg.norm(v), bits)
    if norm == 0:
        return np.zeros(v.size)
    level = np.minimum(np.floor(s * np.abs(v) / norm + uniform), s)
    return norm * np.sign(v) * level / s / (1 + beta(v.size, s) if shrink else 1)


def qsgd_top_k(v, k, s, uniform, bits=32):
    """QSGD of the k kept entries, times 1 / (1 + beta_{k,s}); ``uniform`` holds one number a kept entry."""
    q = np.zeros(v.size)
    kept = largest(v, k)
    if kept.size:
        q[kept] = qsgd(v[kept], s, uniform[: kept.size], shrink=True, bits=bits)
    return q
