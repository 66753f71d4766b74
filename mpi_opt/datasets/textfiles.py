"""LIBSVM files read by byte range, so that every process parses its own share, or as a whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mpi_opt.datasets.byteranges import count_lines, share_ranges, whole_lines
from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.libsvm import BLOCK, Rows, join_rows, parse_blocks
from mpi_opt.datasets.source import TextFiles
from mpi_opt.datasets.spec import NanRule
from mpi_opt.types import Bytes

CHUNK = BLOCK
"""Bytes read at a time: what is parsed at once, so that text never matters beside the data."""


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


def read_whole(source: TextFiles, index_base: int, nan: NanRule = "refuse") -> Rows:
    """Read all files, compressed or not; errors as in ``read_share``."""
    return join_rows(rows for path in source.paths for rows in _read_range(path, 0, None, index_base, nan))


def texts(source: TextFiles) -> Iterator[Text]:
    """Yield all files, compressed or not, as whole lines of about ``CHUNK`` bytes; errors as in ``read_share``."""
    for number, path in enumerate(source.paths):
        with open_stream(path) as stream:
            for at, data in whole_lines(stream, path, 0, None, CHUNK):
                yield Text(number, at, data)


def parse_text(
    source: TextFiles, file: int, at: int, data: bytes | Bytes, index_base: int, nan: NanRule = "refuse"
) -> Rows:
    """Return the rows of whole lines that begin at byte ``at`` of a file; errors as in ``read_share``."""
    return join_rows(_parse(source.paths[file], at, data, index_base, nan))


def _read_range(path: Path, first: int, last: int | None, index_base: int, nan: NanRule) -> Iterator[Rows]:
    """Yield the rows of the lines that begin in bytes ``first`` to ``last`` of the (uncompressed) file."""
    with open_stream(path) as stream:
        for at, data in whole_lines(stream, path, first, last, CHUNK):
            yield from _parse(path, at, data, index_base, nan)


def _parse(path: Path, at: int, data: bytes | Bytes, index_base: int, nan: NanRule) -> Iterator[Rows]:
    return parse_blocks(data, str(path), lambda: 1 + count_lines(path, at), index_base, nan)
