"""The wire format of messages without a support of their own: a header byte, then floats or signs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpi_opt.compression.base import Message, Size
from mpi_opt.compression.header import Kind, read_header, write_kind
from mpi_opt.compression.messages import Dense, DenseSigns, SharedSupport
from mpi_opt.compression.wire import check_end, checked, float_type, positive, read_floats, write_floats
from mpi_opt.types import Bytes, Indices, Vector


def _read_all(data: Bytes, kind: np.dtype[Any], count: int, max_bytes: int) -> Vector:
    head = read_header(data, (Kind.ALL,), count, max_bytes)
    if data.size != max_bytes:
        raise ValueError(f"malformed message: {data.size} bytes, expected {max_bytes}")
    return read_floats(data, head.end, kind, count)


@dataclass(slots=True)
class DenseCodec:
    """All d values."""

    dim: int
    value_bits: int
    max_bytes: int = field(init=False)
    kind: np.dtype[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.kind = float_type(self.value_bits)
        self.max_bytes = 1 + self.dim * self.kind.itemsize

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Dense = checked(message, Dense, self.dim, self.dim)
        header = write_kind(Kind.ALL, out)
        return Size(header, write_floats(m.values, out, header, self.kind, self.dim) - header)

    def decode(self, data: Bytes, sender: int, round: int) -> Dense:  # noqa: ARG002 (the contract's)
        """Read one message; raises ``ValueError`` where it is malformed."""
        return Dense(_read_all(data, self.kind, self.dim, self.max_bytes), self.value_bits)


@dataclass(slots=True)
class SharedSupportCodec:
    """Values on the support that ``draw(sender, round)`` names; no index travels."""

    dim: int
    count: int
    value_bits: int
    draw: Callable[[int, int], Indices]
    max_bytes: int = field(init=False)
    kind: np.dtype[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.kind = float_type(self.value_bits)
        self.max_bytes = 1 + self.count * self.kind.itemsize

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: SharedSupport = checked(message, SharedSupport, self.dim, self.count)
        header = write_kind(Kind.ALL, out)
        return Size(header, write_floats(m.values, out, header, self.kind, self.count) - header)

    def decode(self, data: Bytes, sender: int, round: int) -> SharedSupport:
        """Read one message of ``sender`` in ``round``; raises ``ValueError`` where it is malformed."""
        values = _read_all(data, self.kind, self.count, self.max_bytes)
        return SharedSupport(self.dim, self.draw(sender, round), values, self.value_bits)


@dataclass(slots=True)
class DenseSignsCodec:
    """One scale and d signs, of sign."""

    dim: int
    value_bits: int
    max_bytes: int = field(init=False)
    kind: np.dtype[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.kind = float_type(self.value_bits)
        self.max_bytes = 1 + self.kind.itemsize + -(-self.dim // 8)

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: DenseSigns = checked(message, DenseSigns, self.dim, self.dim)
        if not m.scale:
            return Size(write_kind(Kind.EMPTY, out), 0)
        header = write_kind(Kind.ALL, out)
        at = write_floats(m.scale, out, header, self.kind, 1)
        packed = np.packbits(m.negative, bitorder="little")
        out[at : at + packed.size] = packed
        return Size(header, at + packed.size - header)

    def decode(self, data: Bytes, sender: int, round: int) -> DenseSigns:  # noqa: ARG002 (the contract's)
        """Read one message; raises ``ValueError`` where it is malformed."""
        head = read_header(data, (Kind.EMPTY, Kind.ALL), self.dim, self.max_bytes)
        if head.kind is Kind.EMPTY:
            return DenseSigns(np.zeros(self.dim, dtype=np.bool_), 0.0, self.value_bits)
        scale = positive(read_floats(data, head.end, self.kind, 1))
        bits = np.unpackbits(data[head.end + self.kind.itemsize :], bitorder="little")
        check_end(bits, self.dim)
        return DenseSigns(bits[: self.dim].astype(np.bool_), scale, self.value_bits)
