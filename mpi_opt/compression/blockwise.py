"""An operator applied to consecutive blocks of coordinates, each with its own k and scale, in one packed message."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from mpi_opt.compression.base import Codec, Compressor, Message, Size
from mpi_opt.compression.bits import read_varint, varint_bytes, write_varint
from mpi_opt.compression.counts import check_kept
from mpi_opt.compression.messages import Held
from mpi_opt.compression.wire import checked
from mpi_opt.draws import Key
from mpi_opt.errors import JobError
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
        Operator of each block; a share k counts within the block, and a block shorter than k sends all it has.
    sizes : sequence of int
        Length of each block; their sum is the dimension.
    kept : sequence of int or str, optional
        k of each block, in place of that of ``inner``.
    partial : bool, optional
        Whether blocks may be silent (`compress_some`): messages then begin with a bitmap of those that speak.
    """

    inner: Compressor
    sizes: Sequence[int]
    kept: Sequence[int | str] | None = None
    partial: bool = False
    _operators: tuple[Compressor, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(getattr(self.inner, "compress", None)):
            raise JobError(f"compressor.inner = {self.inner!r}: must be a compressor")
        sizes = self.sizes
        fits = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) > 0
        if not fits or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
            raise JobError(f"compressor.sizes = {sizes!r}: must be a list of integers of at least 1")
        object.__setattr__(self, "sizes", tuple(sizes))
        object.__setattr__(self, "kept", None if self.kept is None else tuple(self.kept))
        object.__setattr__(self, "_operators", self._made())

    def compress(self, v: Vector, key: Key) -> Blocks:
        """Return a message for each block; each draws from a seed of its own."""
        return self.compress_some(v, key, np.ones(len(self.sizes), dtype=np.bool_))

    def compress_some(self, v: Vector, key: Key, speak: Mask) -> Blocks:
        """Return a message for each block of those in ``speak``, bool of shape ``(blocks,)``; the others are silent.

        What a block says does not depend on which others speak.
        """
        self._check(v.size)
        parts: list[Message] = []
        start = 0
        for i, (operator, size, speaks) in enumerate(zip(self._operators, self.sizes, speak.tolist(), strict=True)):
            end = start + size
            own = key._replace(seed=_seed(key.seed, i))
            parts.append(operator.compress(v[start:end], own) if speaks else Silent(size))
            start = end
        return Blocks(tuple(parts))

    def omega(self, dim: int) -> float:
        """Return the least omega of the blocks."""
        self._check(dim)
        return min(operator.omega(size) for operator, size in zip(self._operators, self.sizes, strict=True))

    def codec(self, dim: int, seed: int) -> "BlocksCodec":
        """Return the wire format; raises ``JobError`` where the sizes do not add up to ``dim``."""
        self._check(dim)
        both = zip(self._operators, self.sizes, strict=True)
        codecs = (operator.codec(size, _seed(seed, i)) for i, (operator, size) in enumerate(both))
        return BlocksCodec(tuple(self.sizes), tuple(codecs), self.partial)

    def _made(self) -> tuple[Compressor, ...]:
        """Return the operator of each block."""
        k = getattr(self.inner, "k", None)
        if self.kept is None:
            longest = max(self.sizes)
            if isinstance(k, int) and k > longest:
                raise JobError(f"compressor.k = {k}: must be between 1 and the length of the longest block, {longest}")
            return tuple(_with(self.inner, k, size) for size in self.sizes)
        if k is None:
            raise JobError(f"compressor.kept: {type(self.inner).__name__} has no k")
        if len(self.kept) != len(self.sizes):
            raise JobError(f"compressor.kept has {len(self.kept)} entries, must have one a block, {len(self.sizes)}")
        for each in self.kept:
            check_kept(each)
        return tuple(_with(self.inner, each, size) for each, size in zip(self.kept, self.sizes, strict=True))

    def _check(self, dim: int) -> None:
        if sum(self.sizes) != dim:
            raise JobError(f"compressor.sizes add up to {sum(self.sizes)}, must add up to the dimension, {dim}")


def _with(inner: Compressor, k: int | str | None, size: int) -> Compressor:
    """Return ``inner`` with ``k`` at a block of ``size`` entries, all of them where it has fewer."""
    fitting = min(k, size) if isinstance(k, int) else k
    if fitting == getattr(inner, "k", None):
        return inner
    return cast(Compressor, dataclasses.replace(cast(Any, inner), k=fitting))


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
        return -(-len(self.codecs) // 8) if self.partial else 0

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Blocks = checked(message, Blocks, self.dim, self.dim)
        spoken = [i for i, part in enumerate(m.parts) if not isinstance(part, Silent)]
        if not spoken or (not self.partial and len(spoken) < len(m.parts)):
            raise TypeError(f"this codec cannot leave out {len(m.parts) - len(spoken)} of {len(m.parts)} blocks")
        header = at = self._bitmap
        if self.partial:
            bits = np.zeros(len(m.parts), dtype=np.uint8)
            bits[spoken] = 1
            out[:at] = np.packbits(bits, bitorder="little")
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
        spoken = self._speaking(data[:at]) if self.partial else [True] * len(self.codecs)
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

    def _speaking(self, bitmap: Bytes) -> list[bool]:
        """Return which blocks a message holds."""
        bits = np.unpackbits(bitmap, bitorder="little")
        n = len(self.codecs)
        if bits.size < n or bits[n:].any() or not bits.any():
            raise ValueError(f"malformed message: it does not begin with which of {n} blocks speak")
        return [bool(bit) for bit in bits[:n].tolist()]
