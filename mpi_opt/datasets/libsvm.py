"""LIBSVM text to rows, with array operations only.

The grammar, line by line (fields parted by blanks or tabs; LF or CRLF; the last newline may be missing)::

    line    = [ label { feature } ] [ "#" anything ]
    feature = index ":" number   |   "qid:" anything (skipped)
    index   = digits, strictly ascending in a line, at least the index base
    label   = number

Numbers are finite decimals, unless a rule says what else becomes of NaN and infinity. A line without a label is no row;
a label alone is a row of zeros. ``docs/data-files.md`` has it all for users.
"""

from collections.abc import Callable, Iterator

import numpy as np

from mpi_opt.datasets.faults import find_faults, tell
from mpi_opt.datasets.fields import LARGEST, Fields, find_fields
from mpi_opt.datasets.mending import fatal_faults, mend, rows_of
from mpi_opt.datasets.rows import Rows, Seen, join_rows
from mpi_opt.datasets.spec import NanRule
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes

__all__ = ["BLOCK", "LARGEST", "Rows", "Seen", "cut_lines", "join_rows", "parse", "parse_block", "parse_blocks"]

BLOCK = 1 << 16
"""Bytes parsed at a time: the work arrays, twenty times as much, stay in the cache and never matter beside the data."""


def parse(
    data: bytes | Bytes,
    name: str = "<text>",
    first_line: int | Callable[[], int] = 1,
    index_base: int = 1,
    nan: NanRule = "refuse",
) -> Rows:
    """Parse whole lines of LIBSVM text.

    Parameters
    ----------
    data : bytes or ndarray of uint8
        The text.
    name : str
        What errors call the file.
    first_line : int or callable
        Line number of the first line, for errors; a callable is only asked when there is one.
    index_base : {1, 0}
        Smallest index allowed.
    nan : {"refuse", "drop-row", "zero"}
        What becomes of values that are not finite or beyond the range of doubles: an error; the row is left out, also
        where its label is such; or the value is taken as 0, while such a label is an error.

    Returns
    -------
    Rows

    Raises
    ------
    DataError
        ``name:line:column: ...`` for the first malformed field; the column counts bytes from 1.
    """
    return join_rows(parse_blocks(data, name, first_line, index_base, nan))


def parse_blocks(
    data: bytes | Bytes,
    name: str,
    first_line: int | Callable[[], int],
    index_base: int,
    nan: NanRule = "refuse",
) -> Iterator[Rows]:
    """Yield the rows of block after block; parameters and errors as for ``parse``."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    done = 0
    for block in cut_lines(buffer):

        def line_of_block(before: int = done) -> int:
            base = first_line() if callable(first_line) else first_line
            return base + int(np.count_nonzero(buffer[:before] == 10))

        yield parse_block(block, name, line_of_block, index_base, nan)
        done += block.size


def cut_lines(buffer: Bytes, size: int = BLOCK) -> Iterator[Bytes]:
    """Yield consecutive slices of about ``size`` bytes that end at line ends (the last one where the text ends)."""
    begin = 0
    while begin < buffer.size:
        end = min(begin + size, buffer.size)
        while end < buffer.size and buffer[end - 1] != 10:
            found = np.flatnonzero(buffer[end : end + size] == 10)
            end = min(end + size, buffer.size) if found.size == 0 else end + int(found[0]) + 1
        yield buffer[begin:end]
        begin = end


def parse_block(
    block: Bytes, name: str, first_line: Callable[[], int], index_base: int, nan: NanRule = "refuse"
) -> Rows:
    """Parse one block of whole lines; parameters and errors as for ``parse``."""
    found = find_fields(block, index_base)
    if found.bad.any() or found.bad_label.any():
        return _mend(found, name, first_line, nan)
    return rows_of(found)


def _mend(found: Fields, name: str, first_line: Callable[[], int], nan: NanRule) -> Rows:
    """Return the rows of a block with faults that ``nan`` allows; any other is an error."""
    faults = find_faults(found)
    fatal = fatal_faults(faults, nan)
    if fatal.any():
        worst = int(np.argmax(fatal))
        place = tell(found, int(faults.fields[worst]), int(faults.kinds[worst]))
        raise DataError(f"{name}:{first_line() + place.line - 1}:{place.column}: {place.message}")
    return mend(found, faults, fatal, nan)
