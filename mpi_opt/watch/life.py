"""Whether a run that has not said how it ended goes on: by its folder's lock, its signs of life, its pace."""

import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mpi_opt.run.watchdog import LONGEST_BEAT
from mpi_opt.status import age

_OLD_SECONDS = 30 * LONGEST_BEAT
"""Signs of life older than this are of a run that has ended."""
_GONE_SECONDS = 5.0
"""Files that stand still so long are believed, where the process that wrote them is gone."""


class Life(NamedTuple):
    """Whether a run goes on.

    Attributes
    ----------
    state : {"running", "silent", "killed"}
        ``silent``: nobody knows.
    words : str
        Why it is thought so; empty for one that runs.
    """

    state: str
    words: str


def life(folder: Path, written: float, pace: float) -> Life:
    """Return whether a run goes on.

    Parameters
    ----------
    folder : Path
        The run's.
    written : float
        Seconds since one of its metrics files was last written.
    pace : float
        Longest time between two rows so far, s.
    """
    process, sign = _process(folder), age(folder.glob(".alive*/rank_*"))
    still = f"no flush for {written:.0f} s"
    if process is not None and not _lives(process):
        if written > _GONE_SECONDS:
            return Life("killed", f"{still}, and process {process} on this machine is gone")
    elif process is not None or (sign is not None and sign < _OLD_SECONDS):
        return Life("running", "")
    elif sign is not None and written > _OLD_SECONDS:
        return Life("killed", f"{still}, and no sign of life for {sign:.0f} s")
    if written > max(_OLD_SECONDS, 5 * pace):
        return Life("silent", f"{still}: ended from outside, or busy with one long evaluation or step")
    return Life("running", "")


def _process(folder: Path) -> int | None:
    """Return the run's first process by the folder's lock, if it is of this machine.

    The lock is not tried: a run that begins at that moment would find it taken.
    """
    with suppress(OSError):
        text = (folder / ".lock").read_text(encoding="utf-8", errors="replace")
        host, _, rest = text.rpartition(", ")
        found = re.fullmatch(r"process (\d+)\s*", rest)
        if host == socket.gethostname() and found:
            return int(found[1])
    return None


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return True
