"""Arrays in NumPy's and SciPy's own files, opened and checked.

Nothing is ever unpickled: a file from elsewhere cannot run code here, and so arrays of Python objects are refused.
"""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.compressed import starts_as_array
from mpi_opt.datasets.libsvm import LARGEST
from mpi_opt.datasets.source import ArrayFiles
from mpi_opt.errors import DataError

Array: TypeAlias = npt.NDArray[Any]

FEATURES, LABELS, WEIGHTS = ("X", "data"), ("y", "target"), ("w", "weights")
"""What the arrays of an ``.npz`` file may be called."""

_SHOWN = 12
# of a damaged header NumPy lets through what Python's own parsers raise
_FAILURES = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class Found(NamedTuple):
    """The arrays of a set.

    Attributes
    ----------
    features : ndarray or csr_array, shape (rows, columns)
        Real numbers; CSR has float64 and indices that ascend in each row.
    labels : ndarray, shape (rows,), or None
        Real numbers or strings.
    weights : ndarray, shape (rows,), or None
        Real numbers.
    called : tuple of str
        What errors call the three.
    """

    features: Any
    labels: Array | None
    weights: Array | None
    called: tuple[str, str, str]


def open_arrays(source: ArrayFiles) -> Found:
    """Return the arrays of a set: those of ``.npy`` mapped, so that only what is looked at gets read, others read.

    Raises
    ------
    DataError
        A file is damaged or no such file, or holds what is not allowed; the arrays do not fit together.
    """
    return _map(source) if source.ranges else _unpack(source)


def _map(source: ArrayFiles) -> Found:
    """Return the arrays of ``.npy`` files, of which only what is looked at gets read."""
    return _checked(_mapped(source.features), *_companions(source), source, str(source.features))


def _unpack(source: ArrayFiles) -> Found:
    """Return the arrays of an ``.npz`` file, and of the ``.npy`` files beside it."""
    path = source.features
    labels, weights = _companions(source)
    called = str(path)
    with _opening(path):
        if not zipfile.is_zipfile(path):
            raise DataError(f"{path}: is no array of NumPy or SciPy, or is damaged; allowed are .npy and .npz files")
        # opened here: NumPy leaves files of damaged archives open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = archive.files
            if {"format", "shape"} <= set(names):
                file.seek(0)
                features = _csr(path, file)
            else:
                which = _one(path, names, FEATURES)
                if which is None:
                    raise DataError(
                        f"{path}: holds the arrays {', '.join(names[:_SHOWN])}; allowed are X and y, or data and "
                        "target, and perhaps w; or a sparse array written by scipy.sparse.save_npz"
                    )
                features, called = archive[which], f"{path}: {which}"
            inside = []
            for known, companion in ((LABELS, labels), (WEIGHTS, weights)):
                which = _one(path, names, known)
                if which is not None and companion is not None:
                    raise DataError(f"{path}: holds {which}, and another file was named for it; allowed is one of them")
                inside.append(None if which is None else archive[which])
    return _checked(
        features,
        labels if labels is not None else inside[0],
        weights if weights is not None else inside[1],
        source,
        called,
    )


def _one(path: Path, names: list[str], known: tuple[str, ...]) -> str | None:
    found = [name for name in known if name in names]
    if len(found) > 1:
        raise DataError(f"{path}: holds both {' and '.join(found)}; allowed is one of them")
    return found[0] if found else None


def _csr(path: Path, file: BinaryIO) -> Any:
    """Return a SciPy array as CSR of float64 with indices that ascend in each row; entries that repeat are summed."""
    from scipy.sparse import csr_array, load_npz

    matrix = load_npz(file)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise DataError(f"{path}: holds {matrix.dtype} of {matrix.ndim} dimensions; allowed are real numbers of two")
    if matrix.format in ("csr", "csc", "bsr"):
        # compiled code that converts the array trusts its indices
        matrix.check_format(full_check=True)
    if matrix.shape[1] > LARGEST:
        raise DataError(f"{path}: has {matrix.shape[1]} columns; allowed are at most {LARGEST}")
    result = csr_array(matrix.astype(np.float64))
    result.sum_duplicates()
    return result


def _companions(source: ArrayFiles) -> tuple[Array | None, Array | None]:
    labels = None if source.labels is None else _mapped(source.labels)
    return labels, None if source.weights is None else _mapped(source.weights)


def _mapped(path: Path) -> Array:
    with _opening(path):
        if not starts_as_array(path):
            raise DataError(f"{path}: is no .npy array, or is damaged; allowed is what numpy.save writes")
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    """Make what NumPy, SciPy and zipfile raise on a file into a ``DataError`` that names it."""
    try:
        yield
    except _FAILURES as error:
        if "bject" in str(error):
            raise DataError(
                f"{path}: holds Python objects, which are not read, as they can run code; allowed are numbers"
            ) from error
        raise DataError(f"{path}: cannot be read, perhaps it is damaged or cut short: {error}") from error


def _checked(features: Any, labels: Array | None, weights: Array | None, source: ArrayFiles, called: str) -> Found:
    """Return the arrays as a set, if they are real numbers and fit together."""
    if features.ndim != 2 or features.dtype.kind not in "biuf":
        raise DataError(
            f"{called}: has shape {features.shape} and type {features.dtype}; allowed are two dimensions, "
            "rows and columns, of real numbers"
        )
    names, rows = [called], features.shape[0]
    vectors: list[Array | None] = []
    for array, path, kinds in ((labels, source.labels, "biufUS"), (weights, source.weights, "biuf")):
        names.append(str(path or f"{source.features}: {'y' if not vectors else 'w'}"))
        if array is not None:
            if array.dtype.kind not in kinds or array.shape not in ((rows,), (rows, 1)):
                raise DataError(
                    f"{names[-1]}: has shape {array.shape} and type {array.dtype}; allowed is one number "
                    f"for each of the {rows} rows of {called}"
                )
            array = array.reshape(-1)
        vectors.append(array)
    return Found(features, vectors[0], vectors[1], (names[0], names[1], names[2]))
