"""LIBSVM text to rows, with array operations only.

The grammar, line by line (fields parted by blanks or tabs; LF or CRLF; the last newline may be missing)::

    line    = [ label { feature } ] [ "#" anything ]
    feature = index ":" number   |   "qid:" anything (skipped)
    index   = digits, strictly ascending in a line, at least the index base
    label   = number

Numbers are finite decimals. A line without a label is no row; a label alone is a row of zeros.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.growing import Growing
from mpi_opt.datasets.malformed import explain
from mpi_opt.datasets.numbers import PAD, Events, find_events, read_numbers, read_runs
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes, Indices, Vector

LARGEST = 2**31 - 1
"""Largest index a file may hold: columns are numbered by int32."""

BLOCK = 1 << 16
"""Bytes parsed at a time: the work arrays, twenty times as much, stay in the cache and never matter beside the data."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Parsed rows in compressed form.

    Attributes
    ----------
    indptr : ndarray of int64, shape (rows + 1,)
    indices : ndarray of int32, shape (nonzeros,)
        As written in the file: the index base is not yet taken off.
    values : ndarray of float64, shape (nonzeros,)
    labels : ndarray of float64, shape (rows,)
    """

    indptr: Indices
    indices: npt.NDArray[np.int32]
    values: Vector
    labels: Vector


def parse(
    data: bytes | Bytes, name: str = "<text>", first_line: int | Callable[[], int] = 1, index_base: int = 1
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

    Returns
    -------
    Rows

    Raises
    ------
    DataError
        ``name:line: ...`` for the first malformed line.
    """
    return join_rows(parse_blocks(data, name, first_line, index_base))


def parse_blocks(
    data: bytes | Bytes, name: str, first_line: int | Callable[[], int], index_base: int
) -> Iterator[Rows]:
    """Yield the rows of block after block; parameters and errors as for ``parse``."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    done = 0
    for block in cut_lines(buffer):

        def line_of_block(before: int = done) -> int:
            base = first_line() if callable(first_line) else first_line
            return base + int(np.count_nonzero(buffer[:before] == 10))

        yield parse_block(block, name, line_of_block, index_base)
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


def join_rows(parts: Iterable[Rows]) -> Rows:
    """Return the rows of all parts, in order; parts made on the way are not needed longer than their turn."""
    indptr, indices, values, labels = Growing(np.int64), Growing(np.int32), Growing(np.float64), Growing(np.float64)
    indptr.add(np.zeros(1, dtype=np.int64))
    for part in parts:
        indptr.add(part.indptr[1:] + indices.size)
        indices.add(part.indices)
        values.add(part.values)
        labels.add(part.labels)
    return Rows(indptr.finish(), indices.finish(), values.finish(), labels.finish())


def parse_block(block: Bytes, name: str, first_line: Callable[[], int], index_base: int) -> Rows:
    """Parse one block of whole lines; parameters and errors as for ``parse``."""
    text = np.empty(block.size + 2 + PAD, dtype=np.uint8)
    text[0] = 10
    text[1 : -1 - PAD] = block
    text[-1 - PAD :] = 32
    text[-1 - PAD] = 10
    _blank_ignored(text)
    events = find_events(text)

    # a field begins behind white space: with a digit, or with an event that is not white space
    fields = np.flatnonzero(events.space[:-1] & ((events.gap > 0) | ~events.space[1:]))
    line = np.cumsum(events.kind == 10)[fields]
    first = np.ones(fields.size, dtype=np.bool_)
    np.not_equal(line[1:], line[:-1], out=first[1:])
    rows = np.flatnonzero(first)
    indptr = np.append(rows - np.arange(rows.size), fields.size - rows.size)

    labels, bad_label = read_numbers(events, fields[rows])
    features = fields[~first]
    digits = events.gap[features]
    index = read_runs(text, events.at[features] + 1, digits)
    bad = (digits == 0) | (digits > 19) | (index > LARGEST) | (index < index_base) | (events.kind[features + 1] != 58)
    descends = index[1:] <= index[:-1]
    starts = indptr[1:-1]
    descends[starts[(starts > 0) & (starts < features.size)] - 1] = False
    bad[1:] |= descends
    values, bad_value = read_numbers(events, features + 1)
    bad |= bad_value
    if bad.any() or bad_label.any():
        wrong = np.empty(fields.size, dtype=np.bool_)
        wrong[first], wrong[~first] = bad_label, bad
        raise _error(events, fields, first, int(np.argmax(wrong)), name, first_line, index_base)
    return Rows(indptr, index.astype(np.int32), values, labels)


def _blank_ignored(text: Bytes) -> None:
    """Overwrite comments and ``qid:`` fields with blanks, in place."""
    hashes = np.flatnonzero(text == 35)
    if hashes.size:
        ends = np.flatnonzero(text == 10)
        _fill(text, hashes, ends[np.searchsorted(ends, hashes)])
    if (text == 113).any():
        q, i, d, colon = (text[shift : text.size - 4 + shift] == byte for shift, byte in enumerate(b"qid:", start=1))
        marks = np.flatnonzero(q & i & d & colon & (text[:-4] <= 32)) + 1
        ends = np.flatnonzero(text <= 32)
        _fill(text, marks, ends[np.searchsorted(ends, marks)])


def _fill(text: Bytes, starts: Indices, stops: Indices) -> None:
    """Blank out ``text[starts:stops]``; the spans may overlap."""
    depth = np.zeros(text.size + 1, dtype=np.int32)
    np.add.at(depth, starts, 1)
    np.add.at(depth, stops, -1)
    text[np.cumsum(depth[:-1]) > 0] = 32


def _error(
    events: Events,
    fields: Indices,
    first: npt.NDArray[np.bool_],
    wrong: int,
    name: str,
    first_line: Callable[[], int],
    index_base: int,
) -> DataError:
    """Return the error of field number ``wrong``."""

    def written(field: int) -> str:
        begin = int(events.at[fields[field]]) + 1
        rest = events.text[begin:]
        length = int(np.argmax(rest <= 32))
        return rest[:length].tobytes().decode("utf-8", "backslashreplace")

    begin = int(events.at[fields[wrong]]) + 1
    line = first_line() + int(np.count_nonzero(events.text[1:begin] == 10))
    previous = None if first[wrong] or first[wrong - 1] else written(wrong - 1)
    return DataError(f"{name}:{line}: {explain(written(wrong), bool(first[wrong]), previous, index_base)}")
