"""LIBSVM text to rows, with array operations only.

The grammar, line by line (fields parted by blanks or tabs; LF or CRLF; the last newline may be missing)::

    line    = [ label { feature } ] [ "#" anything ]
    feature = index ":" number   |   "qid:" anything (skipped)
    index   = digits, strictly ascending in a line, at least the index base
    label   = number

Numbers are finite decimals, unless a rule says what else becomes of NaN and infinity. A line without a label is no row;
a label alone is a row of zeros. ``docs/data-files.md`` has it all for users.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.faults import find_faults, tell
from mpi_opt.datasets.fields import LARGEST, Fields, find_fields
from mpi_opt.datasets.growing import Growing
from mpi_opt.datasets.malformed import LABELS_NOT_FINITE, VALUES_NOT_FINITE
from mpi_opt.datasets.numbers import Mask
from mpi_opt.datasets.spec import NanRule
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes, Indices, Vector

__all__ = ["BLOCK", "LARGEST", "Rows", "Seen", "cut_lines", "join_rows", "parse", "parse_block", "parse_blocks"]

BLOCK = 1 << 16
"""Bytes parsed at a time: the work arrays, twenty times as much, stay in the cache and never matter beside the data."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was passed over in reading.

    Attributes
    ----------
    qids : int
        ``qid:`` fields.
    dropped : int
        Rows left out for a label or value that is not finite.
    zeroed : int
        Values that are not finite and were taken as 0.
    zero_index : bool
        Whether a row left out had an index 0: it says what the file counts from all the same.
    """

    qids: int = 0
    dropped: int = 0
    zeroed: int = 0
    zero_index: bool = False

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.qids + other.qids,
            self.dropped + other.dropped,
            self.zeroed + other.zeroed,
            self.zero_index or other.zero_index,
        )

    def notes(self, name: str) -> tuple[str, ...]:
        """Return what a user should know of it about the set ``name``."""
        said = (
            (self.dropped, 'rows left out: a label or value of theirs is not finite (data.nan = "drop-row")'),
            (self.zeroed, 'values that are not finite taken as 0 (data.nan = "zero")'),
            (self.qids, "qid: fields ignored"),
        )
        return tuple(f"{name}: {count} {what}" for count, what in said if count)


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
    seen : Seen
    """

    indptr: Indices
    indices: npt.NDArray[np.int32]
    values: Vector
    labels: Vector
    seen: Seen = Seen()


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


def join_rows(parts: Iterable[Rows]) -> Rows:
    """Return the rows of all parts, in order; parts made on the way are not needed longer than their turn."""
    indptr, indices, values, labels = Growing(np.int64), Growing(np.int32), Growing(np.float64), Growing(np.float64)
    indptr.add(np.zeros(1, dtype=np.int64))
    seen = Seen()
    for part in parts:
        indptr.add(part.indptr[1:] + indices.size)
        indices.add(part.indices)
        values.add(part.values)
        labels.add(part.labels)
        seen += part.seen
    return Rows(indptr.finish(), indices.finish(), values.finish(), labels.finish(), seen)


def parse_block(
    block: Bytes, name: str, first_line: Callable[[], int], index_base: int, nan: NanRule = "refuse"
) -> Rows:
    """Parse one block of whole lines; parameters and errors as for ``parse``."""
    found = find_fields(block, index_base)
    if found.bad.any() or found.bad_label.any():
        return _mend(found, name, first_line, nan)
    return _rows(found)


def _rows(found: Fields) -> Rows:
    return Rows(found.indptr, found.index.astype(np.int32), found.values, found.labels, Seen(qids=found.qids))


def _mend(found: Fields, name: str, first_line: Callable[[], int], nan: NanRule) -> Rows:
    """Return the rows of a block with faults that ``nan`` allows; any other is an error."""
    faults = find_faults(found)
    fatal = ~allowed(faults.kinds, nan)
    if fatal.any():
        worst = int(np.argmax(fatal))
        place = tell(found, int(faults.fields[worst]), int(faults.kinds[worst]))
        raise DataError(f"{name}:{first_line() + place.line - 1}:{place.column}: {place.message}")
    if nan == "zero":
        found.values[found.bad_value] = 0.0
        return replace(_rows(found), seen=Seen(qids=found.qids, zeroed=faults.fields.size))
    kept = np.ones(found.labels.size, dtype=np.bool_)
    kept[faults.rows] = False
    return keep_rows(_rows(found), kept)


def allowed(kinds: npt.NDArray[np.uint8], nan: NanRule) -> Mask:
    """Return which kinds of fault the rule for values that are not finite makes none of."""
    mended = {"refuse": (), "zero": VALUES_NOT_FINITE, "drop-row": (*VALUES_NOT_FINITE, *LABELS_NOT_FINITE)}
    return np.isin(kinds, np.array(mended[nan], dtype=np.uint8))


def keep_rows(rows: Rows, kept: Mask) -> Rows:
    """Return the rows where ``kept`` (bool, shape (rows,)) is true; the others count as dropped."""
    lengths = np.diff(rows.indptr)
    entries = np.repeat(kept, lengths)
    seen = Seen(
        qids=rows.seen.qids,
        dropped=rows.seen.dropped + int(np.count_nonzero(~kept)),
        zeroed=rows.seen.zeroed,
        zero_index=rows.seen.zero_index or bool((rows.indices[~entries] == 0).any()),
    )
    indptr = np.append(0, np.cumsum(lengths[kept]))
    return Rows(indptr, rows.indices[entries], rows.values[entries], rows.labels[kept], seen)
