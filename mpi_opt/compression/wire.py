"""The wire format of messages that carry a support: header, floats, then one stream of bits.

```
header | floats: k' values, or one scale | bits: k' signs, k' (level - 1) plane by plane, support | 0s to a whole byte
```

The last part is there for kind ``RICE`` alone. Floats are little-endian and not aligned; bit j of the stream is bit
j mod 8, from the least significant, of byte j div 8. Every decoder is strict: what it accepts is one well-formed
message and nothing after it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.compression import rice
from mpi_opt.compression.base import Message, Size
from mpi_opt.compression.header import Header, Kind, header_bytes, read_header, write_kind, write_rice
from mpi_opt.compression.messages import Signs, Sparse
from mpi_opt.types import Bytes, Indices, Vector


def float_type(value_bits: int) -> np.dtype[Any]:
    """Return the little-endian type of a value of 32 or 64 bits."""
    return np.dtype("<f4" if value_bits == 32 else "<f8")


def write_floats(values: npt.NDArray[np.float64] | float, out: Bytes, at: int, kind: np.dtype[Any], count: int) -> int:
    """Write ``count`` values, or one, at ``out[at]``; return the position after them."""
    end = at + count * kind.itemsize
    out[at:end].view(kind)[:] = values
    return end


def read_floats(data: Bytes, at: int, kind: np.dtype[Any], count: int) -> Vector:
    """Return ``count`` finite values as float64; raises ``ValueError`` where the data end before or one is not."""
    end = at + count * kind.itemsize
    if data.size < end:
        raise ValueError(f"malformed message: {data.size} bytes, its values alone end at {end}")
    values = data[at:end].view(kind)
    if not np.isfinite(values).all():
        raise ValueError("malformed message: a value is not finite")
    return values.astype(np.float64)


def positive(scale: Vector) -> float:
    """Return the one value of ``scale``; raises ``ValueError`` where it is not above 0."""
    value = float(scale[0])
    if not value > 0.0:
        raise ValueError(f"malformed message: scale {value}, must be above 0")
    return value


def check_end(bits: Bytes, used: int) -> None:
    """Check that ``bits`` end in the byte where the ``used`` ones end, with 0s; raises ``ValueError`` otherwise."""
    if not used <= bits.size < used + 8 or bits[used:].any():
        raise ValueError("malformed message: it is shorter than announced or goes on after its end")


def checked(message: Message, kind: type[Any], dim: int, most: int) -> Any:
    """Return ``message`` where it is one of ``kind``, of ``dim`` coordinates and at most ``most`` entries.

    Raises
    ------
    TypeError
        It is not; the message is some other operator's.
    """
    if not isinstance(message, kind) or message.dim != dim or message.count > most:
        raise TypeError(
            f"this codec writes {kind.__name__} of {dim} coordinates and at most {most} entries, "
            f"not {type(message).__name__} of {message.dim} and {message.count}"
        )
    return message


@dataclass(slots=True)
class SupportCodec:
    """What Sparse, Signs and Levels have in common. A plan object: one user at a time.

    Parameters
    ----------
    dim, most : int
        d, and the most entries k a message may have.
    value_bits : int
        32 or 64.
    bits_each : int
        Bits of an entry beside its index.
    floats_each : bool
        Whether every entry has a float; else the message has one.
    """

    dim: int
    most: int
    value_bits: int
    bits_each: int
    floats_each: bool
    max_bytes: int = field(init=False)
    kind: np.dtype[Any] = field(init=False, repr=False)
    bits: Bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.kind = float_type(self.value_bits)
        most_bits = self.most * self.bits_each + rice.max_bits(self.dim, self.most)
        floats = self.most if self.floats_each else 1
        self.max_bytes = header_bytes(self.most) + floats * self.kind.itemsize + -(-most_bits // 8)
        self.bits = np.empty(most_bits, dtype=np.uint8)

    def write(self, indices: Indices, floats: Vector | float, fill: Callable[[Bytes], None] | None, out: Bytes) -> Size:
        """Write a message; ``fill`` puts the entries' own bits into what it is given."""
        count = indices.size
        if count == 0:
            return Size(write_kind(Kind.EMPTY, out), 0)
        own = count * self.bits_each
        total = own
        if count == self.dim:
            header = write_kind(Kind.ALL, out)
        else:
            gaps = rice.gaps_of(indices)
            b, support = rice.plan(gaps, self.dim)
            total += support
            rice.write_gaps(gaps, b, self.bits[own:total])
            header = write_rice(b, count, out)
        if fill is not None:
            fill(self.bits[:own])
        at = write_floats(floats, out, header, self.kind, count if self.floats_each else 1)
        packed = np.packbits(self.bits[:total], bitorder="little")
        end = at + packed.size
        out[at:end] = packed
        return Size(header, end - header)

    def read(self, data: Bytes, head: Header) -> tuple[Indices, Vector, Bytes]:
        """Return the support, the floats and the entries' own bits of a message of kind ``ALL`` or ``RICE``."""
        count = head.entries if head.kind is Kind.RICE else self.dim
        floats = read_floats(data, head.end, self.kind, count if self.floats_each else 1)
        at = head.end + floats.size * self.kind.itemsize
        bits = np.unpackbits(data[at:], bitorder="little")
        used = own = count * self.bits_each
        if head.kind is Kind.RICE:
            indices, support = rice.read_indices(bits[own:], head.parameter, count, self.dim)
            used += support
        else:
            indices = np.arange(self.dim)
        check_end(bits, used)
        return indices, floats, bits[:own]

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds that may arrive."""
        return (Kind.EMPTY, Kind.ALL, Kind.RICE) if self.most == self.dim else (Kind.EMPTY, Kind.RICE)


class SparseCodec(SupportCodec):
    """Values of top-k."""

    __slots__ = ()

    def __init__(self, dim: int, most: int, value_bits: int) -> None:
        super().__init__(dim, most, value_bits, bits_each=0, floats_each=True)

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Sparse = checked(message, Sparse, self.dim, self.most)
        return self.write(m.indices, m.values, None, out)

    def decode(self, data: Bytes, sender: int, round: int) -> Sparse:  # noqa: ARG002 (the contract's)
        """Read one message; raises ``ValueError`` where it is malformed."""
        head = read_header(data, self.kinds(), self.most, self.max_bytes)
        if head.kind is Kind.EMPTY:
            return Sparse(self.dim, np.empty(0, dtype=np.int64), np.empty(0), self.value_bits)
        indices, values, _ = self.read(data, head)
        if not values.all():
            raise ValueError("malformed message: a value is zero")
        return Sparse(self.dim, indices, values, self.value_bits)


class SignsCodec(SupportCodec):
    """Signs and one scale, of sign-top-k."""

    __slots__ = ()

    def __init__(self, dim: int, most: int, value_bits: int) -> None:
        super().__init__(dim, most, value_bits, bits_each=1, floats_each=False)

    def encode(self, message: Message, out: Bytes) -> Size:
        """Write ``message`` to the front of ``out``."""
        m: Signs = checked(message, Signs, self.dim, self.most)
        return self.write(m.indices, m.scale, lambda bits: np.copyto(bits, m.negative), out)

    def decode(self, data: Bytes, sender: int, round: int) -> Signs:  # noqa: ARG002 (the contract's)
        """Read one message; raises ``ValueError`` where it is malformed."""
        head = read_header(data, self.kinds(), self.most, self.max_bytes)
        if head.kind is Kind.EMPTY:
            return Signs(self.dim, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), 0.0, self.value_bits)
        indices, scale, bits = self.read(data, head)
        return Signs(self.dim, indices, bits.astype(np.bool_), positive(scale), self.value_bits)
