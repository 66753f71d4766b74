"""Files opened by what they are, not by what they are called: plain, gzip, bzip2, xz."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from mpi_opt.datasets.unpacking import Decompressor, Unpacked
from mpi_opt.errors import DataError

_ARRAY = b"\x93NUMPY"
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_UNREADABLE = {
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"PK\x03\x04": "a zip archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    _ARRAY: "a NumPy file",
    b"mpi_opt sealed HDF5": "a model file of mpi_opt",
}


def detect(path: Path) -> str | None:
    """Return ``"gzip"``, ``"bzip2"``, ``"xz"`` or ``None`` (plain) by the file's first bytes.

    Raises
    ------
    DataError
        The file cannot be read, or is of a kind that is not read here.
    """
    try:
        with path.open("rb") as file:
            head = file.read(32)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    for magic, what in _UNREADABLE.items():
        if head.startswith(magic):
            raise DataError(
                f"{path}: is {what}; allowed are LIBSVM text, .csv tables, IDX and CIFAR records, plain or as .gz, "
                ".bz2, .xz, and .npy and .npz arrays"
            )
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def starts_as_array(path: Path) -> bool:
    """Return whether a file begins like ``.npy``; errors as in ``detect``."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ARRAY)) == _ARRAY
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


@contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading its uncompressed bytes; what goes wrong inside the block is a ``DataError``."""
    try:
        with _open(path) as stream:
            yield stream
    except ImportError as error:
        raise DataError(f"{path}: this Python was built without {error.name}; unpack the file first") from error
    except _failures() as error:
        raise DataError(f"{path}: cannot be read, perhaps it is damaged or cut short: {error}") from error


def _failures() -> tuple[type[Exception], ...]:
    """Return what reading may raise: the decompressors in use have errors of their own."""
    own = (("lzma", "LZMAError"), ("zlib", "error"))
    return (OSError, EOFError, *(getattr(sys.modules[module], name) for module, name in own if module in sys.modules))


def _open(path: Path) -> BinaryIO:
    # imported one by one: most runs need one of them or none, and some Pythons lack one
    match detect(path):
        case "gzip":
            import gzip

            return cast(BinaryIO, gzip.open(path, "rb"))
        case "bzip2":
            import bz2

            return _unpacked(path, bz2.BZ2Decompressor, b"")
        case "xz":
            import lzma

            return _unpacked(path, lzma.LZMADecompressor, bytes(1))
        case _:
            return path.open("rb")


def _unpacked(path: Path, fresh: Callable[[], Decompressor], padding: bytes) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(Unpacked(path.open("rb"), fresh, padding), 1 << 16))
