"""The k entries of largest magnitude, with their values."""

from dataclasses import dataclass

from mpi_opt.compression.counts import check_kept, check_value_bits, kept
from mpi_opt.compression.messages import Sparse
from mpi_opt.compression.rounding import round_values
from mpi_opt.compression.selection import largest
from mpi_opt.compression.wire import SparseCodec
from mpi_opt.draws import Key
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class TopK:
    """Top_k: the ``min(k, non-zeros)`` entries of largest magnitude, ties to the lowest index.

    A kept value that rounds to zero in fp32 does not travel.

    Parameters
    ----------
    k : int or str
        Entries kept, or a share of the dimension such as ``"1%"``.
    value_bits : int
        32 or 64 bits a value.
    """

    k: int | str
    value_bits: int = 32

    def __post_init__(self) -> None:
        check_kept(self.k)
        check_value_bits(self.value_bits)

    def compress(self, v: Vector, key: Key) -> Sparse:
        """Return the kept entries; raises ``DivergedError`` where a value does not fit ``value_bits``."""
        indices = largest(v, kept(self.k, v.size))
        values = round_values(v[indices], self.value_bits, key)
        alive = values != 0.0
        if not alive.all():
            indices, values = indices[alive], values[alive]
        return Sparse(v.size, indices, values, self.value_bits)

    def omega(self, dim: int) -> float:
        """Return k/d, attained by vectors of equal magnitudes."""
        return kept(self.k, dim) / dim

    def codec(self, dim: int, seed: int) -> SparseCodec:  # noqa: ARG002 (the contract's)
        """Return the wire format at dimension ``dim``; raises ``JobError`` where k > d."""
        return SparseCodec(dim, kept(self.k, dim), self.value_bits)
