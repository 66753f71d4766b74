"""Checks of the file system: a metrics file read while it is written, and locks between processes."""

import os
import subprocess
import sys

from mpi_opt.errors import MpiOptError
from mpi_opt.metrics.attributes import run_attributes
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.verify.setting import Setting

_SYNCS = 5
_READ = "import sys; from mpi_opt.metrics.rank_file import read_rank; print(len(read_rank(sys.argv[1]).syncs['step']))"


def while_open(setting: Setting) -> list[str]:
    """Have every process write a metrics file and another one read it meanwhile; say what went wrong here."""
    everyone, faults = setting.collectives, list[str]()
    rank, size = everyone.rank, everyone.size
    error = recorder = None
    place = setting.folder / "open" / f"rank_{rank:05d}.h5"
    try:
        recorder = Recorder(
            place,
            attributes=run_attributes(
                job="", name="verify", seed=0, node=rank, nodes=size, mpi_library="", threads=1, command=(), started=""
            ),
            dim=1,
        )
        for t in range(_SYNCS):
            recorder.sync(t, True, 1.0, 0.5, 8)
        recorder.position()
    except (MpiOptError, OSError) as failed:
        error = failed
    everyone.check(error)  # nobody reads before all have written
    assert recorder is not None
    other = place.with_name(f"rank_{(rank + 1) % size:05d}.h5")
    try:
        rows = _in_another_process(setting, str(other)) if size == 1 else len(read_rank(other).syncs["step"])
        if rows != _SYNCS:
            faults.append(f"{other.name} shows {rows} rows while it is open, written were {_SYNCS}")
    except (MpiOptError, OSError, ValueError) as failed:
        faults.append(f"{other.name} cannot be read while it is open: {failed}")
    everyone.check(None)  # nobody closes before all have read
    recorder.close()
    return faults


def _in_another_process(setting: Setting, place: str) -> int:
    """Return the rows that a process of its own finds: this one has the file open."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, place],
        capture_output=True,
        text=True,
        timeout=0.5 * setting.seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"code {done.returncode}")
    return int(done.stdout)


def locks(setting: Setting) -> tuple[str, list[str]]:
    """Lock a file on the first process and try to on the last; return what to say of it, and what went wrong.

    Runs do without locks where there are none; only two runs into one folder are then not kept apart by them.
    """
    everyone = setting.collectives
    place, mine, error = setting.folder / "lock", -1, None
    held = ""
    try:
        if setting.first:
            mine = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
            held = _take(mine)
    except OSError as failed:
        error = failed
    everyone.check(error)
    held, second = everyone.broadcast(held), ""
    wrong: list[str] = []
    if everyone.rank == everyone.size - 1:
        try:
            file = os.open(place, os.O_RDWR)
            second = _take(file)
            os.close(file)
        except OSError as failed:
            wrong.append(f"the lock file of rank 0 cannot be opened: {failed.strerror or failed}")
    second = everyone.gather(second)[-1]
    if mine >= 0:
        os.close(mine)
    if held == "locked" and second == "held":
        return "file locks hold", wrong
    if held == "locked" and second == "locked":
        return "file locks do not hold between these processes: let no two runs write to one folder", wrong
    return f"no file locks here ({held or second}): let no two runs write to one folder", wrong


def _take(file: int) -> str:
    """Return ``locked``, ``held`` where another has it, or why files cannot be locked."""
    try:
        import fcntl
    except ImportError:
        return "this system has none"
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "held"
    except OSError as error:
        return error.strerror or str(error)
    return "locked"
