"""The one part of an HDF5 file that has neither a checksum nor a bound: heaps of texts, on which HDF5 may run for ever.

A global heap is ``GCOL``, version 1, three zeros and its length; then objects: number (2 bytes), references (2), zeros
(4), length (8) and contents filled up to a multiple of 8. Number 0 is the free rest (HDF5 File Format Specification
3.0, III.E). Where a length is damaged, HDF5 2.0 can land on zeros that it never gets past.
"""

import mmap
import struct
from pathlib import Path

_MARK = b"GCOL\x01\0\0\0"
_HEAD, _OBJECT = struct.Struct("<8sQ"), struct.Struct("<HHIQ")


def sound_heaps(path: Path) -> bool:
    """Return whether every global heap in an HDF5 file ends where it says; true for a file without any."""
    if path.stat().st_size == 0:
        return True
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_MARK)
        while at >= 0:
            if not _sound(data, at):
                return False
            at = data.find(_MARK, at + len(_MARK))
    return True


def _sound(data: mmap.mmap, at: int) -> bool:
    if at + _HEAD.size > len(data):
        return False
    end: int = at + _HEAD.unpack_from(data, at)[1]
    if end > len(data):
        return False
    at += _HEAD.size
    while at + _OBJECT.size <= end:
        number, _, zeros, length = _OBJECT.unpack_from(data, at)
        if zeros or (number == 0 and at + length != end):
            return False
        at += length if number == 0 else _OBJECT.size + -(-length // 8) * 8
    return end - _OBJECT.size < at <= end
