"""One point run by its launcher in a process group of its own, within a time limit, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "MPI_OPT_SCALE_POINT"
"""Variable that all processes of a point carry, with its output file as value: by it those left behind are found."""

_POLITE = 5.0
"""Seconds from asking a launcher to end its ranks to ending them all."""
_TAIL = 2000
"""Bytes of the output's end that are looked at for a reason."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command of a point ended.

    Attributes
    ----------
    code : int
        Exit code; negative: the number of the signal that ended it.
    seconds : float
        Wall time.
    timed_out : bool
        Whether it was ended at its time limit.
    reason : str
        The last words it printed; empty where it printed none.
    """

    code: int
    seconds: float
    timed_out: bool
    reason: str

    @property
    def fine(self) -> bool:
        """Whether it ended by itself and well."""
        return self.code == 0 and not self.timed_out

    def told(self) -> str:
        """Return what went wrong, in words."""
        if self.timed_out:  # what a launcher says on being ended is of no help
            return f"ended at its time limit, after {self.seconds:.0f} s"
        how = f"exit code {self.code}" if self.code >= 0 else f"ended by signal {-self.code}"
        return f"{how}: {self.reason}" if self.reason else how


def run_command(command: Sequence[str], output: Path, limit: float, environ: Mapping[str, str]) -> Ended:
    """Run ``command``, its output into a file, and wait for its end; an exception here ends it first.

    Parameters
    ----------
    command : sequence of str
    output : Path
        Of standard output and standard error.
    limit : float
        Seconds after which all its processes are ended.
    environ : mapping
        Its environment.

    Raises
    ------
    OSError
        It cannot be started.
    """
    mark, began = str(output.absolute()), time.monotonic()
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**environ, MARK: mark},
            start_new_session=True,  # Ctrl-C comes to us, and we end them
        )
        timed_out = False
        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            _end(process, mark)
        except BaseException:
            _end(process, mark)
            raise
        if process.returncode != 0:
            _kill_left(mark)  # a launcher that ends badly may leave ranks behind
    return Ended(process.returncode, time.monotonic() - began, timed_out, _reason(output))


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """End the launcher and all that it started: asked first, as it knows its ranks on other hosts."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_POLITE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _kill_left(mark)
    process.wait()


def _kill_left(mark: str) -> None:
    """End what carries the mark, whatever group it has moved to; where the system shows no processes, nothing."""
    for _ in range(5):  # again, for those started meanwhile
        left = _marked(mark)
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


def _marked(mark: str) -> list[int]:
    if not sys.platform.startswith("linux"):
        return []
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):  # ended meanwhile, or another user's
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _reason(output: Path) -> str:
    """Return the line that says why, by the end of the output: the command's own error, else the last line."""
    with output.open("rb") as text:
        text.seek(0, os.SEEK_END)
        text.seek(max(0, text.tell() - _TAIL))
        lines = [" ".join(line.split()) for line in text.read().decode(errors="replace").splitlines()]
    told = [line for line in lines if line.startswith("mpi-opt: error: ")]
    spoken = [line for line in lines if any(map(str.isalnum, line))]
    return told[-1].removeprefix("mpi-opt: error: ") if told else (spoken or [""])[-1]
