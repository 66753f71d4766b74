"""Row slices of ``shards.h5`` files, and the check of a whole one."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.naming import check_names, check_words
from mpi_opt.datasets.rows import Rows
from mpi_opt.datasets.shardfile import Contents, names_of, words_of
from mpi_opt.datasets.shardfile_blocks import Reader, opened
from mpi_opt.errors import DataError
from mpi_opt.types import Indices, Vector


class Slice(NamedTuple):
    """Consecutive rows of one or more files.

    Attributes
    ----------
    labels : ndarray of float64, shape (rows,)
    sparse : Rows or None
        Columns from 0, or from what was asked for.
    dense : ndarray of uint8 or float64, shape (rows, features), or None
        Not yet divided by the file's divisor.
    weights : ndarray of float64, shape (rows,), or None
    """

    labels: Vector
    sparse: Rows | None
    dense: npt.NDArray[Any] | None
    weights: Vector | None


def check_alike(files: Sequence[Contents]) -> None:
    """Refuse files that make no one set.

    Raises
    ------
    DataError
        Names two files and how they differ.
    """
    first = files[0]
    for other in files[1:]:
        for what in ("layout", "index_base", "divisor", "weighted"):
            one, two = getattr(first.facts, what), getattr(other.facts, what)
            if one != two:
                raise DataError(
                    f"{first.path} and {other.path} cannot be one set: {what} is {one!r} in the first and {two!r} in "
                    "the second; convert their sources together"
                )
        if first.facts.layout == "dense" and first.facts.features != other.facts.features:
            raise DataError(
                f"{first.path} has {first.facts.features} features and {other.path} {other.facts.features}; the files "
                "of a dense set must have as many"
            )
    for naming, check in ((names_of, check_names), (words_of, check_words)):
        # those that tell nothing go with any other
        telling = [(file.path, found) for file in files if (found := naming(file.facts)) is not None]
        for path, found in telling[1:]:
            check(str(path), found, telling[0][1], f"{telling[0][0]}, of the same set")


def read_slice(files: Sequence[Contents], begin: int, end: int, shift: int = 0) -> Slice:
    """Read rows ``begin`` to ``end`` of files that follow each other, and nothing but them.

    Parameters
    ----------
    files : sequence of Contents
        As ``check_alike`` lets pass.
    begin, end : int
        Row numbers through all the files.
    shift : int
        Added to the columns of CSR rows: the index base, where columns are wanted as the source wrote them.

    Raises
    ------
    DataError
        A file was altered, cut short or cannot be read: names it.
    """
    facts = files[0].facts
    count = end - begin
    cuts, first = [], 0
    for file in files:
        low, high = max(begin - first, 0), min(end - first, file.facts.rows)
        if low < high:
            cuts.append((file, low, high))
        first += file.facts.rows
    labels = np.empty(count)
    weights = np.empty(count) if facts.weighted else None
    dense = None
    if facts.layout == "dense":
        raw = all(file.places["dense"].dtype == np.uint8 for file in files)
        dense = np.empty((count, facts.features), dtype=np.uint8 if raw else np.float64)
    indptr = np.zeros(count + 1, dtype=np.int64)
    ranges = []
    at = 0
    for file, low, high in cuts:
        rows = slice(at, at + high - low)
        with opened(file) as reader:
            reader.read("labels", low, labels[rows])
            if weights is not None:
                reader.read("weights", low, weights[rows])
            if dense is not None:
                reader.read("dense", low * facts.features, dense[rows].reshape(-1))
            else:
                ranges.append(_pointers(reader, low, indptr[at : rows.stop + 1]))
        at = rows.stop
    if dense is not None:
        return Slice(labels, None, dense, weights)
    indices, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    at = 0
    for (file, _, _), (start, stop) in zip(cuts, ranges, strict=True):
        inside = slice(at, at + stop - start)
        with opened(file) as reader:
            reader.read("indices", start, indices[inside], below=file.facts.features, shift=shift)
            if file.facts.constant is None:
                reader.read("values", start, values[inside])
            else:
                values[inside] = file.facts.constant
        at = inside.stop
    return Slice(labels, Rows(indptr, indices, values, labels), None, weights)


def verify(contents: Contents) -> None:
    """Read all of a file, in pieces, and check what reading a slice takes for granted.

    Raises
    ------
    DataError
        A checksum does not fit, or what the file holds is no valid set: names the file.
    """
    facts, path = contents.facts, contents.path
    counted, nonzeros = 0, 0
    for begin, end in pieces_of([contents]):
        part = read_slice([contents], begin, end)
        counted += end - begin
        numbers = [part.labels, *([] if part.weights is None else [part.weights])]
        if part.sparse is not None:
            rows = part.sparse
            numbers.append(rows.values)
            nonzeros += rows.values.size
            falls = rows.indices[1:] <= rows.indices[:-1]
            starts = rows.indptr[1:-1]
            falls[starts[(starts > 0) & (starts < rows.indices.size)] - 1] = False
            if falls.any():
                raise DataError(f"{path}: columns do not ascend within row {_row(rows, falls) + begin + 1}")
        else:
            assert part.dense is not None
            numbers.append(part.dense)
            nonzeros += int(np.count_nonzero(part.dense))
        if not all(bool(np.isfinite(some).all()) for some in numbers):
            raise DataError(f"{path}: rows {begin + 1} to {end} hold numbers that are not finite")
        if part.weights is not None and bool((part.weights < 0).any()):
            raise DataError(f"{path}: rows {begin + 1} to {end} hold negative weights")
    if (counted, nonzeros) != (facts.rows, facts.nonzeros):
        raise DataError(
            f"{path}: holds {nonzeros} entries in {counted} rows, but says {facts.nonzeros} in {facts.rows}"
        )


def pieces_of(files: Sequence[Contents], entries: int = 1 << 20) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, in order, of about ``entries`` entries each."""
    first = 0
    for file in files:
        facts = file.facts
        if facts.layout == "dense":
            step = max(1, entries // max(1, facts.features))
            for begin in range(0, facts.rows, step):
                yield first + begin, first + min(begin + step, facts.rows)
        else:
            with opened(file) as reader:
                yield from ((first + begin, first + end) for begin, end in _sparse_pieces(reader, entries))
        first += facts.rows


def _sparse_pieces(reader: Reader, entries: int) -> Iterator[tuple[int, int]]:
    rows, done = reader.rows, 0
    while done < rows:
        most = min(rows, done + entries)
        pointers = np.empty(most - done + 1, dtype=np.int64)
        _pointers(reader, done, pointers, base=0)
        end = done + max(1, int(np.searchsorted(pointers, pointers[0] + entries, side="right")) - 1)
        yield done, end
        done = end


def _row(rows: Rows, falls: npt.NDArray[np.bool_]) -> int:
    return int(np.searchsorted(rows.indptr, int(np.argmax(falls)) + 1, side="right")) - 1


def _pointers(reader: Reader, low: int, out: Indices, base: int | None = None) -> tuple[int, int]:
    """Read ``out.size`` row pointers from row ``low`` on; return the first and last as the file has them.

    In ``out`` they go on from what stands in its first place, or from what the file has with ``base=0``.
    """
    offset = int(out[0])
    reader.read("indptr", low, out)
    start, stop = int(out[0]), int(out[-1])
    if start < 0 or stop > reader.nonzeros or bool((out[1:] < out[:-1]).any()):
        raise DataError(f"{reader.path}: damaged: the entries of its rows do not follow each other")
    if base is None:
        out += offset - start
    return start, stop
