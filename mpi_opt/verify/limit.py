"""Ends all processes where a check takes too long or a signal asks for it, and leaves nothing behind."""

import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from mpi_opt.errors import RankFailedError
from mpi_opt.verify.setting import Setting

_ASKING = (signal.SIGTERM, signal.SIGINT)
_PAUSE = 0.2
"""Seconds between two looks at the clock."""


class Limit:
    """A thread that watches, since the main one may wait inside MPI, where it learns of neither time nor signals.

    Parameters
    ----------
    setting : Setting
    end : callable
        Ends all processes with an exit code.
    """

    def __init__(self, setting: Setting, end: Callable[[int], None]) -> None:
        self._setting, self._end = setting, end
        self._check, self._since = "", 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="limit", daemon=True)
        self._reads, self._writes = socket.socketpair()
        self._before: dict[int, object] = {}
        self._woken = -1

    def __enter__(self) -> Self:
        """Begin to watch."""
        self.begin("")
        if threading.current_thread() is threading.main_thread():
            self._writes.setblocking(False)
            self._woken = signal.set_wakeup_fd(self._writes.fileno(), warn_on_full_buffer=False)
            self._before = {number: signal.signal(number, lambda *_: None) for number in _ASKING}
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._before:
            signal.set_wakeup_fd(self._woken)
        self._stop.set()
        self._thread.join()
        self._reads.close()
        self._writes.close()

    def begin(self, check: str) -> None:
        """Note that a check begins."""
        self._check, self._since = check, time.monotonic()

    def give_up(self, why: str, code: int = RankFailedError.exit_code) -> None:
        """Say what is wrong, leave nothing behind, and end all processes."""
        rank, size = self._setting.collectives.rank, self._setting.collectives.size
        who = f"rank {rank} of {size}: " if size > 1 else ""
        sys.stderr.write(f"mpi-opt: error: verify: {self._check or 'start'}: {who}{why}\n")
        sys.stderr.flush()
        shutil.rmtree(self._setting.folder, ignore_errors=True)
        self._end(code)

    def _watch(self) -> None:
        why, code = "", RankFailedError.exit_code
        while not why:
            if self._stop.is_set():
                return
            ready, _, _ = select.select([self._reads], [], [], _PAUSE)
            came = [number for number in self._reads.recv(16) if number in _ASKING] if ready else []
            if came:
                why, code = f"ended by {signal.Signals(came[0]).name}", 128 + came[0]
            elif time.monotonic() - self._since > self._setting.seconds:
                waits = self._setting.where.waiting
                why = (
                    f"not done within {self._setting.seconds:g} s{f', waits for {waits}' if waits else ''}. A rank has "
                    "stopped, messages do not arrive, or the machine is very busy: try fewer ranks, then a longer "
                    "--timeout"
                )
        # The ranks come one after another, so that the first can end all before each says the same.
        if not self._stop.wait(min(5.0, 0.5 * self._setting.collectives.rank)):
            self.give_up(why, code)
