"""The first bytes of every message.

| byte | meaning |
|---|---|
| 0 | kind in the low three bits, Rice parameter in the high five |
| 1.. | number of entries as a varint; only after kind ``RICE`` |

| kind | what follows |
|---|---|
| ``EMPTY`` 0 | nothing: the zero message |
| ``ALL`` 1 | every entry that the codec knows of, no support |
| ``RICE`` 2 | some entries and their support |
| ``PLAIN`` 3 | a level, perhaps 0, for every coordinate |
"""

import enum
from typing import NamedTuple

from mpi_opt.compression.bits import read_varint, varint_bytes, write_varint
from mpi_opt.types import Bytes


class Kind(enum.IntEnum):
    """What follows the header."""

    EMPTY = 0
    ALL = 1
    RICE = 2
    PLAIN = 3


class Header(NamedTuple):
    """A header that was read; the payload starts at ``end``. ``entries`` is 0 where the kind does not say it."""

    kind: Kind
    parameter: int
    entries: int
    end: int


def header_bytes(count: int) -> int:
    """Return the size of a ``RICE`` header, the longest, for ``count`` entries."""
    return 1 + varint_bytes(count)


def write_kind(kind: Kind, out: Bytes) -> int:
    """Write the header of a kind that carries nothing else; return its size."""
    out[0] = kind
    return 1


def write_rice(parameter: int, count: int, out: Bytes) -> int:
    """Write a ``RICE`` header; return its size."""
    out[0] = Kind.RICE | (parameter << 3)
    return write_varint(count, out, 1)


def read_header(data: Bytes, allowed: tuple[Kind, ...], max_count: int, max_bytes: int) -> Header:
    """Read the header of a whole message.

    Raises
    ------
    ValueError
        The message is empty or longer than ``max_bytes``, its kind is not among ``allowed``, an ``EMPTY`` one goes on,
        a parameter stands where none belongs, or the count is not in ``1..max_count``.
    """
    if not 0 < data.size <= max_bytes:
        raise ValueError(f"malformed message: {data.size} bytes, expected 1 to {max_bytes}")
    first = int(data[0])
    number, parameter = first & 7, first >> 3
    if number not in allowed:
        raise ValueError(f"malformed message: kind {number} is not one of {[int(kind) for kind in allowed]}")
    kind = Kind(number)
    if kind is not Kind.RICE:
        if parameter or (kind is Kind.EMPTY and data.size != 1):
            raise ValueError("malformed message: it goes on after a header that ends it")
        return Header(kind, 0, 0, 1)
    count, end = read_varint(data, 1)
    if not 1 <= count <= max_count:
        raise ValueError(f"malformed message: {count} entries announced, allowed are 1 to {max_count}")
    return Header(kind, parameter, count, end)
