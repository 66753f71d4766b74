"""The wire format of quantized levels: that of messages with a support, and a plain one where few levels are 0."""

import numpy as np

from mpi_opt.compression.base import Message, Size
from mpi_opt.compression.bits import read_planes, write_planes
from mpi_opt.compression.header import Kind, read_header, write_kind
from mpi_opt.compression.messages import Levels
from mpi_opt.compression.wire import SupportCodec, check_end, checked, positive, read_floats, write_floats
from mpi_opt.types import Bytes, Indices


class LevelsCodec(SupportCodec):
    """Quantized levels and one norm, of qsgd and qsgd-top-k.

    Where few levels are 0 and s is no power of 2, ``PLAIN`` is shorter than a support: d levels in 0..s, then the signs
    of those above 0.
    """

    __slots__ = ("divisor", "top")
    top: int
    divisor: float

    def __init__(self, dim: int, most: int, top: int, divisor: float, value_bits: int) -> None:
        super().__init__(dim, most, value_bits, bits_each=1 + (top - 1).bit_length(), floats_each=False)
        self.top = top
        self.divisor = divisor

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Levels = checked(message, Levels, self.dim, self.most)
        count = m.count
        # Plain is the shorter one only where most levels are above 0; a support is its bitmap there.
        if 0 < count < self.dim and self._plain_bits(count) <= count * self.bits_each + int(m.indices[-1]):
            return self._encode_plain(m, out)

        def fill(bits: Bytes) -> None:
            bits[:count] = m.negative
            write_planes(m.levels - np.uint16(1), self.bits_each - 1, bits[count:])

        return self.write(m.indices, m.norm, fill, out)

    def decode(self, data: Bytes, sender: int, round: int) -> Levels:  # noqa: ARG002 (the contract's)
        """Read one message; raises ``ValueError`` where it is malformed."""
        head = read_header(data, (*self.kinds(), Kind.PLAIN), self.most, self.max_bytes)
        if head.kind is Kind.EMPTY:
            none = np.empty(0, dtype=np.int64)
            return self._message(none, none, np.empty(0, dtype=np.uint8), 0.0)
        if head.kind is Kind.PLAIN:
            return self._decode_plain(data)
        indices, norm, bits = self.read(data, head)
        levels = read_planes(bits[indices.size :], self.bits_each - 1, indices.size) + 1
        return self._message(indices, levels, bits[: indices.size], positive(norm))

    def _message(self, indices: Indices, levels: Indices, negative: Bytes, norm: float) -> Levels:
        if levels.size and levels.max() > self.top:
            raise ValueError(f"malformed message: level {int(levels.max())} of {self.top}")
        return Levels(
            self.dim,
            indices,
            negative.astype(np.bool_),
            levels.astype(np.uint16),
            norm,
            self.top,
            self.divisor,
            self.value_bits,
        )

    def _plain_bits(self, count: int) -> int:
        return self.dim * self.top.bit_length() + count

    def _encode_plain(self, m: Levels, out: Bytes) -> Size:
        levels = np.zeros(self.dim, dtype=np.uint16)
        levels[m.indices] = m.levels
        total = self._plain_bits(m.count)
        bits = self.bits[:total]
        write_planes(levels, self.top.bit_length(), bits[: total - m.count])
        bits[total - m.count :] = m.negative
        header = write_kind(Kind.PLAIN, out)
        at = write_floats(m.norm, out, header, self.kind, 1)
        packed = np.packbits(bits, bitorder="little")
        out[at : at + packed.size] = packed
        return Size(header, at + packed.size - header)

    def _decode_plain(self, data: Bytes) -> Levels:
        norm = read_floats(data, 1, self.kind, 1)
        bits = np.unpackbits(data[1 + self.kind.itemsize :], bitorder="little")
        own = self._plain_bits(0)
        if bits.size < own:
            raise ValueError(f"malformed message: it ends within the {self.dim} levels")
        levels = read_planes(bits[:own], self.top.bit_length(), self.dim)
        indices = np.flatnonzero(levels)
        if not 0 < indices.size <= self.most:
            raise ValueError(f"malformed message: {indices.size} levels above 0, allowed are 1 to {self.most}")
        check_end(bits, own + indices.size)
        return self._message(indices, levels[indices], bits[own : own + indices.size], positive(norm))
