"""Decimal numbers in a byte buffer to correctly rounded doubles, many at once and without a loop over tokens.

The text is seen as *events*: the positions of all bytes that are not digits. Between two events lies a run of digits
(perhaps none), and a number is a short pattern of events, ``[+-] run [. run] [eE [+-] run] space``. A run of up to
eight digits is one 64-bit load, a shift and three multiplications (two digits to a byte pair, four, eight).

A decimal ``m 10^p`` with ``m <= 2^53`` and ``|p| <= 22`` is one exact integer and one exactly rounded operation
(W. D. Clinger, How to read floating point numbers accurately, PLDI 1990). The rest goes through ``decimals.py``.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.decimals import POWERS, round_decimals, round_products
from mpi_opt.types import Bytes, Indices, Vector

Mask: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

PAD = 16
"""Spaces behind the text: a load of eight bytes, or a look a few events ahead, never leaves the buffer."""

_RUN = 19
"""Longest run of digits that surely fits 64 bits."""
_EXACT = np.uint64(1 << 53)
_SPELLED = 12
_NOT_FINITE = np.array(
    [
        (word + "0" * zeros).ljust(_SPELLED).encode()
        for words, most in ((("nan", "inf", "infinity"), 0), (("1.#inf", "1.#ind", "1.#qnan", "1.#snan"), 4))
        for word in words
        for zeros in range(most + 1)
    ]
)
"""Without a sign; those with a mark are printed by Microsoft's older C libraries, with zeros up to the precision."""
_TENS = np.array([10**i for i in range(_RUN + 1)], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Events:
    """A text and its non-digits.

    Attributes
    ----------
    text : ndarray of uint8, shape (bytes,)
        Begins with a newline, ends with a newline and ``PAD`` spaces.
    at : ndarray of int64, shape (events,)
        Positions of the bytes that are not digits.
    kind : ndarray of uint8, shape (events,)
        Those bytes.
    gap : ndarray of int64, shape (events - 1,)
        Digits between an event and the next.
    space : ndarray of bool, shape (events,)
        Whether the event is white space: blank, tab, newline, carriage return, vertical tab or form feed.
    """

    text: Bytes
    at: Indices
    kind: Bytes
    gap: Indices
    space: Mask


def find_events(text: Bytes) -> Events:
    """Return the events of ``text`` (uint8, padded as ``Events`` says)."""
    at = np.flatnonzero((text - np.uint8(48)) > 9)
    kind = text[at]
    gap = np.diff(at)
    gap -= 1
    space = (kind == 32) | ((kind - np.uint8(9)) <= 4)
    return Events(text, at, kind, gap, space)


def read_runs(text: Bytes, start: Indices, length: Indices) -> Words:
    """Return the integers written in digit runs.

    Parameters
    ----------
    text : ndarray of uint8, contiguous
        At least eight bytes longer than the last run's beginning.
    start, length : ndarray of int64, shape (runs,)
        First digit and number of digits. An empty run is 0; one longer than 19 digits gives a wrong number.

    Returns
    -------
    ndarray of uint64, shape (runs,)
    """
    # every position's next eight bytes as one little-endian word: an unaligned view, no copy
    words: Words = np.ndarray(shape=(text.size - 7,), dtype="<u8", buffer=text, strides=(1,))
    if length.size == 0 or int(length.max()) <= 8:
        return _eight(words[start], length)
    last = np.minimum(length, 8)
    total = _eight(words[start + (length - last)], last)
    rest = np.minimum(length, _RUN + 1) - last
    scale = 8
    long = np.flatnonzero(rest)
    while long.size:
        part = np.minimum(rest[long], 8)
        word = _eight(words[start[long] + (rest[long] - part)], part)
        total[long] += word * _TENS[min(scale, _RUN)]
        rest[long] -= part
        long = long[rest[long] > 0]
        scale += 8
    return total


def _eight(words: Words, length: Indices) -> Words:
    """Return the numbers whose first ``length <= 8`` bytes in ``words`` are digits (first digit lowest)."""
    # zero bytes move in as leading digits, the bytes behind the run fall out at the top
    x = words << ((8 - length) << 3).astype(np.uint64)
    x &= np.uint64(0x0F0F0F0F0F0F0F0F)
    x *= np.uint64(10 * 2**8 + 1)
    x >>= np.uint64(8)
    x &= np.uint64(0x00FF00FF00FF00FF)
    x *= np.uint64(100 * 2**16 + 1)
    x >>= np.uint64(16)
    x &= np.uint64(0x0000FFFF0000FFFF)
    x *= np.uint64(10_000 * 2**32 + 1)
    x >>= np.uint64(32)
    return x


def read_numbers(events: Events, before: Indices) -> tuple[Vector, Mask]:
    """Return the decimal numbers that begin right behind given events and end at white space.

    Parameters
    ----------
    events : Events
    before : ndarray of int64, shape (numbers,)
        Which event stands in front of each number.

    Returns
    -------
    values : ndarray of float64, shape (numbers,)
        Rounded to nearest, ties to even, as ``float`` does. Infinite where the decimal is beyond the range of doubles,
        arbitrary but finite where it is none.
    bad : ndarray of bool, shape (numbers,)
        Not a finite decimal number.
    """
    at, kind, gap = events.at, events.kind, events.gap
    k = before
    digits, following = gap[k], kind[k + 1]
    negative: Mask | None = None
    signed = (digits == 0) & ((following == 45) | (following == 43))
    if signed.any():
        negative = signed & (following == 45)
        k = k + signed
        digits, following = gap[k], kind[k + 1]
    mantissa = read_runs(events.text, at[k] + 1, digits)
    power = np.zeros(k.size, dtype=np.int64)
    dotted = following == 46
    if dotted.any():
        k = k + dotted
        places = np.where(dotted, gap[k], 0)
        mantissa *= _TENS[np.minimum(places, _RUN)]
        mantissa += read_runs(events.text, at[k] + 1, places)
        digits = digits + places
        power -= places
        following = kind[k + 1]
    bad = digits == 0
    raised = (following | 32) == 101  # e or E
    if raised.any():
        k, exponent, missing = _exponents(events, k, raised)
        power += exponent
        bad |= missing
    bad |= ~events.space[k + 1]
    # more digits may overflow 64 bits; they are beyond 2^53 anyway, unless they are zeros in front
    small = digits <= _RUN
    exact = small & (mantissa <= _EXACT) & (np.abs(power) <= 22)
    values = mantissa.astype(np.float64)
    if power.any():
        values /= POWERS[np.clip(-power, 0, 22)]
        if raised.any():
            values *= POWERS[np.clip(power, 0, 22)]
    odd = np.flatnonzero(~(exact | bad))
    if odd.size:
        values[odd], sure = round_products(mantissa[odd], power[odd])
        sure &= small[odd]
        odd = odd[~sure]
    if negative is not None:
        values = np.where(negative, -values, values)
    if odd.size:
        values[odd] = round_decimals(events.text, at[before[odd]] + 1, at[k[odd] + 1])
        bad[odd] |= ~np.isfinite(values[odd])
    return values, bad


def spelled_not_finite(events: Events, before: Indices, end: Indices) -> Mask:
    """Return where the field from behind event ``before`` to event ``end`` spells NaN or infinity, in any case."""
    text = events.text
    start = events.at[before] + 1
    start += (text[start] == 43) | (text[start] == 45)
    inside = start[:, None] + np.arange(_SPELLED)
    # filled up with blanks, which are in no field
    stop = events.at[end][:, None]
    window = np.where(inside < stop, text[np.minimum(inside, stop)], np.uint8(32))
    window |= np.uint8(32) * ((window >= 65) & (window <= 90))
    words = np.ascontiguousarray(window).view(f"S{_SPELLED}").ravel()
    found: Mask = np.isin(words, _NOT_FINITE) & (events.at[end] - start < _SPELLED)
    return found


def _exponents(events: Events, k: Indices, raised: Mask) -> tuple[Indices, Indices, Mask]:
    """Return the last event used, the exponents and where one is missing, for numbers with an ``e`` at ``k + 1``."""
    k = k + raised
    following = events.kind[k + 1]
    signed = raised & (events.gap[k] == 0) & ((following == 45) | (following == 43))
    negative = signed & (following == 45)
    k = k + signed
    length = np.where(raised, events.gap[k], 0)
    # 9999 stands for all that is larger, and for what is too long to read here: such numbers go by their text
    exponent = np.minimum(read_runs(events.text, events.at[k] + 1, length), 9999).astype(np.int64)
    exponent[length > _RUN] = 9999
    return k, np.where(negative, -exponent, exponent), raised & (length == 0)
