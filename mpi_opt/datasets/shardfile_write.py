"""Writing ``shards.h5``: HDF5 lays the file out, plain writes fill it, and the first bytes come last.

HDF5 is never let near the disk: it crashes when one fills up. It makes the file's metadata in memory, for arrays that
are not there, and says where each of them belongs.
"""

import errno
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.shardfile import BLOCK, SIGNATURE, Facts, attributes, blocks_of
from mpi_opt.errors import JobError
from mpi_opt.metrics.files import sync_folder, target


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make what the system says against writing ``path`` a ``JobError`` that names it."""
    try:
        yield
    except OSError as error:
        raise JobError(
            f"cannot write {path}: {error.strerror or error}. Needed is a folder that exists, may be written to and "
            "has room for the file twice while it is made"
        ) from error


def write_shards(
    path: Path, facts: Facts, arrays: Mapping[str, tuple[np.dtype[Any], Iterable[npt.NDArray[Any]]]]
) -> int:
    """Write a file beside ``path``, to the disk, and give it that name at once; return its bytes.

    Parameters
    ----------
    path : Path
        What was there is replaced.
    facts : Facts
    arrays : mapping of str to (dtype, pieces)
        For each of ``facts.shapes()`` the type on disk and the numbers in order.

    Raises
    ------
    JobError
        The disk is full, or the folder cannot be written to. What was at ``path`` is still there.
    """
    types = {name: dtype.newbyteorder("<") for name, (dtype, _) in arrays.items()}
    sketch, places = _lay_out(facts, types)
    with writing(path):
        place = target(path)
        fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
        try:
            with fresh.open("wb", buffering=0) as file:
                # all room at once: a full disk shows before hours of writing
                _reserve(file.fileno(), sketch.size)
                checks = []
                for name, (_, pieces) in arrays.items():
                    checks += _fill(file, places[name], types[name], pieces)
                table = np.array(checks, dtype="<u4")
                table = np.append(table, np.array([zlib.crc32(table.tobytes())], dtype="<u4"))
                _put(file, places["checks"], table.tobytes())
                for at, data in sketch.written:
                    _put(file, at, data)
                os.truncate(file.fileno(), sketch.size)
                os.fsync(file.fileno())
                # without these bytes it is no HDF5 file: they say that all the others are there
                _put(file, 0, sketch.superblock)
                os.fsync(file.fileno())
            os.replace(fresh, place)
        finally:
            fresh.unlink(missing_ok=True)
        sync_folder(place.parent)
    return sketch.size


def _lay_out(facts: Facts, types: Mapping[str, np.dtype[Any]]) -> tuple["_Sketch", dict[str, int]]:
    """Return the file without its arrays, and at which byte each of them begins."""
    import h5py

    shapes = facts.shapes()
    sizes = {name: int(np.prod(shape)) * types[name].itemsize for name, shape in shapes.items()}
    checks = sum(blocks_of(size, BLOCK) for size in sizes.values()) + 1
    sketch, places = _Sketch(), {}
    # times would make files of the same data differ
    with h5py.File(sketch, "w", libver="latest", track_order=False) as file:
        for name, value in attributes(facts).items():
            if isinstance(value, str):
                # of fixed length: those of variable length lie in a heap without checksums
                text = value.encode()
                file.attrs.create(name, text, dtype=h5py.string_dtype(length=max(1, len(text))))
            else:
                file.attrs[name] = value
        for name, shape in (*shapes.items(), ("checks", (checks,))):
            form = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            form.set_layout(h5py.h5d.CONTIGUOUS)
            form.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            form.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            form.set_obj_track_times(False)
            kind = h5py.h5t.py_create(types.get(name, np.dtype("<u4")))
            made = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(shape), form)
            offset = made.get_offset()
            places[name] = 0 if offset is None else int(offset)  # an empty array has no place
    return sketch, places


class _Sketch:
    """What HDF5 writes to instead of a file: few and small pieces, at places that may lie far apart."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[tuple[int, bytes]] = []
        self._at = 0

    @property
    def written(self) -> list[tuple[int, bytes]]:
        """All that was written, in order, but the signature: later pieces go over earlier ones."""
        return [(max(at, 8), data[max(0, 8 - at) :]) for at, data in self._pieces]

    @property
    def superblock(self) -> bytes:
        """The first bytes of the file."""
        return SIGNATURE

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move, as a file does."""
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def tell(self) -> int:
        """Return where it stands."""
        return self._at

    def write(self, data: Any) -> int:
        """Keep what is written."""
        piece = bytes(data)
        self._pieces.append((self._at, piece))
        self._at += len(piece)
        self.size = max(self.size, self._at)
        return len(piece)

    def readinto(self, buffer: Any) -> int:
        """Give back what was written; 0 where nothing was."""
        found = bytearray(len(buffer))
        end = self._at + len(found)
        for at, data in self._pieces:
            low, high = max(at, self._at), min(at + len(data), end)
            if low < high:
                found[low - self._at : high - self._at] = data[low - at : high - at]
        buffer[:] = found
        self._at = end
        return len(found)

    def read(self, count: int = -1) -> bytes:
        """Return as many bytes; h5py takes for a file what can do so."""
        found = bytearray(max(0, self.size - self._at if count < 0 else count))
        self.readinto(found)
        return bytes(found)

    def truncate(self, size: int | None = None) -> int:
        """Set the file's size."""
        self.size = self._at if size is None else size
        return self.size

    def flush(self) -> None:
        """Do nothing: there is no disk."""


def _reserve(handle: int, size: int) -> None:
    """Take the room for ``size`` bytes where the file system can; a full disk is an ``OSError``."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(handle, 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise


def _fill(file: Any, at: int, dtype: np.dtype[Any], pieces: Iterable[npt.NDArray[Any]]) -> list[int]:
    """Write an array from byte ``at`` on; return the checksums of its blocks."""
    checks: list[int] = []
    rest = b""
    for piece in pieces:
        data = rest + piece.astype(dtype, copy=False).tobytes()
        whole = len(data) - len(data) % BLOCK
        view = memoryview(data)
        _put(file, at, view[:whole])
        checks += [zlib.crc32(view[begin : begin + BLOCK]) for begin in range(0, whole, BLOCK)]
        at += whole
        rest = data[whole:]
    if rest:
        _put(file, at, rest)
        checks.append(zlib.crc32(rest))
    return checks


def _put(file: Any, at: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` from byte ``at`` on."""
    view = memoryview(data)
    file.seek(at)
    while view:
        view = view[file.write(view) :]
