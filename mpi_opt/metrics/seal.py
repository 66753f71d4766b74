"""A seal before an HDF5 file: whether every byte behind it is as written is known before HDF5 looks at any.

HDF5's library may crash on damaged files. The seal is the file's user block, 512 bytes that HDF5 skips: text lines
with the length and the SHA-256 of what follows, then zeros. Every reader of HDF5 opens a sealed file as it is.
"""

import hashlib
from pathlib import Path

from mpi_opt.errors import DataError

LENGTH = 512
"""Bytes of the seal: the smallest user block of HDF5."""

_MARK = b"mpi_opt sealed HDF5\n"
_CHUNK = 1 << 20


def sealed(data: bytes) -> bytes:
    """Return the bytes of an HDF5 file with the seal before them."""
    return _seal(hashlib.sha256(data).hexdigest(), len(data)) + data


def check_seal(path: Path) -> bool:
    """Compare a file with the seal it begins with; reads it once.

    Returns
    -------
    bool
        Whether there is a seal. One without is for the caller to judge.

    Raises
    ------
    DataError
        The file cannot be read, or is not as it was written: names it.
    """
    digest, length = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            seal = stream.read(LENGTH)
            if not seal.startswith(_MARK):
                return False
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                length += len(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if seal != _seal(digest.hexdigest(), length):
        raise DataError(
            f"{path}: damaged: cut off or changed since it was written; its {length} bytes do not fit its seal"
        )
    return True


def _seal(digest: str, length: int) -> bytes:
    return _MARK + f"bytes {length}\nsha256 {digest}\n".encode().ljust(LENGTH - len(_MARK), b"\0")
