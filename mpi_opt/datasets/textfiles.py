"""LIBSVM files read by byte range, so that every process parses its own share, or as a whole."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.libsvm import BLOCK, Rows, join_rows, parse_blocks
from mpi_opt.datasets.source import TextFiles
from mpi_opt.datasets.spec import NanRule
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes

CHUNK = BLOCK
"""Bytes read at a time: what is parsed at once, so that text never matters beside the data."""

LONGEST = 1 << 28
"""Most bytes a line may have. Files of zeros, as a crash may leave them, are one endless line."""


class Text(NamedTuple):
    """Whole lines: of which file of a source, from which byte of its uncompressed content."""

    file: int
    at: int
    data: bytes


def read_share(source: TextFiles, part: int, parts: int, index_base: int, nan: NanRule = "refuse") -> Rows:
    """Read one of ``parts`` shares of plain files, taken as one long byte space.

    A line belongs to the share that its first byte falls in, so the shares in order are exactly the set's rows.
    ``index_base`` and ``nan`` are as for ``libsvm.parse``.

    Raises
    ------
    DataError
        ``file:line:column: ...`` with the line's true number, or the file cannot be read.
    """
    return join_rows(
        rows
        for file, first, last in share_ranges(source.sizes, part, parts)
        for rows in _read_range(source.paths[file], first, last, index_base, nan)
    )


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


def read_whole(source: TextFiles, index_base: int, nan: NanRule = "refuse") -> Rows:
    """Read all files, compressed or not; errors as in ``read_share``."""
    return join_rows(rows for path in source.paths for rows in _read_range(path, 0, None, index_base, nan))


def texts(source: TextFiles) -> Iterator[Text]:
    """Yield all files, compressed or not, as whole lines of about ``CHUNK`` bytes; errors as in ``read_share``."""
    for number, path in enumerate(source.paths):
        with open_stream(path) as stream:
            for at, data in whole_lines(stream, path, 0, None):
                yield Text(number, at, data)


def parse_text(
    source: TextFiles, file: int, at: int, data: bytes | Bytes, index_base: int, nan: NanRule = "refuse"
) -> Rows:
    """Return the rows of whole lines that begin at byte ``at`` of a file; errors as in ``read_share``."""
    return join_rows(_parse(source.paths[file], at, data, index_base, nan))


def _read_range(path: Path, first: int, last: int | None, index_base: int, nan: NanRule) -> Iterator[Rows]:
    """Yield the rows of the lines that begin in bytes ``first`` to ``last`` of the (uncompressed) file."""
    with open_stream(path) as stream:
        for at, data in whole_lines(stream, path, first, last):
            yield from _parse(path, at, data, index_base, nan)


def _parse(path: Path, at: int, data: bytes | Bytes, index_base: int, nan: NanRule) -> Iterator[Rows]:
    return parse_blocks(data, str(path), lambda: 1 + _count_lines(path, at), index_base, nan)


def whole_lines(stream: BinaryIO, path: Path, first: int, last: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield ``(offset, text)``: whole lines that begin in bytes ``first`` to ``last``, about ``CHUNK`` bytes at a time.

    Raises
    ------
    DataError
        A line has more than ``LONGEST`` bytes: names ``path``, and where the line begins.
    """
    at = first
    if first > 0:
        # the line that byte first - 1 is in, or ends, is another share's
        stream.seek(first - 1)
        at -= 1
        while passed := stream.readline(CHUNK):
            at += len(passed)
            if passed[-1] == 10:
                break
    while last is None or at < last:
        data = stream.read(CHUNK if last is None else min(CHUNK, last - at))
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


def _count_lines(path: Path, stop: int) -> int:
    """Return the number of newlines in the first ``stop`` bytes; only asked when there is an error to report."""
    lines, left = 0, stop
    with open_stream(path) as stream:
        while left > 0 and (data := stream.read(min(CHUNK, left))):
            lines += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))
            left -= len(data)
    return lines
