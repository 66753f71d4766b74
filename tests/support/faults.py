"""Runs of the command that something happens to: their processes found, hit, and watched until they are gone."""

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import h5py
from support.mpirun import Result, mpirun

from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.run.checkpoint import found, read_manifest, read_node

_MARK = "MPI_OPT_FAULTS"
_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


class Live:
    """A command on ``n`` ranks that goes on while the test does other things.

    Parameters
    ----------
    n : int
    args : sequence
        As for ``mpirun``.
    """

    def __init__(self, n, args, timeout=60.0, env: Mapping[str, str] | None = None):
        self.n, self._mark = n, uuid.uuid4().hex
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(n, args, timeout, dict(env or {})))
        self._thread.start()

    def _run(self, n, args, timeout, env):
        try:
            self._result = mpirun(n, args, timeout=timeout, env={**env, _MARK: self._mark})
        except BaseException as error:
            self._error = error

    @property
    def going(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> Result:
        """Wait for the end."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def pids(self) -> dict[int | str, int]:
        """Return the living processes by rank; the launcher is called "launcher"."""
        mark, places = f"{_MARK}={self._mark}".encode(), {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                if mark not in words or (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                    continue
                known = dict(word.split(b"=", 1) for word in words if b"=" in word)
                rank = next((int(known[name.encode()]) for name in _RANKS if name.encode() in known), None)
                command = (entry / "cmdline").read_bytes()
                if rank is not None and b"rank.py" in command:
                    places[rank] = int(entry.name)
                elif b"mpiexec" in command.split(b"\0")[0] or b"prterun" in command or b"mpirun" in command:
                    places.setdefault("launcher", int(entry.name))
        return places

    def all_ranks(self) -> dict[int | str, int]:
        """Wait until all ranks are there, and return the processes."""
        wait_for(lambda: sum(type(name) is int for name in self.pids()) == self.n or not self.going)
        return self.pids()

    def gone(self, pids, seconds) -> float:
        """Return after how many seconds the last of ``pids`` was gone; fail after ``seconds``."""
        began = time.monotonic()
        while any(map(alive, pids)):
            assert time.monotonic() - began < seconds, f"{[p for p in pids if alive(p)]} live after {seconds} s"
            time.sleep(0.02)
        return time.monotonic() - began


def alive(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return once ``condition()`` holds; fail after ``seconds``."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def hit(pid: int, number: int) -> None:
    """Send a signal, if the process is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def committed(folder: Path, n: int) -> dict[int, tuple[int, int]]:
    """Return what each metrics file that is there says is whole: rows and synchronisations; read with plain h5py."""
    counts = {}
    for node in range(n):
        place = folder / "metrics" / f"rank_{node:05d}.h5"
        if place.exists():
            with h5py.File(place, "r", swmr=True) as file:
                counts[node] = tuple(file["committed"][:].tolist())
    return counts


def check_metrics(folder: Path, n: int) -> dict[int, tuple[int, int]]:
    """Read every metrics file with the package and with plain h5py, and return what is committed."""
    counts = committed(folder, n)
    for node, (rows, syncs) in counts.items():
        place = folder / "metrics" / f"rank_{node:05d}.h5"
        read = read_rank(place)
        assert (len(read.series["step"]), len(read.syncs["step"])) == (rows, syncs)
        with h5py.File(place, "r", swmr=True) as file:
            assert all(file["series"][name].shape[0] >= rows for name in file["series"])
    return counts


def whole_checkpoints(folder: Path) -> list[int]:
    """Read all checkpoints that have a name, each node's file against its hash; return their steps, newest first."""
    steps = []
    for path in found(folder / "checkpoints"):
        manifest = read_manifest(path)
        for node in range(manifest.nodes):
            read_node(manifest, node)
        steps.append(manifest.step)
    return steps


KILL, STOP, GO, SEGV, TERM, USR1 = (
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGSEGV, signal.SIGTERM, signal.SIGUSR1,
)  # fmt: skip
