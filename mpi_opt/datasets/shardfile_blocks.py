"""Arrays of a ``shards.h5``, item by item range: bytes at known places, checked block by block, widened on the way."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.shardfile import Contents, Place
from mpi_opt.errors import DataError

_AT_ONCE = 4
"""Blocks read by one call: they stay in the cache until they are checked and widened."""


@contextmanager
def opened(contents: Contents) -> Iterator["Reader"]:
    """Open a file for reading its arrays; a file that cannot be opened is a ``DataError``."""
    path = contents.path
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        yield Reader(contents, handle)
    finally:
        os.close(handle)


class Reader:
    """An open file's arrays.

    Parameters
    ----------
    contents : Contents
    handle : int
        Of the open file.
    """

    def __init__(self, contents: Contents, handle: int) -> None:
        self.path: Path = contents.path
        self.rows, self.nonzeros = contents.facts.rows, contents.facts.nonzeros
        self._places, self._block, self._handle = contents.places, contents.block, handle
        self._spare = np.empty(_AT_ONCE * contents.block, dtype=np.uint8)

    def read(self, name: str, first: int, out: npt.NDArray[Any], below: int | None = None, shift: int = 0) -> None:
        """Fill ``out`` with the items of an array from number ``first`` on.

        Parameters
        ----------
        out : ndarray, contiguous
            In a type that holds the stored one.
        below : int or None
            Where given, items must be in 0..below-1.
        shift : int
            What is added to each.
        """
        place = self._places[name]
        size = place.dtype.itemsize
        low, high = first * size, (first + out.size) * size
        step = _AT_ONCE * self._block
        same = place.dtype == out.dtype and place.dtype.isnative and below is None
        target = out.view(np.uint8) if same else None
        for begin in range(low - low % self._block, high, step):
            end = min(begin + step, -(-high // self._block) * self._block, place.items * size)
            # what lies wholly inside goes where it belongs at once
            inside = target is not None and begin >= low and end <= high
            buffer = target[begin - low : end - low] if inside and target is not None else self._spare[: end - begin]
            self._fill(place, name, begin, buffer)
            if inside:
                continue
            lowest, highest = max(begin, low), min(end, high)
            items = buffer[lowest - begin : highest - begin].view(place.dtype)
            if below is not None and items.size and not 0 <= int(items.min()) <= int(items.max()) < below:
                raise DataError(f"{self.path}: damaged: {name} go beyond {below - 1}")
            part = out[(lowest - low) // size : (highest - low) // size]
            if shift:
                np.add(items, part.dtype.type(shift), out=part, casting="unsafe")
            else:
                part[:] = items

    def _fill(self, place: Place, name: str, begin: int, buffer: npt.NDArray[np.uint8]) -> None:
        """Read whole blocks from byte ``begin`` of an array, and check them."""
        done = 0
        view = buffer.data
        try:
            while done < buffer.size:
                got = os.preadv(self._handle, [view[done:]], place.at + begin + done)
                if got == 0:
                    raise DataError(f"{self.path}: cut short: {name} end at byte {place.at + begin + done}")
                done += got
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror}") from error
        number = begin // self._block
        for at in range(0, buffer.size, self._block):
            if zlib.crc32(view[at : at + self._block]) != place.checks[number]:
                raise DataError(
                    f"{self.path}: damaged: {name} have changed in bytes {place.at + begin + at} to "
                    f"{place.at + begin + min(at + self._block, buffer.size)}; convert its source again"
                )
            number += 1
