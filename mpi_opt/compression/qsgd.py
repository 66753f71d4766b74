"""Stochastic quantization to s levels, of all coordinates or of the k largest."""

import math
from dataclasses import dataclass

import numpy as np

from mpi_opt.compression.counts import check_kept, check_levels, check_value_bits, kept
from mpi_opt.compression.messages import Levels
from mpi_opt.compression.rounding import round_scale
from mpi_opt.compression.selection import largest
from mpi_opt.compression.wire_levels import LevelsCodec
from mpi_opt.draws import Key
from mpi_opt.types import Indices, Vector


def variance_bound(entries: int, levels: int) -> float:
    """Return beta = min(n/s^2, sqrt(n)/s): E|Q_s(v)|^2 <= (1 + beta)|v|^2 for n entries (QSGD, arXiv 1610.02132)."""
    return min(entries / levels**2, math.sqrt(entries) / levels)


def _norm(values: Vector) -> float:
    """Return |values| without overflow or underflow of the squares."""
    with np.errstate(over="ignore", under="ignore"):
        square = float(np.dot(values, values))
    if 1e-250 < square < math.inf or values.size == 0:
        return math.sqrt(square)
    peak = float(np.abs(values).max())
    if not 0.0 < peak < math.inf:
        return peak
    scaled = values / peak
    return peak * math.sqrt(float(np.dot(scaled, scaled)))


def divisor(entries: int, levels: int) -> float:
    """Return s (1 + beta): a level times the norm over this is the value of an entry."""
    return levels * (1.0 + variance_bound(entries, levels))


def _quantize(
    dim: int, indices: Indices | None, values: Vector, entries: int, levels: int, value_bits: int, key: Key
) -> Levels:
    """Return Q_s(values) / (1 + beta) at ``indices`` (all coordinates where None), levels of 0 left out."""
    norm = round_scale(_norm(values), value_bits, key)
    if norm:
        # floor(y + u) is y rounded up with probability y - floor(y). No level exceeds s but by the norm's rounding.
        steps = np.abs(values)
        steps /= norm
        steps *= levels
        steps += key.generator().random(values.size)
        quantized = np.minimum(steps, levels, out=steps).astype(np.uint16)
        inside = np.flatnonzero(quantized)
    else:
        quantized, inside = np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.int64)
    return Levels(
        dim,
        inside if indices is None else indices[inside],
        values[inside] < 0.0,
        quantized[inside],
        norm if inside.size else 0.0,
        levels,
        divisor(entries, levels),
        value_bits,
    )


@dataclass(frozen=True, slots=True)
class QSGD:
    """Q_s(v) / (1 + beta_d): each |v_i| / |v| rounded up or down to a multiple of 1/s, right in the mean.

    The division makes a contraction of the unbiased quantizer whatever s is (the unscaled one contracts only where
    beta_d < 1) and is never the worse one.

    Parameters
    ----------
    levels : int
        s, 1 to 65,535.
    value_bits : int
        32 or 64 bits for the norm |v|.
    """

    levels: int
    value_bits: int = 32

    def __post_init__(self) -> None:
        check_levels(self.levels)
        check_value_bits(self.value_bits)

    def compress(self, v: Vector, key: Key) -> Levels:
        """Return the quantized vector; raises ``DivergedError`` where the norm does not fit ``value_bits``."""
        return _quantize(v.size, None, v, v.size, self.levels, self.value_bits, key)

    def omega(self, dim: int) -> float:
        """Return 1 / (1 + beta_d), in the mean."""
        return 1.0 / (1.0 + variance_bound(dim, self.levels))

    def codec(self, dim: int, seed: int) -> LevelsCodec:  # noqa: ARG002 (the contract's)
        """Return the wire format at dimension ``dim``."""
        return LevelsCodec(dim, dim, self.levels, divisor(dim, self.levels), self.value_bits)


@dataclass(frozen=True, slots=True)
class QSGDTopK:
    """Q_s(Top_k(v)) / (1 + beta_k), the scaled Qsparse operator (Basu et al. 2019, arXiv 1906.02367).

    Parameters
    ----------
    k : int or str
        Entries kept, or a share of the dimension such as ``"1%"``. Those that fall to level 0 do not travel.
    levels : int
        s, 1 to 65,535.
    value_bits : int
        32 or 64 bits for the norm |Top_k(v)|.
    """

    k: int | str
    levels: int
    value_bits: int = 32

    def __post_init__(self) -> None:
        check_kept(self.k)
        check_levels(self.levels)
        check_value_bits(self.value_bits)

    def compress(self, v: Vector, key: Key) -> Levels:
        """Return the quantized entries; raises ``DivergedError`` where the norm does not fit ``value_bits``."""
        k = kept(self.k, v.size)
        indices = largest(v, k)
        return _quantize(v.size, indices, v[indices], k, self.levels, self.value_bits, key)

    def omega(self, dim: int) -> float:
        """Return k / (d (1 + beta_k)), in the mean."""
        k = kept(self.k, dim)
        return k / (dim * (1.0 + variance_bound(k, self.levels)))

    def codec(self, dim: int, seed: int) -> LevelsCodec:  # noqa: ARG002 (the contract's)
        """Return the wire format at dimension ``dim``; raises ``JobError`` where k > d."""
        k = kept(self.k, dim)
        return LevelsCodec(dim, k, self.levels, divisor(k, self.levels), self.value_bits)
