"""k entries drawn from a seed that every node knows, so that no index travels."""

from dataclasses import dataclass

import numpy as np

from mpi_opt.compression.counts import check_kept, check_value_bits, kept
from mpi_opt.compression.messages import SharedSupport
from mpi_opt.compression.rounding import round_values
from mpi_opt.compression.wire_dense import SharedSupportCodec
from mpi_opt.draws import Key, Purpose
from mpi_opt.types import Indices, Vector


def draw_support(dim: int, count: int, key: Key) -> Indices:
    """Return ``count`` of ``dim`` indices, uniform without replacement, ascending.

    A function of the key alone for one version of NumPy: nodes that talk to each other run the same one.
    """
    return np.sort(key.generator().choice(dim, count, replace=False, shuffle=False))


@dataclass(frozen=True, slots=True)
class RandomK:
    """Rand_k: the values of k entries drawn afresh for each message, not rescaled (a projection).

    All k values travel, zeros too. The draw is ``Key(seed, sender, Purpose.COMPRESSION, round)``, whose seed must be
    the codec's.

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

    def compress(self, v: Vector, key: Key) -> SharedSupport:
        """Return the drawn entries; raises ``DivergedError`` where a value does not fit ``value_bits``."""
        indices = draw_support(v.size, kept(self.k, v.size), key)
        return SharedSupport(v.size, indices, round_values(v[indices], self.value_bits, key), self.value_bits)

    def omega(self, dim: int) -> float:
        """Return k/d, the exact mean for every vector."""
        return kept(self.k, dim) / dim

    def codec(self, dim: int, seed: int) -> SharedSupportCodec:
        """Return the wire format at dimension ``dim``; raises ``JobError`` where k > d."""
        count = kept(self.k, dim)

        def draw(sender: int, round: int) -> Indices:
            return draw_support(dim, count, Key(seed, sender, Purpose.COMPRESSION, round))

        return SharedSupportCodec(dim, count, self.value_bits, draw)
