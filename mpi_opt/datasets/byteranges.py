"""Text in shares of bytes: which share a line belongs to, and its whole lines in pieces."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mpi_opt.datasets.compressed import open_stream
from mpi_opt.errors import DataError

LONGEST = 1 << 28
"""Most bytes a line may have. Files of zeros, as a crash may leave them, are one endless line."""

_PASSED = 1 << 16


def share_ranges(sizes: Sequence[int], part: int, parts: int) -> list[tuple[int, int, int]]:
    """Return ``(file, first, last)`` for each file of ``sizes`` bytes that one of ``parts`` equal shares touches."""
    total = sum(sizes)
    low, high = total * part // parts, total * (part + 1) // parts
    ranges, begin = [], 0
    for file, size in enumerate(sizes):
        first, last = max(low - begin, 0), min(high - begin, size)
        if first < last:
            ranges.append((file, first, last))
        begin += size
    return ranges


def whole_lines(
    stream: BinaryIO, path: Path, first: int, last: int | None, chunk: int, begin: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Yield ``(offset, text)``: whole lines that begin in bytes ``first`` to ``last``, in order.

    Parameters
    ----------
    stream : binary file
        At its beginning.
    path : Path
        For errors.
    first : int
    last : int or None
        ``None`` for all that follows.
    chunk : int
        Bytes of a piece, about.
    begin : int
        Byte that the first line of all begins at.

    Raises
    ------
    DataError
        A line has more than ``LONGEST`` bytes: names ``path``, and where the line begins.
    """
    at = max(first, begin)
    if first > begin:
        # the line that byte first - 1 is in, or ends, is another share's
        stream.seek(first - 1)
        at -= 1
        while passed := stream.readline(_PASSED):
            at += len(passed)
            if passed[-1] == 10:
                break
    elif begin:
        stream.seek(begin)
    while last is None or at < last:
        data = stream.read(chunk if last is None else min(chunk, last - at))
        if not data:
            return
        if data[-1] != 10:
            data += stream.readline(LONGEST)
            if len(data) > LONGEST and data[-1] != 10:
                whole = data.rfind(b"\n") + 1
                if whole:
                    yield at, data[:whole]
                raise DataError(
                    f"{path}: a line that begins {at + whole} bytes into the text does not end within {LONGEST} bytes; "
                    "the file is not text, or damaged"
                )
        yield at, data
        at += len(data)


def count_lines(path: Path, stop: int) -> int:
    """Return the newlines in the first ``stop`` bytes of the uncompressed file; only asked for errors."""
    lines, left = 0, stop
    with open_stream(path) as stream:
        while left > 0 and (data := stream.read(min(1 << 20, left))):
            lines += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))
            left -= len(data)
    return lines
