"""The contracts of compression: an operator C(v) makes a message, a codec puts it on the wire and takes it off.

No rank, no communicator, no job is known here.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mpi_opt.draws import Key
from mpi_opt.types import Bytes, Mask, Vector


class Size(NamedTuple):
    """Bytes of one encoded message; their sum is what is handed to MPI for each neighbour."""

    header: int
    payload: int


@runtime_checkable
class Message(Protocol):
    """What C(v) produced, already rounded to what travels: sender and receivers add exactly the same numbers.

    Immutable. ``dim`` is d, ``count`` the number of entries kept (k' <= k).
    """

    @property
    def dim(self) -> int: ...
    @property
    def count(self) -> int: ...

    def add_to(self, out: Vector, weight: float = 1.0) -> None:
        """Add ``weight * message`` to ``out`` (shape ``(d,)``) in place; O(count), not O(d), for sparse messages."""
        ...

    def dense(self) -> Vector:
        """Return the message as a new float64 vector of shape ``(d,)``."""
        ...

    def floor_bits(self) -> float:
        """Return the information-theoretic size in bits, e.g. ``log2 C(d, k) + k + 32`` for SignTopK."""
        ...


class Codec(Protocol):
    """The wire format of one compressor at one dimension: a plan object with its work buffers allocated once."""

    @property
    def max_bytes(self) -> int:
        """Largest encoded message in bytes; what a receiver posts."""
        ...

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out`` (uint8, at least ``max_bytes`` long)."""
        ...

    def decode(self, data: Bytes, sender: int, round: int) -> Message:
        """Read one message; ``data`` is exactly as long as what was received, and may be overwritten afterwards.

        ``sender`` and ``round`` name the draw of operators whose support is drawn from the shared seed.

        Raises
        ------
        ValueError
            The bytes are no message of this codec.
        """
        ...


class Compressor(Protocol):
    """A compression operator. Frozen dataclass of its parameters; ``compress`` is a pure function."""

    def compress(self, v: Vector, key: Key) -> Message:
        """Return C(v) for finite ``v`` of shape ``(d,)``, which is not modified.

        ``key`` names the draw of random operators: ``Key(seed, sender, Purpose.COMPRESSION, round)``.
        """
        ...

    def omega(self, dim: int) -> float:
        """Return omega in (0, 1] with ``E|v - C(v)|^2 <= (1 - omega)|v|^2`` for every v of shape ``(dim,)``."""
        ...

    def codec(self, dim: int, seed: int) -> Codec:
        """Return the wire format at dimension ``dim``.

        Raises
        ------
        JobError
            The operator does not fit ``dim`` (k > d): names both and what is allowed.
        """
        ...


class Partial(Compressor, Protocol):
    """An operator of blocks that need not all speak."""

    @property
    def sizes(self) -> Sequence[int]:
        """Lengths of the blocks."""
        ...

    def compress_some(self, v: Vector, key: Key, speak: Mask) -> Message:
        """Return the message of the blocks in ``speak``, bool of shape ``(blocks,)``, one at least; others add 0."""
        ...
