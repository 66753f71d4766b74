"""Ends a run that waits for a rank which has stopped; a rank that is only slow is waited for.

Every rank has a thread that writes a sign of life to a small file beside the results, whatever its main thread does: a
stopped process, or a host that is gone, writes none. A rank whose main thread waits reads the others' files; it acts on
changes that it sees by its own clock, so clocks need not agree. Files, since messages would need the very MPI that
hangs, and results are on a file system that all ranks share.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from mpi_opt.network.base import Whereabouts

_LENGTH = 256
"""Bytes of a record, blanks at the end: one write replaces all of it."""

LONGEST_BEAT = 2.0
"""Longest time between two signs of life."""

_ASKED_SECONDS = 8.0
"""Silence that is long enough where the process was told to end: SLURM tells the others so when a rank has died, and
kills them half a minute later."""

_LEAST_END = 10.0
"""Least time for MPI's own end, s: no sign of life is given there, and a busy machine takes its time."""


class Sign(NamedTuple):
    """One rank's sign of life.

    Attributes
    ----------
    beat : int
        Counts the signs; it stands still when the process does.
    moves : int
        Counts what the main thread has begun and ended (`Whereabouts.moves`).
    waiting : bool
        Whether it waits for others.
    """

    beat: int
    moves: int
    waiting: bool


def end_in_time(seconds: float) -> None:
    """Have the system end this process if it is still there after ``seconds``, at least ten; 0 for no longer.

    MPI's own end waits for all ranks, when Python and its threads are gone: a rank that stopped just then would keep
    the others for good.
    """
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, max(seconds, _LEAST_END) if seconds else 0.0)


class Watchdog:
    """Watches the other ranks while it is entered.

    Parameters
    ----------
    folder : Path
        Where the signs are; shared by all ranks, made by whoever comes first.
    rank, size : int
        This rank, and how many there are; nothing is done where it is alone.
    where : Whereabouts
        What this rank's main thread does.
    seconds : float
        Silence after which a rank counts as stopped, s.
    end : callable
        Told what is wrong, from the watching thread; it ends all ranks.
    after : callable, optional
        Given ``seconds`` when this rank has left: see `end_in_time`.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        size: int,
        where: Whereabouts,
        seconds: float,
        end: Callable[[str], None],
        after: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._folder, self._rank, self._size = folder, rank, size
        self._where, self._seconds, self._end, self._after = where, seconds, end, after
        self._pause = min(LONGEST_BEAT, seconds / 10)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        """Begin.

        Raises
        ------
        OSError
            The sign of life cannot be made.
        """
        if self._size > 1:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._place(self._rank).write_bytes(b" " * _LENGTH)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; the last rank to do so takes the folder away."""
        if self._size == 1:
            return
        self._stop.set()
        self._thread.join()
        with suppress(OSError):  # others are still there
            self._place(self._rank).unlink(missing_ok=True)
            self._folder.rmdir()
            self._folder.parent.rmdir()  # only if it is empty: the run did not start
        self._after(self._seconds)

    def _place(self, rank: int) -> Path:
        return self._folder / f"rank_{rank:05d}"

    def _watch(self) -> None:
        beat, seen, since, now = 0, -1, 0.0, 0.0
        first: dict[int, Sign | None] = {}
        looked, last = 0.0, time.monotonic()
        while not self._stop.wait(self._pause):
            # Time in which this thread did not get to run is not time in which it waited for others: all ranks may have
            # been stopped together (a suspended job), and none of them has had time for a sign of life since.
            last, gone = time.monotonic(), time.monotonic() - last
            now += min(gone, 2 * self._pause)
            beat += 1
            where = self._where
            most = min(self._seconds, _ASKED_SECONDS) if where.asked else self._seconds
            text = f"{beat} {where.moves} {int(bool(where.waiting))} {where.step} {where.waiting}"
            _write(self._place(self._rank), text)
            if where.moves != seen or not where.waiting:
                seen, since, first = where.moves, now, {}
            elif now - since >= most / 2:
                if not first:
                    first, looked = self._signs(), now
                elif now - since >= most and now - looked >= most / 2:
                    self._judge(first, now - since)
                    first, looked = self._signs(), now

    def _signs(self) -> dict[int, Sign | None]:
        """Return the other ranks' signs; ``None`` where there is none."""
        return {rank: _read(self._place(rank)) for rank in range(self._size) if rank != self._rank}

    def _judge(self, first: dict[int, Sign | None], waited: float) -> None:
        """End all ranks if one of them is silent, or if all of them wait for each other."""
        signs = self._signs()
        both = {rank: (first[rank], sign) for rank, sign in signs.items()}
        silent = [
            rank for rank, (old, new) in both.items() if new is None or (old is not None and old.beat == new.beat)
        ]
        stuck = not silent and all(
            old is not None and new is not None and new.waiting and old.moves == new.moves for old, new in both.values()
        )
        if not silent and not stuck:
            return
        # The lowest rank that lives tells and ends; the others only if it does not.
        lower = sum(rank < self._rank and rank not in silent for rank in signs)
        if lower and self._stop.wait(min(5.0, 1.0 + 0.2 * lower)):
            return
        what = "all ranks wait for each other" if stuck else f"no sign of life of {_ranks(silent)}"
        why = "told to end by SIGTERM" if self._where.asked else f"network.watchdog = {self._seconds:g} s"
        self._end(
            f"step {self._where.step}: rank {self._rank} of {self._size} has waited {waited:.0f} s for "
            f"{self._where.waiting}; {what} ({why})"
        )


def _write(place: Path, text: str) -> None:
    """Write a record over the last one. Opened and closed for it: a network file system passes it on only then."""
    with suppress(OSError):  # on a full disk the file's bytes are there already; whoever cannot write seems silent
        file = os.open(place, os.O_WRONLY)
        try:
            os.pwrite(file, text.encode()[:_LENGTH].ljust(_LENGTH), 0)
        finally:
            os.close(file)


def _read(place: Path) -> Sign | None:
    try:
        beat, moves, waiting, *_ = place.read_text(errors="replace").split(maxsplit=3)
        return Sign(int(beat), int(moves), waiting == "1")
    except (OSError, ValueError):
        return None


def _ranks(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"
