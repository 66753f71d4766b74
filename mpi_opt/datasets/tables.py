"""CSV files read by byte range, so that every process parses its own share, or as a whole.

The grammar: rows end with LF or CRLF; fields are parted by commas, semicolons or tabs, whichever gives the first lines
of a file as many fields each, and may stand in double quotes, but not go over several lines; blank lines count for
nothing; a first row in which anything is no number is the header. A value is what Python's ``float`` reads, without
underscores; an empty field, ``nan``, ``na``, ``n/a``, ``null`` and ``?`` are missing values. The text is UTF-8.
"""

import csv
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpi_opt.datasets.byteranges import count_lines, share_ranges, whole_lines
from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.pieces import LABEL, WEIGHT, Piece, settle
from mpi_opt.datasets.source import TableFiles
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.tablelayout import Layout, cut, is_missing, is_value, look
from mpi_opt.errors import DataError
from mpi_opt.types import Vector

CHUNK = 1 << 18
"""Bytes parsed at a time: the strings made of them, some ten times as much, never matter beside the data."""

_SHOWN = 12


def csv_pieces(
    source: TableFiles, reading: Reading, part: int, parts: int, layout: Layout | None = None
) -> Iterator[Piece]:
    """Read one of ``parts`` shares of a table, a piece of about ``CHUNK`` bytes of text at a time.

    The files are taken as one long byte space, and a line belongs to the share that its first byte falls in: the
    shares in order are exactly the set's rows. Compressed files have no byte ranges: share 0 is all of them.

    Parameters
    ----------
    source : TableFiles
    reading : Reading
        Its ``label``, ``weight``, ``labels`` and ``nan``.
    part, parts : int
        Which share, counted from 0, of how many.
    layout : Layout, optional
        What ``look`` found out about these files, where that is known already.

    Yields
    ------
    Piece
        Dense.

    Raises
    ------
    DataError
        ``file:line:column: ...`` with the line's true number and the character in it, or a file cannot be read.
    """
    layout = look(source, reading) if layout is None else layout
    ranges: list[tuple[int, int, int | None]] = [*share_ranges(source.sizes, part, parts)]
    if not source.ranges:
        ranges = [] if part else [(number, 0, None) for number in range(len(source.paths))]
    for number, first, last in ranges:
        path = source.paths[number]
        with open_stream(path) as stream:
            for at, data in whole_lines(stream, path, first, last, CHUNK, layout.begins[number]):
                yield _parse(_Chunk(path, at, data, layout.delimiters[number]), layout, reading)


class _Chunk(NamedTuple):
    """Whole lines: of which file, from which byte of its uncompressed content, parted by what."""

    path: Path
    at: int
    data: bytes
    delimiter: str

    def at_line(self, line: int, column: int = 0) -> str:
        """Return what an error begins with; line and column (a character's) are counted from 0 in the chunk."""
        return f"{self.path}:{count_lines(self.path, self.at) + line + 1}:{column + 1}:"


def _parse(chunk: _Chunk, layout: Layout, reading: Reading) -> Piece:
    """Return the rows of whole lines."""
    if b"\0" in chunk.data:
        line = chunk.data[: chunk.data.index(b"\0")].count(b"\n")
        raise DataError(f"{chunk.at_line(line)} holds a NUL byte; allowed is text in UTF-8 (or plain ASCII)")
    lines = chunk.data.decode("utf-8", "backslashreplace").split("\n")
    table = _plain(chunk, lines, layout)
    if table is None:
        table = _numbers(chunk, lines, layout)
    taken = [column for column in (layout.label, layout.weight) if column is not None]
    columns = np.delete(np.arange(layout.width), taken)

    def place(row: int, column: int) -> str:
        asked = {LABEL: layout.label, WEIGHT: layout.weight}.get(column)
        k = int(columns[column]) if asked is None else asked
        line, fields = [(line, row) for line, row in enumerate(_fields(chunk, lines, layout)) if not _blank(row)][row]
        where = chunk.at_line(line, _start(lines[line], k, chunk.delimiter))
        return f"{where} {cut(fields[k])} in {layout.called(k)}"

    weights = None if layout.weight is None else table[:, layout.weight].copy()
    labels = np.zeros(len(table)) if layout.label is None else table[:, layout.label].copy()
    return settle(table[:, columns], labels, weights, reading.nan, place)


def _plain(chunk: _Chunk, lines: list[str], layout: Layout) -> Vector | None:
    """Return the table of lines that hold nothing but numbers, by a reader twice as fast; ``None`` for others."""
    if layout.words is not None or b'"' in chunk.data or not chunk.data.strip():
        return None
    try:
        table: Vector = np.loadtxt(lines, delimiter=chunk.delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return table if table.shape[1] == layout.width else None


def _fields(chunk: _Chunk, lines: list[str], layout: Layout) -> list[list[str]]:
    """Return the fields of each line; of a blank line none, or one that is blank."""
    reader = csv.reader(lines, delimiter=chunk.delimiter, strict=True)
    rows: list[list[str]] = []
    over = "{} a quoted field has no end in its line; allowed are rows of one line"
    try:
        for row in reader:
            if reader.line_num != len(rows) + 1:
                raise DataError(over.format(chunk.at_line(len(rows))))
            rows.append(row)
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise DataError(over.format(chunk.at_line(len(rows)))) from error
        raise DataError(f"{chunk.at_line(len(rows))} is no row of a table: {error}") from error
    if not set(map(len, rows)) <= {0, layout.width}:
        for line, row in enumerate(rows):
            if len(row) != layout.width and not _blank(row):
                raise DataError(f"{chunk.at_line(line)} has {len(row)} fields, but the first row has {layout.width}")
    return rows


def _blank(fields: list[str]) -> bool:
    return len(fields) < 2 and not "".join(fields).strip()


def _numbers(chunk: _Chunk, lines: list[str], layout: Layout) -> Vector:
    """Return the table of lines, missing values as nan, labels that are words as their numbers."""
    table = [row for row in _fields(chunk, lines, layout) if not _blank(row)]
    if layout.words is not None and layout.label is not None:
        spelled = {word: str(number) for word, number in layout.words.items()}
        for row in table:
            word = row[layout.label].strip()
            # what is neither known nor missing is made to fail below
            row[layout.label] = spelled.get(word, "" if is_missing(word) else "unknown")
    # most chunks hold numbers alone; what float takes besides has underscores
    for convert in (_number,) if b"_" in chunk.data else (float, _number):
        flat = map(convert, chain.from_iterable(table))
        with suppress(ValueError):
            return np.fromiter(flat, dtype=np.float64, count=len(table) * layout.width).reshape(-1, layout.width)
    raise _error(chunk, lines, layout)


def _number(field: str) -> float:
    try:
        value = float(field)
    except ValueError:
        if is_missing(field):
            return nan
        raise
    if "_" in field:
        raise ValueError
    return value


def _error(chunk: _Chunk, lines: list[str], layout: Layout) -> DataError:
    """Return the error of the first field that is no value."""
    table = _fields(chunk, lines, layout)
    for line, row in enumerate(table):
        for column, field in enumerate(row if not _blank(row) else []):
            spells = layout.words if column == layout.label else None
            if is_value(field) if spells is None else field.strip() in spells or is_missing(field):
                continue
            where = chunk.at_line(line, _start(lines[line], column, chunk.delimiter))
            return DataError(f"{where} {cut(field)} in {layout.called(column)} {_why(field, column, table, layout)}")
    raise AssertionError("every field is a value")


def _why(field: str, column: int, table: list[list[str]], layout: Layout) -> str:
    """Return what is wrong with a field, and what to do."""
    if column != layout.label:
        if is_value(field.replace(",", ".", 1)):
            return "is not a number: a decimal comma; allowed are decimal points"
        return "is not a number; give each word a column of its own that is 1 or 0, or leave the column out"
    words = list(layout.words or sorted({row[column].strip() for row in table if row and not is_missing(row[column])}))
    listed = "[" + ", ".join(f'"{word}"' for word in words[:_SHOWN]) + (", ...]" if len(words) > _SHOWN else "]")
    if layout.words is not None:
        return f"is none of data.labels = {listed}"
    return f"is not a number; say which words the labels are, those of 0, 1 and so on: data.labels = {listed}"


def _start(line: str, column: int, delimiter: str) -> int:
    """Return the position in a line at which a column's field begins."""
    start, quoted = 0, False
    for position, character in enumerate(line):
        if column == 0:
            break
        if character == '"':
            quoted = not quoted
        elif character == delimiter and not quoted:
            start, column = position + 1, column - 1
    return start
