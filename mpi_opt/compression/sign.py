"""One bit a coordinate and one scale: of all coordinates, or of the k largest."""

from dataclasses import dataclass

import numpy as np

from mpi_opt.compression.counts import check_kept, check_value_bits, kept
from mpi_opt.compression.messages import DenseSigns, Signs
from mpi_opt.compression.rounding import round_scale
from mpi_opt.compression.selection import largest
from mpi_opt.compression.wire import SignsCodec
from mpi_opt.compression.wire_dense import DenseSignsCodec
from mpi_opt.draws import Key
from mpi_opt.types import Vector


def _mean_magnitude(values: Vector) -> float:
    with np.errstate(over="ignore"):
        return float(np.abs(values).sum()) / values.size


@dataclass(frozen=True, slots=True)
class Sign:
    """C(v) = (|v|_1 / d) sign(v) with sign(0) = +1.

    The zero vector, and one whose scale rounds to zero in fp32, give the zero message.

    Parameters
    ----------
    value_bits : int
        32 or 64 bits for the scale.
    """

    value_bits: int = 32

    def __post_init__(self) -> None:
        check_value_bits(self.value_bits)

    def compress(self, v: Vector, key: Key) -> DenseSigns:
        """Return all signs; raises ``DivergedError`` where the scale does not fit ``value_bits``."""
        scale = round_scale(_mean_magnitude(v), self.value_bits, key)
        return DenseSigns(v < 0.0 if scale else np.zeros(v.size, dtype=np.bool_), scale, self.value_bits)

    def omega(self, dim: int) -> float:
        """Return 1/d, attained by a single spike; |v|_1^2 / (d |v|^2) for a given v."""
        return 1.0 / dim

    def codec(self, dim: int, seed: int) -> DenseSignsCodec:  # noqa: ARG002 (the contract's)
        """Return the wire format at dimension ``dim``."""
        return DenseSignsCodec(dim, self.value_bits)


@dataclass(frozen=True, slots=True)
class SignTopK:
    """SignTop_k: the signs of T, the ``min(k, non-zeros)`` entries of largest magnitude, times the mean of |T|.

    Ties go to the lowest index. Where the scale rounds to zero in fp32 nothing is kept. From Qsparse-local-SGD (Basu et
    al. 2019, arXiv 1906.02367), the operator of SPARQ-SGD's experiments; the mean is the best single scale.

    Parameters
    ----------
    k : int or str
        Entries kept, or a share of the dimension such as ``"1%"``.
    value_bits : int
        32 or 64 bits for the scale.
    """

    k: int | str
    value_bits: int = 32

    def __post_init__(self) -> None:
        check_kept(self.k)
        check_value_bits(self.value_bits)

    def compress(self, v: Vector, key: Key) -> Signs:
        """Return the kept signs; raises ``DivergedError`` where the scale does not fit ``value_bits``."""
        indices = largest(v, kept(self.k, v.size))
        values = v[indices]
        scale = round_scale(_mean_magnitude(values), self.value_bits, key) if indices.size else 0.0
        if not scale:
            indices, values = indices[:0], values[:0]
        return Signs(v.size, indices, values < 0.0, scale, self.value_bits)

    def omega(self, dim: int) -> float:
        """Return min(1/k, k/d), approached by one spike and attained by equal magnitudes.

        Exactly |T|_1^2 / (k |v|^2) for a given v.
        """
        k = kept(self.k, dim)
        return min(1.0 / k, k / dim)

    def codec(self, dim: int, seed: int) -> SignsCodec:  # noqa: ARG002 (the contract's)
        """Return the wire format at dimension ``dim``; raises ``JobError`` where k > d."""
        return SignsCodec(dim, kept(self.k, dim), self.value_bits)
