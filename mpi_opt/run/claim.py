"""One run a folder at a time: whoever writes there holds a lock that its end, however it comes, gives back.

The first process of a run locks ``RUN/.lock``. The system releases a lock with its process, so that a killed run bars
nobody. Where the file system keeps locks to one machine, a run of another machine shows by its signs of life
(``watchdog.py``), which are looked at twice.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Collectives
from mpi_opt.run.watchdog import LONGEST_BEAT

_NAME = ".lock"
_OLD_SECONDS = 60.0
"""Signs older than this are of a run that has ended; by the file system's clock alone."""


class Claim:
    """The right to write into a run's folder, while it is entered; by all processes together.

    Parameters
    ----------
    folder : Path
        The run's; made where it is missing, and taken away again where it stays empty.
    collectives : Collectives
        Only the first process touches the disk.
    wait : callable, optional
        Waits for so many seconds.
    heir : bool, optional
        Takes the folder over from a process of the same run that died: the signs of life there are the run's own.
    """

    def __init__(
        self, folder: Path, collectives: Collectives, wait: Callable[[float], None] = time.sleep, *, heir: bool = False
    ) -> None:
        self._folder, self._collectives, self._wait, self._heir = folder, collectives, wait, heir
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Take the lock.

        Raises
        ------
        JobError
            On every process: another run writes there, or nothing can be written there.
        """
        error = None
        if self._collectives.rank == 0:
            try:
                self._take()
            except JobError as refused:
                error = refused
            except OSError as refused:
                error = JobError(
                    f"cannot write to the result folder {self._folder}: {refused.strerror or refused}; give another "
                    "--out"
                )
        try:
            self._collectives.check(error)
        except JobError:
            self._give_back()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self._give_back()

    def _take(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise JobError(f"{self._folder} is a file: results need a folder; give another --out")
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / _NAME
        while self._file is None:
            file = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
            if not _locked(file):
                who = os.pread(file, 512, 0).decode(errors="replace").strip()
                os.close(file)
                raise self._taken(who)
            # Whoever ended between the two lines above has taken the file away: then that lock is worth nothing.
            if _same(file, place):
                self._file = file
            else:
                os.close(file)
        before = os.pread(self._file, 512, 0).decode(errors="replace").strip()
        host = socket.gethostname()
        foreign = before and not self._heir and not before.startswith(f"{host}, ")
        if foreign and self._lives(place):
            os.close(self._file)
            self._file = None
            raise self._taken(before)
        with suppress(OSError):  # a full disk: the lock holds without a name in it
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{host}, process {os.getpid()}".encode(), 0)

    def _taken(self, who: str) -> JobError:
        return JobError(
            f"another run writes to {self._folder} ({who or 'it does not say which'}): wait for its end, end it, or "
            "give another --out"
        )

    def _lives(self, place: Path) -> bool:
        """Whether a rank of another machine shows a sign of life."""
        os.utime(place)
        now = place.stat().st_mtime
        signs = {sign: _stamp(sign) for sign in self._folder.glob(".alive*/rank_*")}
        if all(now - stamp > _OLD_SECONDS for stamp in signs.values()):
            return False
        self._wait(2 * LONGEST_BEAT)
        return any(_stamp(sign) != stamp for sign, stamp in signs.items() if sign.exists())

    def _give_back(self) -> None:
        if self._collectives.rank != 0:
            return
        if self._file is not None:
            with suppress(OSError):
                (self._folder / _NAME).unlink()
            os.close(self._file)
            self._file = None
        with suppress(OSError):  # only if it is empty: the run did not start
            self._folder.rmdir()


def _locked(file: int) -> bool:
    """Lock an open file; return whether no other process has it. A file system without locks lets everybody pass."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _same(file: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), place.stat())
    except FileNotFoundError:
        return False


def _stamp(sign: Path) -> float:
    """Return when a sign was last written; 0 where it is gone. Opened for it: a network file system looks anew then."""
    try:
        with sign.open("rb") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0
