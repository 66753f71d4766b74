"""Columns of a set in the making, whose length and narrowest type are known at the end only."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

IN_MEMORY = 1 << 25
"""Bytes of a column that are kept in memory; longer ones go to a file without a name, which nothing survives."""

PIECE = 1 << 17
"""Items handed on at a time."""


class Spool:
    """Numbers of one type, written once, then read from the start as often as wanted.

    Parameters
    ----------
    dtype : dtype-like
    folder : Path
        Where they are kept: beside the file that they go to, so that there is room for both or for neither.
    """

    def __init__(self, dtype: npt.DTypeLike, folder: Path) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.size = 0
        self._left = 0
        self._folder = folder
        self._file: Any = io.BytesIO()

    def add(self, part: npt.NDArray[Any]) -> None:
        """Append ``part``.

        Raises
        ------
        OSError
            The disk is full.
        """
        data = np.ascontiguousarray(part, dtype=self.dtype).reshape(-1).view(np.uint8).data
        if isinstance(self._file, io.BytesIO) and self._file.tell() + data.nbytes > IN_MEMORY:
            kept = self._file
            # without a buffer: what is in one when the disk is full would be written again, and fail, on closing
            self._file = tempfile.TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115
            self._put(kept.getbuffer())
        self._put(data)
        self.size += part.size

    def _put(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]

    def rewind(self) -> None:
        """Read from the start; nothing is added any more."""
        self._file.seek(0)
        self._left = self.size

    def take(self, count: int) -> npt.NDArray[Any]:
        """Return the next ``count`` items, or those that are left."""
        count = min(count, self._left)
        self._left -= count
        found: npt.NDArray[Any] = np.empty(count, dtype=self.dtype)
        rest = found.view(np.uint8).data
        while rest:
            got = self._file.readinto(rest)
            if not got:
                raise OSError(f"a temporary file has lost {len(rest)} bytes")
            rest = rest[got:]
        return found

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Yield all items from the start, ``PIECE`` at a time."""
        self.rewind()
        while (part := self.take(PIECE)).size:
            yield part

    def close(self) -> None:
        """Give the room back."""
        self._file.close()


class Values:
    """A spool that keeps one number alone while all are the same to the bit (``1`` in many sets of text).

    Parameters
    ----------
    dtype, folder
        As for ``Spool``.
    """

    def __init__(self, dtype: npt.DTypeLike, folder: Path) -> None:
        self._spool = Spool(dtype, folder)
        self._first: npt.NDArray[Any] = np.empty(0, dtype=self._spool.dtype)
        self._same = self._left = 0

    @property
    def size(self) -> int:
        """Numbers added."""
        return self._same or self._spool.size

    @property
    def constant(self) -> float | None:
        """The number that all are; ``None`` if they differ or there are none."""
        return float(self._first[0]) if self._same else None

    def add(self, part: npt.NDArray[Any]) -> None:
        """Append ``part``; errors as in ``Spool.add``."""
        part = np.ascontiguousarray(part, dtype=self._spool.dtype)
        if part.size == 0:
            return
        if self._first.size == 0:
            self._first = part[:1].copy()
        if self._spool.size == 0:
            bits = np.dtype(f"u{part.dtype.itemsize}")
            if bool((part.view(bits) == self._first.view(bits)[0]).all()):
                self._same += part.size
                return
            for begin in range(0, self._same, PIECE):
                self._spool.add(np.full(min(PIECE, self._same - begin), self._first[0]))
            self._same = 0
        self._spool.add(part)

    def rewind(self) -> None:
        """Read from the start; nothing is added any more."""
        self._spool.rewind()
        self._left = self._same

    def take(self, count: int) -> npt.NDArray[Any]:
        """Return the next ``count`` numbers."""
        if self._same:
            count = min(count, self._left)
            self._left -= count
            return np.full(count, self._first[0])
        return self._spool.take(count)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Yield all numbers from the start."""
        self.rewind()
        while (part := self.take(PIECE)).size:
            yield part

    def close(self) -> None:
        """Give the room back."""
        self._spool.close()
