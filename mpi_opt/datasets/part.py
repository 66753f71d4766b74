"""A file on its way: ``NAME.part`` beside the name that it gets once it is whole and right, and where it came from."""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from mpi_opt.errors import DataError


@dataclass(frozen=True, slots=True)
class State:
    """Where a part came from: address, ``validator`` (the version's ETag or date, may be empty), bytes of the whole."""

    address: str
    validator: str
    total: int | None


class Part:
    """The part of ``final``; a context manager that holds it against other processes.

    Attributes
    ----------
    path : Path
        ``final`` with ``.part`` behind it.
    size : int
        Bytes that are there.
    state : State or None
        Where they came from; ``None`` where that is not known, so that they cannot be gone on with.

    Raises
    ------
    DataError
        From every method: it cannot be written, or another process is at it.
    """

    def __init__(self, final: Path) -> None:
        self.path = final.with_name(final.name + ".part")
        self._told = final.with_name(final.name + ".state")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = open(self.path, "ab")  # noqa: SIM115 - held until it is closed
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise DataError(f"{self.path}: another process is fetching this file") from None
        except OSError:
            pass  # a file system without locks
        mine = os.fstat(self._file.fileno())
        if not self._is_at_its_name(mine):
            self._file.close()
            raise DataError(f"{self.path}: another process has just fetched this file; start again")
        self.size = mine.st_size
        self.state = self._read_state()

    def __enter__(self) -> "Part":
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close; what is there stays for the next time, nothing at all does not."""
        with suppress(OSError):
            self._file.close()
        if self.size == 0:
            with suppress(OSError):
                self.path.unlink()
                self._told.unlink(missing_ok=True)

    def restart(self, state: State | None) -> None:
        """Drop what is there; what comes now is from ``state``."""
        try:
            self._file.truncate(0)
            self.size, self.state = 0, state
            if state is None:
                self._told.unlink(missing_ok=True)
            else:
                self._told.write_text(json.dumps(asdict(state)))
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def write(self, data: bytes) -> None:
        """Add ``data``."""
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.size += len(data)

    def move(self, to: Path) -> None:
        """Give the file the name ``to``, at once, when it is on disk."""
        try:
            os.fsync(self._file.fileno())
            os.replace(self.path, to)
            self._told.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(to, error) from error
        self.size = -1  # nothing of it is left at the old name

    def _is_at_its_name(self, mine: os.stat_result) -> bool:
        """Return whether the file was not renamed between opening and locking it."""
        try:
            return os.path.samestat(mine, os.stat(self.path))
        except OSError:
            return False

    def _read_state(self) -> State | None:
        try:
            raw = json.loads(self._told.read_text())
            state = State(str(raw["address"]), str(raw["validator"]), raw["total"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return state if state.total is None or isinstance(state.total, int) else None


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be written: {error.strerror or error}")
