"""No compression: every value travels."""

from dataclasses import dataclass

from mpi_opt.compression.counts import check_value_bits
from mpi_opt.compression.messages import Dense
from mpi_opt.compression.rounding import round_values
from mpi_opt.compression.wire_dense import DenseCodec
from mpi_opt.draws import Key
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Identity:
    """C(v) = v, rounded to ``value_bits``. With it CHOCO-SGD is D-PSGD.

    Parameters
    ----------
    value_bits : int
        32 or 64 bits a value.
    """

    value_bits: int = 32

    def __post_init__(self) -> None:
        check_value_bits(self.value_bits)

    def compress(self, v: Vector, key: Key) -> Dense:
        """Return all of ``v``; raises ``DivergedError`` where a value does not fit ``value_bits``."""
        return Dense(round_values(v, self.value_bits, key), self.value_bits)

    def omega(self, dim: int) -> float:  # noqa: ARG002 (the contract's)
        """Return 1, up to the rounding of values (1 - 2^-48 with 32 bits)."""
        return 1.0

    def codec(self, dim: int, seed: int) -> DenseCodec:  # noqa: ARG002 (the contract's)
        """Return the wire format at dimension ``dim``."""
        return DenseCodec(dim, self.value_bits)
