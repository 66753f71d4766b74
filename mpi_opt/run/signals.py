"""Signals that ask a run to stop: the first is remembered, a later one ends the process at once."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Self

ASKING = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGTERM", "SIGINT") if hasattr(signal, name))
"""What schedulers send ahead of a job's end, and what people send."""

_TOGETHER = 2.0
"""Seconds within which signals are one wish: SLURM tells the ranks, and their ``mpirun``, which tells them again."""


class Signals:
    """Watches for signals while it is entered; only the main thread can, elsewhere nothing is seen.

    Attributes
    ----------
    came : int
        Number of the first signal that came; 0 while none has.
    """

    def __init__(self) -> None:
        self.came = 0
        self._at = 0.0
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            for number in ASKING:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.came and time.monotonic() - self._at < _TOGETHER:
            return
        if self.came:
            # Not by way of an exception: whoever sends twice wants the end, whatever we are in the middle of.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.came, self._at = number, time.monotonic()
