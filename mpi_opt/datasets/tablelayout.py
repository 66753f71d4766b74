"""What the first lines of a CSV file say about the rest: what parts its columns, their names, which is the label."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from mpi_opt.datasets.byteranges import LONGEST
from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.source import TableFiles
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError

LABEL_NAMES = ("label", "y", "target", "class")
"""Names, in any case, of the column that is the label where nothing else is said."""

MISSING = frozenset({"", "na", "n/a", "null", "?"})
"""What stands for a missing value besides nan; in any case, blanks around it left out."""

MARK = b"\xef\xbb\xbf"
"""What some programs begin a text of UTF-8 with."""

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_SAMPLE = 20
_TO_PREDICT = " (to predict rows without labels: --no-label)"
_SHOWN = 12
_LIBSVM = re.compile(rb"\s*\S+(\s+(qid|\d+):[^\s,;]+)+\s*(#.*)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the files of a table are read, the same for all of them.

    Attributes
    ----------
    delimiters : tuple of str
        What parts the columns of each file.
    begins : tuple of int
        Byte of each file's (uncompressed) content at which its rows begin.
    width : int
        Columns, those of label and weight included.
    names : tuple of str or None
        Of the columns, where a file has a header.
    label : int or None
        The column of the label; ``None`` where there is none.
    weight : int or None
        The column of the weights.
    words : dict of str to float, or None
        Labels that are words -> their numbers.
    """

    delimiters: tuple[str, ...]
    begins: tuple[int, ...]
    width: int
    names: tuple[str, ...] | None
    label: int | None
    weight: int | None
    words: dict[str, float] | None

    @property
    def features(self) -> int:
        """Number of columns that are neither label nor weight."""
        return self.width - (self.label is not None) - (self.weight is not None)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns that are neither label nor weight."""
        if self.names is None:
            return None
        return tuple(name for column, name in enumerate(self.names) if column not in (self.label, self.weight))

    def called(self, column: int) -> str:
        """Return what errors call a column."""
        return f"column {column} (counted from 0)" if self.names is None else f"column {self.names[column]!r}"

    def note(self, name: str) -> str:
        """Return what was found out, for the user to see whether it is right."""
        marks = " and ".join(_DELIMITERS[mark] for mark in dict.fromkeys(self.delimiters))
        header = "no header" if self.names is None else "a header"
        label = "no label" if self.label is None else f"the label is {self.called(self.label)}"
        weight = "" if self.weight is None else f", the weights are {self.called(self.weight)}"
        nameless = ""
        if self.names is not None and not self.names[0] and 0 not in (self.label, self.weight):
            nameless = "; column 0 has no name and is taken for a feature: remove it if it only numbers the rows"
        return f"{name}: {self.width} columns parted by {marks}, {header}; {label}{weight}{nameless}"


def look(source: TableFiles, reading: Reading) -> Layout:
    """Find the layout of a table by the first lines of its files; not collective, and the same on every process.

    Parameters
    ----------
    source : TableFiles
    reading : Reading
        Its ``label``, ``weight`` and ``labels``.

    Raises
    ------
    DataError
        The files are no tables or differ in their columns, or the label or weight column cannot be told.
    """
    words = None if reading.labels is None else {word: float(k) for k, word in enumerate(reading.labels)}
    delimiters, begins = [], []
    names: list[str] | None = None
    width = 0
    for number, path in enumerate(source.paths):
        lines, ends, start = _head(source, number)
        delimiter = _delimiter(str(path), lines)
        first = _first(str(path), lines[0], delimiter)
        header = not all(is_value(field) or (words is not None and field in words) for field in first)
        if number and len(first) != width:
            raise DataError(
                f"{path}: has {len(first)} columns, but {source.paths[0]} has {width}; all files must have as many"
            )
        if header and names is not None and first != names:
            raise DataError(f"{path}: its columns are {_shown(first)}, but those of other files {_shown(names)}")
        if header:
            names = first
        width = len(first)
        delimiters.append(delimiter)
        begins.append(ends[0] if header else start)
    where = str(source.paths[0])
    label = _label(where, reading.label, names, width) if reading.labelled else None
    weight = None if reading.weight is None else _column(where, "weight", reading.weight, names, width)
    if weight is not None and weight == label:
        raise DataError(f"{where}: data.label and data.weight name the same column; allowed are two")
    if width <= (label is not None) + (weight is not None):
        raise DataError(f"{where}: has {width} columns, so none is a feature; a row is its label and features")
    return Layout(
        tuple(delimiters), tuple(begins), width, None if names is None else tuple(names), label, weight, words
    )


def is_value(field: str) -> bool:
    """Return whether a field is a number as Python reads them, or stands for a missing one."""
    try:
        float(field)
    except ValueError:
        return is_missing(field)
    return "_" not in field


def is_missing(field: str) -> bool:
    """Return whether a field stands for a missing value, other than as ``nan``."""
    return field.strip().lower() in MISSING


def _head(source: TableFiles, number: int) -> tuple[list[str], list[int], int]:
    """Return the first lines of a file that are not blank, the byte behind each, and where the text begins."""
    path = source.paths[number]
    lines: list[str] = []
    ends: list[int] = []
    with open_stream(path) as stream:
        start = len(MARK) if stream.read(len(MARK)) == MARK else 0
        at = stream.seek(start)
        while len(lines) < _SAMPLE and (line := stream.readline(LONGEST)):
            at += len(line)
            if b"\0" in line:
                raise DataError(f"{path}:1: holds a NUL byte; allowed is text in UTF-8 (or plain ASCII)")
            if line.strip():
                if not lines and _LIBSVM.fullmatch(line.rstrip()):
                    raise DataError(
                        f"{path}: is LIBSVM text (label index:value ...), not a table; give it a name without .csv"
                    )
                lines.append(line.decode("utf-8", "backslashreplace").rstrip("\r\n"))
                ends.append(at)
    if not lines:
        raise DataError(f"{path}: holds no rows; allowed is a table of at least one")
    return lines, ends, start


def _delimiter(where: str, lines: list[str]) -> str:
    """Return what parts the columns: what gives all lines as many fields, most of them numbers."""
    best, best_score = "", (-1.0, 0)
    for mark in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=mark) if row]
        except csv.Error:
            continue
        widths = {len(row) for row in rows}
        if len(widths) == 1 and max(widths) > 1:
            below = [field for row in rows[1:] or rows for field in row]
            # of "1,5;2" the semicolon is what parts, and the comma is refused as a point
            values = sum(is_value(field if mark == "," else field.replace(",", ".", 1)) for field in below)
            score = (values / len(below), max(widths))
            if score > best_score:
                best, best_score = mark, score
    if best:
        return best
    best = max(_DELIMITERS, key=lines[0].count)
    if best not in lines[0]:
        raise DataError(
            f"{where}: its first line {cut(lines[0])} has one column; "
            "a table has two or more, parted by commas, semicolons or tabs"
        )
    return best


def _first(where: str, line: str, delimiter: str) -> list[str]:
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=delimiter, strict=True))]
    except csv.Error as error:
        raise DataError(f"{where}: its first row {cut(line)} is no row of a table in one line: {error}") from error


def _label(where: str, wanted: str | int | None, names: Sequence[str] | None, width: int) -> int:
    if wanted is not None:
        return _column(where, "label", wanted, names, width)
    if names is None:
        raise DataError(
            f"{where}: has no header, so which of its {width} columns is the label? Say its number, "
            f"data.label = 0 for the first or -1 for the last{_TO_PREDICT}"
        )
    found = [column for column, name in enumerate(names) if name.lower() in LABEL_NAMES]
    if len(found) != 1:
        which = "no column is" if not found else f"{len(found)} columns are"
        raise DataError(
            f"{where}: which column is the label? {which} called {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}; "
            f'say data.label = "NAME" with one of {_shown(names)}, or its number from 0{_TO_PREDICT}'
        )
    return found[0]


def _column(where: str, key: str, wanted: str | int, names: Sequence[str] | None, width: int) -> int:
    """Return the number of the column that ``data.label`` or ``data.weight`` names."""
    if isinstance(wanted, int):
        if not -width <= wanted < width:
            raise DataError(
                f"{where}: has {width} columns, but data.{key} = {wanted}; allowed is 0 to {width - 1}, "
                f"or -{width} to -1 from the end"
            )
        return wanted % width
    if names is None:
        _refuse(where, key, wanted, f"it has no header; say the column's number, 0 to {width - 1}")
    found = [column for column, name in enumerate(names) if name == wanted]
    if not found:
        _refuse(where, key, wanted, f"its columns are {_shown(names)}")
    if len(found) > 1:
        _refuse(where, key, wanted, f"{len(found)} columns are called so; say the number of one from 0")
    return found[0]


def _refuse(where: str, key: str, wanted: str, why: str) -> NoReturn:
    unlabelled = _TO_PREDICT if key == "label" else ""
    raise DataError(f'{where}: has no column for data.{key} = "{wanted}": {why}{unlabelled}')


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")


def cut(text: str) -> str:
    """Return a field or line as errors show it: in quotes, a long one cut off."""
    return repr(text if len(text) <= 60 else text[:60] + "...")
