"""Correctly rounded doubles for the decimals that one exact operation cannot give: long mantissas, large exponents.

Up to 19 digits, the product of the mantissa with 128 bits of the power of five decides the rounding (M. Eisel and
D. Lemire; D. Lemire, Number parsing at a gigabyte per second, Software: Practice and Experience 51, 2021,
arXiv 2101.11408, algorithm 1). What is left, subnormal numbers and longer mantissas, goes by its text.
"""

import functools

import numpy as np
import numpy.typing as npt

from mpi_opt.types import Bytes, Indices, Vector

POWERS: Vector = np.array([float(10**i) for i in range(23)])
"""The powers of ten that are doubles."""

_LOWEST, _HIGHEST = -342, 308
"""Powers of ten outside make every mantissa below 10^19 zero or infinite."""

_WIDTH = 40
"""Tokens up to this long are converted together; longer ones are rare enough to go one by one."""

_HALF = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_32 = np.uint64(32)


def round_products(mantissa: npt.NDArray[np.uint64], power: Indices) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Return ``mantissa * 10**power`` rounded to nearest, ties to even.

    Parameters
    ----------
    mantissa : ndarray of uint64, shape (numbers,)
    power : ndarray of int64, shape (numbers,)

    Returns
    -------
    values : ndarray of float64, shape (numbers,)
    sure : ndarray of bool, shape (numbers,)
        Where the value is right. Not among them: zero, subnormal and infinite results, and ties too close to call.
    """
    sure = (mantissa != 0) & (power >= _LOWEST) & (power <= _HIGHEST)
    q = np.where(sure, power, 0)
    w, zeros = _normalise(np.where(sure, mantissa, _ONE))
    high_five, low_five = _fives()
    high, low = _product(w, high_five[q - _LOWEST])
    # the lower 64 bits of the power of five only matter where the bits below the rounding bit are all ones
    close = np.flatnonzero((high & np.uint64(0x1FF)) == np.uint64(0x1FF))
    if close.size:
        more = _product(w[close], low_five[q[close] - _LOWEST])[0]
        low[close] += more
        high[close] += low[close] < more
    sure &= (low != np.uint64(2**64 - 1)) | ((q >= -27) & (q <= 55))

    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    bits = high >> shift  # 53 bits and one to round by
    # floor(log2(10^q)) by a fixed-point multiplication, exact in this range
    exponent = ((217706 * q) >> 16) + 63 + top.astype(np.int64) - zeros + 1023
    tie = (low <= _ONE) & (q >= -4) & (q <= 23) & ((bits & np.uint64(3)) == _ONE) & ((bits << shift) == high)
    bits -= tie
    bits += bits & _ONE
    bits >>= _ONE
    carried = bits >= np.uint64(1 << 53)
    exponent += carried
    bits[carried] = np.uint64(1 << 52)
    sure &= (exponent > 0) & (exponent < 2047)
    bits &= np.uint64((1 << 52) - 1)
    bits |= np.clip(exponent, 0, 2046).astype(np.uint64) << np.uint64(52)
    return bits.view(np.float64), sure


def _normalise(w: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], Indices]:
    """Return non-zero integers shifted up until the highest bit is set, and by how much."""
    zeros = 64 - np.frexp(w.astype(np.float64))[1].astype(np.int64)
    # rounding to double may have reached the next power of two
    zeros = np.maximum(zeros, 0)
    w = w << zeros.astype(np.uint64)
    lacking = (w >> np.uint64(63)) ^ _ONE
    return w << lacking, zeros + lacking.astype(np.int64)


def _product(
    a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the high and low 64 bits of ``a * b``."""
    a_low, a_high, b_low, b_high = a & _HALF, a >> _32, b & _HALF, b >> _32
    first = a_low * b_low
    middle = a_high * b_low + (first >> _32)
    cross = a_low * b_high + (middle & _HALF)
    return a_high * b_high + (middle >> _32) + (cross >> _32), (cross << _32) | (first & _HALF)


@functools.cache
def _fives() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the high and low 64 bits of the powers of five, scaled to 128 bits; reciprocals are rounded up."""
    scaled = []
    for q in range(_LOWEST, _HIGHEST + 1):
        five = 5 ** abs(q)
        size = five.bit_length()
        if q >= 0:
            scaled.append(five << (128 - size) if size <= 128 else five >> (size - 128))
        else:
            scaled.append((1 << (127 + size)) // five + 1)
    return (
        np.array([number >> 64 for number in scaled], dtype=np.uint64),
        np.array([number & (2**64 - 1) for number in scaled], dtype=np.uint64),
    )


def round_decimals(text: Bytes, start: Indices, stop: Indices) -> Vector:
    """Return the numbers written in ``text[start:stop]``, exactly rounded whatever their form.

    Parameters
    ----------
    text : ndarray of uint8
    start, stop : ndarray of int64, shape (numbers,)
        Each slice must be a decimal number; overflow gives an infinity.

    Returns
    -------
    ndarray of float64, shape (numbers,)
    """
    length = stop - start
    values = np.empty(start.size)
    short = np.flatnonzero(length <= _WIDTH)
    if short.size:
        width = int(length[short].max())
        column = np.arange(width)
        inside = column < length[short, None]
        # NumPy ends a byte string at its first zero, and parses it as float() would
        window = text[np.where(inside, start[short, None] + column, 0)] * inside
        values[short] = window.astype(np.uint8).view(f"S{width}").ravel().astype(np.float64)
    for i in np.flatnonzero(length > _WIDTH):
        values[i] = float(text[start[i] : stop[i]].tobytes())
    return values
