"""Correctly rounded doubles for the decimals that one exact operation cannot give: long mantissas, large exponents."""

import numpy as np

from mpi_opt.types import Bytes, Indices, Vector

POWERS: Vector = np.array([float(10**i) for i in range(23)])
"""The powers of ten that are doubles."""

_WIDTH = 40
"""Tokens up to this long are converted together; longer ones are rare enough to go one by one."""


def round_decimals(text: Bytes, start: Indices, stop: Indices) -> Vector:
    """Return the numbers written in ``text[start:stop]``, exactly rounded.

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
