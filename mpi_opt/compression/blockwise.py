"""An operator applied to consecutive blocks of coordinates, each with its own k and scale, in one packed message."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mpi_opt.compression.base import Codec, Compressor, Message, Size
from mpi_opt.compression.bits import read_varint, varint_bytes, write_varint
from mpi_opt.compression.messages import Held
from mpi_opt.compression.wire import checked
from mpi_opt.draws import Key
from mpi_opt.errors import JobError
from mpi_opt.types import Bytes, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Blocks(Held):
    """One message for each block of consecutive coordinates; block i has ``parts[i].dim`` of them."""

    parts: tuple[Message, ...]

    @property
    def dim(self) -> int:
        """Return d."""
        return sum(part.dim for part in self.parts)

    @property
    def count(self) -> int:
        """Return the entries kept in all blocks."""
        return sum(part.count for part in self.parts)

    def add_to(self, out: Vector, weight: float = 1.0) -> None:
        """Add ``weight * message`` to ``out`` in place."""
        start = 0
        for part in self.parts:
            part.add_to(out[start : start + part.dim], weight)
            start += part.dim

    def dense(self) -> Vector:
        """Return the message as a new vector."""
        return np.concatenate([part.dense() for part in self.parts])

    def floor_bits(self) -> float:
        """Return the sum over blocks."""
        return sum(part.floor_bits() for part in self.parts)


def _seed(seed: int, block: int) -> int:
    """Return the seed of a block; the first keeps the run's, so that one block is the operator itself."""
    return seed + (block << 64)


@dataclass(frozen=True, slots=True)
class Blockwise:
    """C(v) = (C_inner(block 1), C_inner(block 2), ...), say one block for each layer's weights.

    A heavy-tailed layer then does not set the scale of the others, and each keeps a share of its entries. In a job:
    ``{ name = "blockwise", sizes = [7840, 10], inner = { name = "sign-top-k", k = "1%" } }``.

    Parameters
    ----------
    inner : Compressor
        Operator of each block; a share k counts within the block.
    sizes : sequence of int
        Length of each block; their sum is the dimension.
    last : Compressor, optional
        Operator of the last block, where that is shorter and ``inner`` keeps more entries than it has; else ``inner``.
    """

    inner: Compressor
    sizes: Sequence[int]
    last: Compressor | None = None

    def __post_init__(self) -> None:
        if not callable(getattr(self.inner, "compress", None)):
            raise JobError(f"compressor.inner = {self.inner!r}: must be a compressor")
        if self.last is not None and not callable(getattr(self.last, "compress", None)):
            raise JobError(f"compressor.last = {self.last!r}: must be a compressor")
        sizes = self.sizes
        fits = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) > 0
        if not fits or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
            raise JobError(f"compressor.sizes = {sizes!r}: must be a list of integers of at least 1")
        object.__setattr__(self, "sizes", tuple(sizes))

    def compress(self, v: Vector, key: Key) -> Blocks:
        """Return a message for each block; each draws from a seed of its own."""
        self._check(v.size)
        parts, start = [], 0
        for i, (operator, size) in enumerate(self._blocks()):
            own = key._replace(seed=_seed(key.seed, i))
            parts.append(operator.compress(v[start : start + size], own))
            start += size
        return Blocks(tuple(parts))

    def omega(self, dim: int) -> float:
        """Return the least omega of the blocks."""
        self._check(dim)
        return min(operator.omega(size) for operator, size in self._blocks())

    def codec(self, dim: int, seed: int) -> "BlocksCodec":
        """Return the wire format; raises ``JobError`` where the sizes do not add up to ``dim`` or k is over one."""
        self._check(dim)
        codecs = (operator.codec(size, _seed(seed, i)) for i, (operator, size) in enumerate(self._blocks()))
        return BlocksCodec(dim, tuple(codecs))

    def _blocks(self) -> Iterator[tuple[Compressor, int]]:
        """Yield the operator and the length of each block."""
        for size in self.sizes[:-1]:
            yield self.inner, size
        yield self.inner if self.last is None else self.last, self.sizes[-1]

    def _check(self, dim: int) -> None:
        if sum(self.sizes) != dim:
            raise JobError(f"compressor.sizes add up to {sum(self.sizes)}, must add up to the dimension, {dim}")


@dataclass(slots=True)
class BlocksCodec:
    """The blocks' messages one after the other, each but the last after its length as a varint."""

    dim: int
    codecs: tuple[Codec, ...]
    max_bytes: int = field(init=False)
    _work: Bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = [codec.max_bytes for codec in self.codecs]
        self.max_bytes = sum(sizes) + sum(varint_bytes(size) for size in sizes[:-1])
        self._work = np.empty(max(sizes), dtype=np.uint8)

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Blocks = checked(message, Blocks, self.dim, self.dim)
        header = payload = at = 0
        for codec, part in zip(self.codecs[:-1], m.parts[:-1], strict=True):
            size = codec.encode(part, self._work)
            length = size.header + size.payload
            start = write_varint(length, out, at)
            header += start - at + size.header
            payload += size.payload
            at = start + length
            out[start:at] = self._work[:length]
        last = self.codecs[-1].encode(m.parts[-1], out[at:])
        return Size(header + last.header, payload + last.payload)

    def decode(self, data: Bytes, sender: int, round: int) -> Blocks:
        """Read one message; raises ``ValueError`` where it is malformed."""
        if data.size > self.max_bytes:
            raise ValueError(f"malformed message: {data.size} bytes, expected at most {self.max_bytes}")
        parts: list[Message] = []
        at, n = 0, len(self.codecs)
        for i, codec in enumerate(self.codecs):
            length = data.size - at
            if i < n - 1:
                length, at = read_varint(data, at)
            if length > data.size - at:
                raise ValueError(f"malformed message: block {i} of {length} bytes, {data.size - at} are left")
            parts.append(codec.decode(data[at : at + length], sender, round))
            at += length
        return Blocks(tuple(parts))
