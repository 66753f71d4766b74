"""One message a block of coordinates, whatever their operator, packed into one; blocks may be silent."""

from dataclasses import dataclass, field

import numpy as np

from mpi_opt.compression.base import Codec, Message, Size
from mpi_opt.compression.bits import read_varint, varint_bytes, write_varint
from mpi_opt.compression.messages import Held
from mpi_opt.compression.wire import checked
from mpi_opt.types import Bytes, Mask, Vector


@dataclass(frozen=True, slots=True)
class Silent:
    """The part of a block of which nothing is said."""

    dim: int

    @property
    def count(self) -> int:
        """Return 0."""
        return 0

    def add_to(self, out: Vector, weight: float = 1.0) -> None:
        """Leave ``out`` as it is."""

    def dense(self) -> Vector:
        """Return zeros."""
        return np.zeros(self.dim)

    def floor_bits(self) -> float:
        """Return 0."""
        return 0.0


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


@dataclass(slots=True)
class BlocksCodec:
    """The blocks' messages one after the other, each but the last after its length as a varint.

    Where blocks may be silent a bitmap of those that speak comes first, bit i mod 8 of byte i div 8, from the least
    significant, and only those follow.
    """

    sizes: tuple[int, ...]
    codecs: tuple[Codec, ...]
    partial: bool
    dim: int = field(init=False)
    max_bytes: int = field(init=False)
    _work: Bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        most = [codec.max_bytes for codec in self.codecs]
        self.dim = sum(self.sizes)
        self.max_bytes = self._bitmap + sum(most) + sum(varint_bytes(size) for size in most[:-1])
        self._work = np.empty(max(most), dtype=np.uint8)

    @property
    def _bitmap(self) -> int:
        return bitmap_bytes(len(self.codecs)) if self.partial else 0

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Blocks = checked(message, Blocks, self.dim, self.dim)
        speak = np.array([not isinstance(part, Silent) for part in m.parts])
        spoken = np.flatnonzero(speak).tolist()
        header = at = write_bitmap(speak, self.partial, out)
        payload = 0
        for i in spoken[:-1]:
            size = self.codecs[i].encode(m.parts[i], self._work)
            length = size.header + size.payload
            start = write_varint(length, out, at)
            header += start - at + size.header
            payload += size.payload
            at = start + length
            out[start:at] = self._work[:length]
        last = self.codecs[spoken[-1]].encode(m.parts[spoken[-1]], out[at:])
        return Size(header + last.header, payload + last.payload)

    def decode(self, data: Bytes, sender: int, round: int) -> Blocks:
        """Read one message; raises ``ValueError`` where it is malformed."""
        if data.size > self.max_bytes:
            raise ValueError(f"malformed message: {data.size} bytes, expected at most {self.max_bytes}")
        at = self._bitmap
        spoken = read_bitmap(data, len(self.codecs), self.partial).tolist()
        left = sum(spoken)
        parts: list[Message] = []
        for i, codec in enumerate(self.codecs):
            if not spoken[i]:
                parts.append(Silent(self.sizes[i]))
                continue
            length, left = data.size - at, left - 1
            if left:
                length, at = read_varint(data, at)
            if length > data.size - at:
                raise ValueError(f"malformed message: block {i} of {length} bytes, {data.size - at} are left")
            parts.append(codec.decode(data[at : at + length], sender, round))
            at += length
        return Blocks(tuple(parts))


def bitmap_bytes(blocks: int) -> int:
    """Return the bytes of a bitmap of so many blocks."""
    return -(-blocks // 8)


def write_bitmap(speak: Mask, partial: bool, out: Bytes) -> int:
    """Write which blocks speak, where some may be silent, to the front of ``out``; return the bytes.

    Raises
    ------
    TypeError
        None speaks, or one is silent where none may be.
    """
    spoken = int(np.count_nonzero(speak))
    if not spoken or (not partial and spoken < speak.size):
        raise TypeError(f"this codec cannot leave out {speak.size - spoken} of {speak.size} blocks")
    if not partial:
        return 0
    size = bitmap_bytes(speak.size)
    out[:size] = np.packbits(speak, bitorder="little")
    return size


def read_bitmap(data: Bytes, blocks: int, partial: bool) -> Mask:
    """Return which blocks speak, bool of shape ``(blocks,)``; raises ``ValueError`` where the bytes do not say so."""
    if not partial:
        return np.ones(blocks, dtype=np.bool_)
    bits = np.unpackbits(data[: bitmap_bytes(blocks)], bitorder="little")
    if bits.size < blocks or bits[blocks:].any() or not bits.any():
        raise ValueError(f"malformed message: it does not begin with which of {blocks} blocks speak")
    return bits[:blocks].astype(np.bool_)
