"""Sets that are arrays, NumPy's or SciPy's, in pieces: of ``.npy`` by row ranges, else as a whole."""

from collections.abc import Iterator

import numpy as np

from mpi_opt.datasets.arrayfiles import Array, Found, open_arrays
from mpi_opt.datasets.libsvm import Rows
from mpi_opt.datasets.pieces import LABEL, WEIGHT, Piece, settle, settle_sparse
from mpi_opt.datasets.source import ArrayFiles
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError
from mpi_opt.types import Indices, Vector

ENTRIES = 1 << 17
"""Numbers of a piece, about: what is made of it on the way never matters beside the data."""

_SHOWN = 12
_REMEDY = (
    'name a .npy file of the labels behind it, train = ["X.npy", "y.npy"], or, of a dense array, '
    "the column that is the label: data.label = -1 for the last"
)


def array_pieces(source: ArrayFiles, reading: Reading, part: int, parts: int) -> Iterator[Piece]:
    """Read one of ``parts`` shares of an array, about ``ENTRIES`` numbers at a time.

    Share i of n holds the rows N*i//n to N*(i+1)//n of ``.npy``. ``.npz`` has no row ranges: share 0 is all of it.

    Parameters
    ----------
    source : ArrayFiles
    reading : Reading
        ``label`` and ``weight`` are numbers of columns, where labels and weights have no array of their own;
        ``labels`` spells labels that are strings.
    part, parts : int
        Which share, counted from 0, of how many.

    Yields
    ------
    Piece
        Dense, or ``Rows`` of a sparse set; at least one piece of each share, perhaps without rows.

    Raises
    ------
    DataError
        Names the file, the array, and the row and column, counted from 0 as in Python.
    """
    if not source.ranges and part:
        return
    found = open_arrays(source)
    rows = int(found.features.shape[0])
    first, last = (rows * part // parts, rows * (part + 1) // parts) if source.ranges else (0, rows)
    found, columns = _split(found, reading)
    step = max(1, ENTRIES // max(1, found.features.shape[1]))
    if not isinstance(found.features, np.ndarray):
        step = max(1, ENTRIES * rows // max(1, found.features.nnz))
    # a share without rows still tells how many columns there are
    for begin in range(first, max(last, first + 1), step):
        yield _piece(found, columns, begin, min(begin + step, last), reading)


def _piece(found: Found, columns: Indices, begin: int, end: int, reading: Reading) -> Piece:
    """Return rows ``begin`` to ``end``."""
    assert found.labels is not None
    labels = _numbers(found.labels[begin:end], reading, found.called[1], begin)
    weights = None if found.weights is None else np.array(found.weights[begin:end], dtype=np.float64)

    def place(row: int, column: int) -> str:
        at = begin + row
        if column in (LABEL, WEIGHT):
            array = found.labels if column == LABEL else found.weights
            assert array is not None
            return f"{found.called[1 if column == LABEL else 2]}: row {at} (counted from 0): {array[at]}"
        value = found.features[at, columns[column]]
        return f"{found.called[0]}: row {at}, column {columns[column]} (counted from 0): {value}"

    part = found.features[begin:end]
    if isinstance(part, np.ndarray):
        table = np.array(part, dtype=np.float64, order="C")
        return settle(
            table if columns.size == table.shape[1] else table[:, columns], labels, weights, reading.nan, place
        )
    rows = Rows(part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data, labels)
    return settle_sparse(rows, weights, reading.nan, place)._replace(columns=columns.size)


def _split(found: Found, reading: Reading) -> tuple[Found, Indices]:
    """Return the arrays with labels and weights that are columns of the features, and which columns are features."""
    width = found.features.shape[1]
    taken: list[int] = []
    parts = [found.labels, found.weights]
    called = list(found.called)
    for k, (key, wanted) in enumerate((("label", reading.label), ("weight", reading.weight)), start=1):
        array = parts[k - 1]
        if wanted is not None:
            if array is not None:
                raise DataError(f"{called[k]}: holds the {key}s, but data.{key} = {wanted!r}; allowed is one of them")
            if not isinstance(found.features, np.ndarray):
                raise DataError(f"{called[0]}: data.{key} = {wanted!r}, but the array is sparse; {_REMEDY}")
            if isinstance(wanted, str) or not -width <= wanted < width:
                raise DataError(
                    f"{called[0]}: data.{key} = {wanted!r}; allowed is a column's number, 0 to {width - 1}, "
                    f"or -{width} to -1 from the end"
                )
            taken.append(wanted % width)
            parts[k - 1], called[k] = found.features[:, wanted], f"{called[0]}, column {wanted % width}"
    if not reading.labelled:
        parts[0] = np.zeros(found.features.shape[0])
    elif parts[0] is None:
        raise DataError(f"{called[0]}: has no labels; {_REMEDY}")
    columns = np.delete(np.arange(width, dtype=np.int64), taken)
    if columns.size != width - len(taken) or not columns.size:
        raise DataError(f"{called[0]}: of {width} columns none is left as a feature, or one is label and weight")
    return Found(found.features, parts[0], parts[1], (called[0], called[1], called[2])), columns


def _numbers(labels: Array, reading: Reading, called: str, begin: int) -> Vector:
    """Return labels as numbers, those that are strings by ``reading.labels``."""
    if labels.dtype.kind not in "US":
        if reading.labels is not None:
            raise DataError(f"{called}: holds numbers; data.labels is for labels that are words")
        return np.array(labels, dtype=np.float64)
    words, which = np.unique(np.strings.strip(labels.astype(np.str_)), return_inverse=True)
    spelled = {word: float(k) for k, word in enumerate(reading.labels or ())}
    numbers = np.array([spelled.get(word, np.nan) for word in words.tolist()])[which] if words.size else np.empty(0)
    unknown = np.flatnonzero(np.isnan(numbers))
    if unknown.size:
        row = int(unknown[0])
        known = list(reading.labels or words.tolist())
        listed = "[" + ", ".join(f'"{word}"' for word in known[:_SHOWN]) + (", ...]" if len(known) > _SHOWN else "]")
        why = "is none of" if reading.labels else "is no number; say which words stand for 0, 1 and so on:"
        raise DataError(
            f"{called}: row {begin + row} (counted from 0): {str(labels[row])!r} {why} data.labels = {listed}"
        )
    return numbers
