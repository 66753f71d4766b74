"""Signals that ask a run to stop: the first is remembered, a later one ends the process at once."""

import os
import signal
import socket
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:  # the command imports this before anything heavy
    from mpi_opt.network.base import Whereabouts

ASKING = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGTERM", "SIGINT") if hasattr(signal, name))
"""What schedulers send ahead of a job's end, and what people send."""

_TOGETHER = 2.0
"""Seconds within which signals are one wish: SLURM tells the ranks, and their ``mpirun``, which tells them again."""

_NOTICE = {signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set()


def hold() -> None:
    """Have the notice of a scheduler wait until a run can act on it, or for ever where it comes after the run's end.

    Else it would kill a process that reads its data, or one that is done and about to leave.
    """
    if _NOTICE:
        signal.pthread_sigmask(signal.SIG_BLOCK, _NOTICE)


class Signals:
    """Watches for signals while it is entered; only the main thread can, elsewhere nothing is seen.

    The main thread learns of a signal between two steps of Python; while it waits inside MPI it learns of none. So a
    thread of its own, which the system tells at once, ends the process.

    Parameters
    ----------
    where : Whereabouts, optional
        Where SIGTERM is noted at once, for whoever watches the main thread.

    Attributes
    ----------
    came : int
        Number of the first signal that came; 0 while none has.
    """

    def __init__(self, where: "Whereabouts | None" = None) -> None:
        self.came = 0
        self._where = where
        self._before: dict[int, object] = {}
        self._held: set[signal.Signals | int] = set()
        self._woken = -1
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)

    def __enter__(self) -> Self:
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            self._ends = socket.socketpair()
            self._ends[1].setblocking(False)
            self._woken = signal.set_wakeup_fd(self._ends[1].fileno(), warn_on_full_buffer=False)
            self._thread.start()
            for number in ASKING:
                self._before[number] = signal.signal(number, self._note)
            if _NOTICE:
                self._held = signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOTICE) & _NOTICE
        return self

    def over(self) -> None:
        """Ignore SIGTERM from here on, also behind the exit: the run is over, and its ranks are about to leave.

        ``srun --kill-on-bad-exit`` sends it to the ranks that are still there once the first has left with a code
        other than 0; they would leave with another code than that.
        """
        if self._before:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._before[signal.SIGTERM] = signal.SIG_IGN

    def __exit__(self, *_: object) -> None:
        """Give them back to who had them."""
        if self._held:
            hold()
            self._held = set()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()
        if self._ends is not None:
            signal.set_wakeup_fd(self._woken)
            self._ends[1].close()
            self._thread.join()
            self._ends[0].close()
            self._ends = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.came = self.came or number

    def _listen(self) -> None:
        """End the process at the second wish, whatever the main thread is in the middle of."""
        assert self._ends is not None
        first = 0.0
        while numbers := self._ends[0].recv(64):
            for number in numbers:
                if number == signal.SIGTERM and self._where is not None:
                    self._where.asked = True
                if number in ASKING:
                    now = time.monotonic()
                    if first and now - first >= _TOGETHER:
                        os._exit(128 + number)
                    first = first or now
