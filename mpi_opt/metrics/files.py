"""Opening and replacing HDF5 files on file systems that lock well, badly or not at all."""

import errno
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mpi_opt.errors import DataError, JobError

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EACCES, errno.EPERM})

_CHUNK_SLOTS = 31
"""HDF5 2.0 makes a table of 8191 chunks for every dataset: 2.5 MB a file, where one chunk of each is in use."""


_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# What reads a whole file beside a writer, in a process of its own.
_PROBE = """
import sys, h5py
with h5py.File(sys.argv[1], "r", swmr=True, locking=False) as file:
    dict(file.attrs)
    file.visititems(lambda _, each: each[()] if isinstance(each, h5py.Dataset) else None)
"""
_PROBE_SECONDS = 20.0


def _locks_refused(error: OSError) -> bool:
    """Whether the file system refused to lock at all (another process holding the lock is EAGAIN, not this)."""
    return "lock" in str(error).lower() and (error.errno is None or error.errno in _NO_LOCKS)


def image(fill: Callable[[Any], None]) -> bytes:
    """Return the bytes of a new HDF5 file of the latest format, after ``fill(file)`` made what is in it.

    Files are made in memory and written by ``replace_file``: HDF5 itself crashes when the disk fills up while it
    makes or closes a file.
    """
    import h5py

    with h5py.File("image", "w", libver="latest", driver="core", backing_store=False) as file:
        fill(file)
        file.flush()
        data: bytes = file.id.get_file_image()
        return data


def target(path: Path) -> Path:
    """Return the place that a file called ``path`` takes, symbolic links followed.

    Raises
    ------
    OSError
        Something stands there that is no file: a folder, or a device or pipe (``/dev/stdout``), which a new file would
        take the place of for all that use it; or the place cannot be looked at.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is no file but a device, pipe or socket; name a file")
    return path


def check_apart(path: Path, read: Iterable[Path]) -> None:
    """Refuse to write over what is read.

    Raises
    ------
    JobError
        ``path`` is one of the files of ``read``, or leads to it.
    """
    for other in read:
        try:
            same = path.samefile(other)
        except OSError:  # one of them is not there, which whoever opens it says better
            continue
        if same:
            raise JobError(f"cannot write {path}: is what is read; allowed is another name")


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write ``data`` to ``path``: it takes the place of what was there at once, never half written.

    ``durable`` means that it is on disk before, and so outlives a loss of power as well.

    Raises
    ------
    JobError
        The file cannot be written: names it, the reason and what is needed. What was there is still there.
    """
    try:
        place = target(path)
        fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
        try:
            fresh.write_bytes(data)
            if durable:
                to_disk(fresh)
            os.replace(fresh, place)
            if durable:
                sync_folder(place.parent)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise JobError(
            f"cannot write {path}: {error.strerror or error}. Needed is a folder that exists, may be written to and "
            f"has {len(data)} bytes of room"
        ) from error


def open_appending(path: Path, *, locked: bool = True) -> Any:
    """Return a file of ``image``'s open for writing in SWMR mode, on a file system without locks without them.

    ``locked=False`` takes no lock: a reader in another process at that moment does not stop the writer.

    Raises
    ------
    JobError
        The file cannot be opened: names it, the reason and the remedy.
    """
    try:
        try:
            return _open_swmr(path, locked=locked)
        except OSError as error:
            if not _locks_refused(error):
                raise
            return _open_swmr(path, locked=False)
    except OSError as error:
        raise JobError(
            f"cannot open {path} for writing: {error}. Where another process has it open, end that; where the file "
            "system's locks are at fault, set HDF5_USE_FILE_LOCKING=FALSE or give --out a folder on a local disk"
        ) from error


def _open_swmr(path: Path, *, locked: bool) -> Any:
    """Open for writing and for SWMR at once: between the two a killed writer would leave a file that none can read."""
    import h5py
    from h5py import h5f, h5p

    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_LATEST, h5f.LIBVER_LATEST)
    access.set_file_locking(locked, True)
    unused, _, *others = access.get_cache()
    access.set_cache(unused, _CHUNK_SLOTS, *others)
    return h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDWR | h5f.ACC_SWMR_WRITE, access))


def open_reading(path: Path) -> Any:
    """Return an HDF5 file open for reading, be it closed, being written or left by a killed run.

    Raises
    ------
    DataError
        The file is missing or no HDF5 file: names it and the reason.
    """
    import h5py

    if not path.is_file():
        raise DataError(f"{path}: no such file")
    reasons: list[str] = []
    manners = _manners(path)
    for swmr in manners:
        # A plain reader's lock would stop a run that is resumed meanwhile; that of one beside a writer lasts no time.
        for locking in ("best-effort", False) if len(manners) > 1 else (False,):
            try:
                return h5py.File(path, "r", swmr=swmr, locking=locking)
            except (OSError, ValueError) as error:
                reasons.append(str(error))
                if not (isinstance(error, OSError) and _locks_refused(error)):
                    break
    raise DataError(
        f"{path}: cannot be opened as HDF5: {reasons[0]}. A file cut off by a full disk is lost beyond its last flush; "
        "where the file system's locks are at fault, set HDF5_USE_FILE_LOCKING=FALSE"
    )


def _manners(path: Path) -> tuple[bool, ...]:
    """Return whether to open a file as a reader beside a writer (swmr), in the order to try.

    Such a reader takes what is damaged for half written and tries again, for hours: a file that was closed is opened
    plainly, and one that a writer left open but that is shorter than it says is first read by a process that can be
    ended. A file of the old format can only be opened plainly, and says nothing of this.

    Raises
    ------
    DataError
        It is cut off, and not readable for it.
    """
    head = _head(path)
    if not head.startswith(_SIGNATURE) or (len(head) > 9 and (head[8] < 2 or head[9] != 8)):
        return True, False
    if len(head) < 48 or not head[11] & 1:  # no writer has it open, nor has one been killed with it
        return (False,)
    (end,) = struct.unpack_from("<Q", head, 28)
    size = path.stat().st_size
    if size < end and not _probed(path):
        raise DataError(f"{path}: cut off: {size} of {end} bytes are there, and they cannot be read. Copy it anew")
    return True, False


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(48)


def _probed(path: Path) -> bool:
    """Whether another process could read all of the file in time."""
    command = [sys.executable, "-c", _PROBE, str(path)]
    try:
        return subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def closed_cleanly(path: Path) -> bool:
    """Whether a plain reader may open the file: false while it is written and after its writer was killed."""
    import h5py

    try:
        h5py.File(path, "r", locking="best-effort").close()
    except OSError:
        return False
    return True


def abandon(file: Any) -> None:
    """Let go of a file that could not be written, leaving on disk what is there, and close it.

    HDF5 keeps what it could not write and tries again on closing and at the end of the process, where it crashes (seen
    with HDF5 2.0: a full disk ended the process with SIGSEGV). Pointed at the null device, it ends in peace.
    """
    try:
        null = os.open(os.devnull, os.O_RDWR)
        try:
            os.dup2(null, file.id.get_vfd_handle())
        finally:
            os.close(null)
        file.close()
    except (OSError, RuntimeError, ValueError):
        pass  # the error that led here is the one to report


def sync_folder(path: Path) -> None:
    """Flush a folder to the disk: the names in it."""
    to_disk(path)


def to_disk(path: Path) -> None:
    """Flush a file, or a folder (the names in it), to the disk.

    Raises
    ------
    OSError
        It cannot be.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot sync a folder; the rename itself is atomic there all the same.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)
