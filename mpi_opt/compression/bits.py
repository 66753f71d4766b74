"""Bits of integers, laid out plane by plane, and the one-byte-at-a-time integers of headers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.types import Bytes

_SHIFTS = np.arange(64, dtype=np.uint8)[:, None]
_POWERS = 2.0 ** np.arange(53)


def write_planes(values: npt.NDArray[Any], width: int, bits: Bytes) -> None:
    """Write ``width``-bit ``values`` into ``bits`` (one 0 or 1 an element), least significant plane first.

    Plane by plane keeps the inner loop as long as the message, whatever the width.
    """
    if width:
        narrow = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32
        values = values.astype(narrow)
        planes = bits.reshape(width, values.size)
        np.bitwise_and(values >> _SHIFTS[:width].astype(narrow), narrow(1), out=planes, casting="unsafe")


def read_planes(bits: Bytes, width: int, count: int) -> npt.NDArray[np.int64]:
    """Return the ``count`` integers that `write_planes` wrote, int64."""
    planes = bits.reshape(width, count)
    if not width:
        return np.zeros(count, dtype=np.int64)
    if bits.size <= 4096:
        # One product instead of a call for each plane; exact in float64.
        product: npt.NDArray[np.float64] = np.dot(_POWERS[:width], planes)
        return product.astype(np.int64)
    values = planes[width - 1].astype(np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32)
    for plane in planes[-2::-1]:
        values <<= 1
        values |= plane
    return np.asarray(values, dtype=np.int64)


def varint_bytes(value: int) -> int:
    """Return the bytes that `write_varint` takes for ``value >= 0``: seven bits each."""
    return max(1, -(-value.bit_length() // 7))


def write_varint(value: int, out: Bytes, at: int) -> int:
    """Write ``value >= 0`` at ``out[at]``, low seven bits first, high bit set on all but the last byte.

    Returns the position after it.
    """
    while value >= 128:
        out[at] = 128 | (value & 127)
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


def read_varint(data: Bytes, at: int) -> tuple[int, int]:
    """Return the integer at ``data[at]`` and the position after it.

    Raises
    ------
    ValueError
        The data end within it, it has more than nine bytes, or it is longer than needed.
    """
    value = shift = 0
    for byte in data[at : at + 9].tolist():
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if byte < 128:
            if byte == 0 and shift > 7:
                break
            return value, at
    raise ValueError("malformed message: an integer of its header does not end or is too long")
