"""The first 48 bytes of an HDF5 file, which say how long it is and whether a writer has it open.

HDF5 reads a file that is marked as being written in a mode that waits, up to a minute each time, for what is not there:
right while a writer lives, a standstill on a file that was cut off. Here such a file is known before HDF5 opens it, and
the mark can be taken from a copy in memory.

Superblock of version 3 (HDF5 File Format Specification 3.0, II.A): signature (8 bytes), version, size of offsets, size
of lengths, flags (1 byte each), addresses of the base, the extension, the end of the file and the root (8 bytes each),
checksum (4), little-endian.
"""

import struct
import time
from pathlib import Path

from mpi_opt.errors import DataError

_LAYOUT = struct.Struct("<8sBBBB4QI")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_WORD = 0xFFFFFFFF
_MOMENT = 0.05
"""Seconds in which a writer that is about to make its file longer does so."""


def check_length(path: Path) -> None:
    """Refuse a file that is shorter than it says, as one that was cut off or is half copied.

    Raises
    ------
    DataError
        Names the file and both lengths; or it cannot be read.
    """
    try:
        missing, length = _missing(path)
        if missing > 0:
            time.sleep(_MOMENT)
            missing, length = _missing(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    if missing > 0:
        raise DataError(f"{path}: cut off or half written: {length} bytes of {length + missing}")


def closed(data: bytes) -> bytes:
    """Return the bytes of an HDF5 file without the mark of a writer, filled up with zeros to the length that it says.

    Without the mark HDF5 finds at once what is not there. A file that begins otherwise is returned as it is.
    """
    fields = _fields(data)
    if fields is None:
        return data
    *begin, _, base, extension, end, root, checksum = fields
    if end > 2 * len(data) + (1 << 20) or checksum != _lookup3(data[: _LAYOUT.size - 4]):
        return data
    head = _LAYOUT.pack(*begin, 0, base, extension, max(end, len(data)), root, 0)[:-4]
    return (head + _lookup3(head).to_bytes(4, "little") + data[_LAYOUT.size :]).ljust(end, b"\0")


def _missing(path: Path) -> tuple[int, int]:
    """Return how many bytes a file is too short by its own word, and its length."""
    with path.open("rb") as stream:
        fields = _fields(stream.read(_LAYOUT.size))
        length = path.stat().st_size
    return (0 if fields is None else fields[7] - length), length


def _fields(data: bytes) -> tuple[int, ...] | None:
    if len(data) < _LAYOUT.size:
        return None
    fields = _LAYOUT.unpack_from(data)
    known = fields[0] == _SIGNATURE and fields[1:4] == (3, 8, 8) and fields[5] == 0
    return fields if known else None


def _lookup3(data: bytes) -> int:
    """Return the checksum of HDF5's metadata, Jenkins' lookup3 (2006), of a length that is a multiple of 4."""
    words: tuple[int, ...] = struct.unpack(f"<{len(data) // 4}I", data)
    a = b = c = (0xDEADBEEF + len(data)) & _WORD
    while len(words) > 3:
        x, y, z = a + words[0] & _WORD, b + words[1] & _WORD, c + words[2] & _WORD
        for turn in (4, 6, 8, 16, 19, 4):
            x, y, z = y, z + y & _WORD, (x - z & _WORD) ^ _turned(z, turn)
        a, b, c, words = x, y, z, words[3:]
    z, y, x = (value + word & _WORD for value, word in zip((a, b, c), (*words, 0, 0, 0), strict=False))
    for turn in (14, 11, 25, 16, 4, 14, 24):
        z, y, x = y, (x ^ y) - _turned(y, turn) & _WORD, z
    return y


def _turned(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD
