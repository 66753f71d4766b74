"""Opening and replacing HDF5 files on file systems that lock well, badly or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpi_opt.errors import DataError, JobError

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EACCES, errno.EPERM})


def _locks_refused(error: OSError) -> bool:
    """Whether the file system refused to lock at all (another process holding the lock is EAGAIN, not this)."""
    return "lock" in str(error).lower() and (error.errno is None or error.errno in _NO_LOCKS)


def create(path: Path) -> Any:
    """Return a new HDF5 file of the latest format, open for writing; whatever was at ``path`` is replaced.

    A file system that knows no locks is written to without them: the file is new, so nobody else has it open.

    Raises
    ------
    JobError
        The file cannot be made: names it, the reason and the remedy.
    """
    import h5py

    try:
        try:
            return h5py.File(path, "w", libver="latest", locking="best-effort")
        except OSError as error:
            if not _locks_refused(error):
                raise
            return h5py.File(path, "w", libver="latest", locking=False)
    except OSError as error:
        raise JobError(
            f"cannot create {path}: {error}. Needed is a folder that exists, may be written to and has room, and a "
            "file that no other process has open; where the file system's locks are at fault, set "
            "HDF5_USE_FILE_LOCKING=FALSE or give --out a folder on a local disk"
        ) from error


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
    # A reader of a file that is being written must say so (swmr); a file of the old format can only be opened plainly.
    for swmr in (True, False):
        for locking in ("best-effort", False):
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


def closed_cleanly(path: Path) -> bool:
    """Whether a plain reader may open the file: false while it is written and after its writer was killed."""
    import h5py

    try:
        h5py.File(path, "r", locking="best-effort").close()
    except OSError:
        return False
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to; at the end the file is on disk and takes the place of ``path`` at once.

    An error inside leaves ``path`` as it was and removes the new file.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield fresh
        _to_disk(fresh)
        os.replace(fresh, path)
        _to_disk(path.parent)
    finally:
        fresh.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot sync a folder; the rename itself is atomic there all the same.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)
