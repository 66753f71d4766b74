"""Blocks of which each keeps its k largest, written as one: one support for all, a scale a block, no lengths.

```
bitmap of the blocks that speak, where some may be silent | header (`header`) of all entries together
floats: a scale for each block that speaks, 0 where it keeps nothing; or k' values
bits: k' signs, support | 0s to a whole byte
```

Places count within the speaking blocks, laid end to end. How many entries a block has follows from them. The zero
message ends after its header.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mpi_opt.compression import rice
from mpi_opt.compression.base import Message, Size
from mpi_opt.compression.blocks import bitmap_bytes, read_bitmap, write_bitmap
from mpi_opt.compression.header import Kind, header_bytes, read_header, write_kind, write_rice
from mpi_opt.compression.messages import OnSupport, OnValues, log2_binomial, signed
from mpi_opt.compression.wire import check_end, checked, float_type, read_floats, write_floats
from mpi_opt.types import Bytes, Indices, Mask, Vector

_support_bits = lru_cache(maxsize=4096)(log2_binomial)  # k and d of a block hardly change


@dataclass(frozen=True, slots=True, eq=False)
class JointSigns(OnSupport):
    """``scales[b]`` times a sign at those of ``indices`` that are in block b.

    ``sizes``, ``speak``, ``counts`` (entries kept) and ``scales`` have one entry a block; a silent block keeps none,
    and its scale is 0.
    """

    dim: int
    sizes: Indices
    speak: Mask
    counts: Indices
    indices: Indices
    negative: Mask
    scales: Vector
    value_bits: int = 32

    def entries(self) -> Vector:
        """Return the values at ``indices``."""
        return signed(np.repeat(self.scales, self.counts), self.negative)

    def floor_bits(self) -> float:
        """Return the sum over blocks of log2 C(d_b, k_b) + k_b + 32 bits."""
        return _floor(self.sizes, self.counts) + self.count + self.value_bits * int(np.count_nonzero(self.counts))


@dataclass(frozen=True, slots=True, eq=False)
class JointValues(OnValues):
    """Values, none of them zero, at ``indices``; ``sizes``, ``speak`` and ``counts`` as in `JointSigns`."""

    dim: int
    sizes: Indices
    speak: Mask
    counts: Indices
    indices: Indices
    values: Vector
    value_bits: int = 32

    def floor_bits(self) -> float:
        """Return the sum over blocks of log2 C(d_b, k_b), and the bits of the values."""
        return _floor(self.sizes, self.counts) + self.value_bits * self.count


Joint = JointSigns | JointValues


def _floor(sizes: Indices, counts: Indices) -> float:
    return sum(map(_support_bits, sizes.tolist(), counts.tolist()))


@dataclass(slots=True)
class JointCodec:
    """The wire format of `JointSigns` or `JointValues`. A plan object: one user at a time.

    Parameters
    ----------
    sizes, most : ndarray of int64, shape (blocks,)
        Length of each block, and the most entries it may have.
    signs : bool
        Whether messages hold signs and scales, else values.
    value_bits : int
        32 or 64.
    partial : bool
        Whether blocks may be silent.
    """

    sizes: Indices
    most: Indices
    signs: bool
    value_bits: int
    partial: bool
    dim: int = field(init=False)
    max_bytes: int = field(init=False)
    _all: int = field(init=False, repr=False)
    _bits: Bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.dim, self._all = int(self.sizes.sum()), int(self.most.sum())
        most_bits = self._all * self.signs + rice.max_bits(self.dim, self._all)
        floats = self.sizes.size if self.signs else self._all
        width = float_type(self.value_bits).itemsize
        self.max_bytes = self._bitmap + header_bytes(self._all) + floats * width + -(-most_bits // 8)
        self._bits = np.empty(most_bits, dtype=np.uint8)

    @property
    def _bitmap(self) -> int:
        return bitmap_bytes(self.sizes.size) if self.partial else 0

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Joint = checked(message, JointSigns if self.signs else JointValues, self.dim, self._all)
        at = write_bitmap(m.speak, self.partial, out)
        count = m.indices.size
        if not count:
            return Size(at + write_kind(Kind.EMPTY, out[at:]), 0)
        own = total = count * self.signs
        if count == int(self.sizes @ m.speak):
            at += write_kind(Kind.ALL, out[at:])
        else:
            gaps = rice.gaps_of(m.indices - self._shift(m.speak, m.counts))
            b, support = rice.plan(gaps, int(self.sizes @ m.speak))
            total += support
            rice.write_gaps(gaps, b, self._bits[own:total])
            at += write_rice(b, count, out[at:])
        if isinstance(m, JointSigns):
            floats = m.scales[m.speak]
            self._bits[:own] = m.negative
        else:
            floats = m.values
        start = write_floats(floats, out, at, float_type(self.value_bits), floats.size)
        packed = np.packbits(self._bits[:total], bitorder="little")
        end = start + packed.size
        out[start:end] = packed
        return Size(at, end - at)

    def decode(self, data: Bytes, sender: int, round: int) -> Joint:  # noqa: ARG002 (the contract's)
        """Read one message; raises ``ValueError`` where it is malformed."""
        speak = read_bitmap(data, self.sizes.size, self.partial)
        data = data[self._bitmap :]
        lengths, most = self.sizes[speak], int(self.most @ speak)
        width, kind = int(lengths.sum()), float_type(self.value_bits)
        kinds = (Kind.EMPTY, Kind.ALL, Kind.RICE) if most == width else (Kind.EMPTY, Kind.RICE)
        head = read_header(data, kinds, most, self.max_bytes)
        counts = np.zeros(self.sizes.size, dtype=np.int64)
        if head.kind is Kind.EMPTY:
            none, no_bits = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
            return self._message(speak, counts, none, no_bits, np.zeros(lengths.size if self.signs else 0))
        count = head.entries if head.kind is Kind.RICE else width
        floats = read_floats(data, head.end, kind, lengths.size if self.signs else count)
        bits = np.unpackbits(data[head.end + floats.size * kind.itemsize :], bitorder="little")
        used = own = count * self.signs
        if head.kind is Kind.RICE:
            places, support = rice.read_indices(bits[own:], head.parameter, count, width)
            used += support
        else:
            places = np.arange(width)
        check_end(bits, used)
        counts[speak] = np.diff(np.searchsorted(places, np.cumsum(lengths)), prepend=0)
        if (counts > self.most).any():
            raise ValueError("malformed message: a block has more entries than it may")
        wrong = (floats > 0) != (counts[speak] > 0) if self.signs else floats == 0
        if wrong.any():
            raise ValueError("malformed message: a value is zero, or a scale does not fit its block")
        return self._message(speak, counts, places + self._shift(speak, counts), bits[:own].astype(np.bool_), floats)

    def _message(self, speak: Mask, counts: Indices, indices: Indices, negative: Mask, floats: Vector) -> Joint:
        if not self.signs:
            return JointValues(self.dim, self.sizes, speak, counts, indices, floats, self.value_bits)
        scales = np.zeros(self.sizes.size)
        scales[speak] = floats
        return JointSigns(self.dim, self.sizes, speak, counts, indices, negative, scales, self.value_bits)

    def _shift(self, speak: Mask, counts: Indices) -> Any:
        """Return, for each entry, the coordinates of silent blocks before it."""
        if speak.all():
            return 0
        return np.repeat(np.cumsum(np.where(speak, 0, self.sizes)), counts)
