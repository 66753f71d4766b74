"""Start MPI ranks from a test, with any of the usual MPIs, and never leave one behind.

``mpirun(4, ["script.py", "arg"])`` runs what stands after ``python`` on a command line (a script, ``-m module``,
``-c code``) on every rank, with ``mpi4py``'s protection: an uncaught exception aborts all ranks.
``mpirun(4, ["mpi-opt", "run", "job.toml"])`` runs the console command as users do, without that protection, so that the
command's own is what is tested.

A plain subprocess instead of a pytest plugin: a rank may be killed, may raise or may hang without harm to the test
session, and every rank's output is kept apart.
"""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_RANK = Path(__file__).with_name("rank.py")
_TESTS = Path(__file__).parents[1]
_TOKEN = "MPI_OPT_TEST_RUN"
_STRICT = {"PYTHONWARNINGS": "error"}  # in ranks as in the tests themselves
_UCX_BYTES_PER_RANK = 8 << 20  # MPICH's default transport maps about 4.3 MB of /dev/shm a rank; doubled for safety


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended.

    Attributes
    ----------
    code : int
        What ``mpiexec`` returned; negative when a signal ended it.
    output : str
        What the launcher itself printed.
    logs : dict of int to str
        Standard output and error of each rank that got as far as starting Python.
    timed_out : bool
        The time limit was reached; the logs then end in every rank's Python stack.
    seconds : float
        Wall time from start to end.
    """

    code: int
    output: str
    logs: dict[int, str] = field(repr=False)
    timed_out: bool
    seconds: float

    def __str__(self) -> str:
        end = "timed out" if self.timed_out else f"exit code {self.code}"
        parts = [f"{end} after {self.seconds:.1f} s", "--- launcher", self.output.rstrip()]
        for rank, text in self.logs.items():
            parts += [f"--- rank {rank}", text.rstrip()]
        return "\n".join(parts)

    def check(self) -> "Result":
        """Return self when the run ended well, else raise an AssertionError that carries every log."""
        if self.code != 0 or self.timed_out:
            raise AssertionError(str(self))
        return self


@dataclass(frozen=True, slots=True)
class Launcher:
    """An ``mpiexec`` and whose it is: ``mpich``, ``openmpi4``, ``openmpi5`` or ``intel``."""

    path: str
    kind: str

    def flags(self) -> list[str]:
        """Return the options for more ranks than cores on one host."""
        if self.kind == "openmpi5":
            return ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,sm"]
        if self.kind == "openmpi4":
            # Copying straight out of another process needs a right that containers often withhold.
            copy = ["--mca", "btl_vader_single_copy_mechanism", "none"]
            return ["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader", *copy]
        return []

    def environment(self, n: int) -> dict[str, str]:
        """Return what ``n`` ranks on one host need set."""
        if self.kind.startswith("openmpi"):
            names = ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"]
            return {name + end: "1" for name in names for end in ("", "_CONFIRM")}
        if self.kind == "intel":
            return {"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"}
        chosen = {}
        if n > len(os.sched_getaffinity(0)):
            # A rank that waits gives its core to one that computes, instead of polling its time slice away: a round
            # among 4 ranks on 2 busy cores takes 0.3 ms instead of 1.9.
            chosen |= {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
        if shutil.disk_usage("/dev/shm").free < n * _UCX_BYTES_PER_RANK:
            # A container's 64 MB: the default transport would crash, this one needs little.
            chosen |= {"MPIR_CVAR_CH4_NETMOD": "ofi"}
        return chosen


@functools.cache
def find_launcher() -> Launcher | None:
    """Return ``$MPI_OPT_MPIEXEC``, else this environment's own ``mpiexec``, else the one on the path, else None."""
    chosen = os.environ.get("MPI_OPT_MPIEXEC")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise FileNotFoundError(f"MPI_OPT_MPIEXEC={chosen}: no such command")
    else:
        own = Path(sys.prefix, "bin", "mpiexec")
        path = str(own) if own.exists() else shutil.which("mpiexec") or shutil.which("mpirun")
    if path is None:
        return None
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return Launcher(path, _kind(answer.stdout + answer.stderr))


def _kind(version: str) -> str:
    found = re.search(r"(?:Open ?MPI|OpenRTE|PRRTE)\D*(\d+)", version, re.IGNORECASE)
    if found:
        return "openmpi4" if int(found[1]) == 4 and "prte" not in version.lower() else "openmpi5"
    return "intel" if "Intel" in version else "mpich"


def mpirun(
    n: int,
    args: Sequence[str | os.PathLike[str]],
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Result:
    """Run ``args`` on ``n`` ranks and wait for the end.

    Parameters
    ----------
    n : int
        Number of ranks; more than cores is fine.
    args : sequence of str or path
        A script with its arguments, ``-m module ...``, ``-c code ...``, or ``mpi-opt ...``.
    timeout : float
        Seconds until every process of the run is ended. Shortly before, each rank writes its Python stack to its log.
    env : mapping of str to str, optional
        Added to the environment. ``tests/`` is on the ranks' import path, one BLAS thread is set,
        and every warning is an error.
    cwd : path, optional
        Working folder; by default an empty temporary one, so that nothing is imported from the checkout by accident.

    Returns
    -------
    Result

    Raises
    ------
    FileNotFoundError
        There is no ``mpiexec``.
    """
    launcher = find_launcher()
    if launcher is None:
        raise FileNotFoundError("no mpiexec: install the extra (pip install '.[mpi]') or set MPI_OPT_MPIEXEC")
    with tempfile.TemporaryDirectory(prefix="mpirun-") as name:
        folder = Path(name)
        logs, empty = folder / "logs", folder / "cwd"
        logs.mkdir()
        empty.mkdir()
        path = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {**os.environ, **threads, **_STRICT, "PYTHONPATH": path}
        environment |= launcher.environment(n) | dict(env or {})
        # A time of day rather than a span: ranks start at different moments.
        stacks_at = time.time() + timeout - min(2.0, timeout / 4)
        command = [
            launcher.path,
            *launcher.flags(),
            "-n",
            str(n),
            sys.executable,
            str(_RANK),
            str(logs),
            repr(stacks_at),
        ]
        code, output, timed_out, seconds = _run(
            [*command, *map(os.fspath, args)], {**environment, _TOKEN: name}, cwd or empty, timeout, name
        )
        texts = {int(p.stem[5:]): p.read_text(errors="replace") for p in logs.glob("rank_*.log")}
    return Result(code, output, dict(sorted(texts.items())), timed_out, seconds)


def run_command(command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str], timeout: float) -> Result:
    """Run a command that may itself start ranks, such as a shell script, and leave none of its processes behind."""
    with tempfile.TemporaryDirectory(prefix="command-") as name:
        code, output, timed_out, seconds = _run(list(command), {**env, _TOKEN: name}, cwd, timeout, name)
    return Result(code, output, {}, timed_out, seconds)


def _run(
    command: list[str], env: dict[str, str], cwd: str | os.PathLike[str], timeout: float, token: str
) -> tuple[int, str, bool, float]:
    start, since, timed_out = time.monotonic(), time.time(), False
    process = subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a Ctrl-C in the test session reaches us, and we end the ranks
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        output = _end(process, token)
    except BaseException:
        _end(process, token)
        raise
    seconds = time.monotonic() - start
    if process.returncode != 0:  # a launcher that ended badly may have left ranks behind
        _kill(token)
        _sweep(since)
    return process.returncode, output, timed_out, seconds


def _end(process: "subprocess.Popen[str]", token: str) -> str:
    """End the launcher and every process of its run, the polite way first; return what the launcher had printed."""
    process.terminate()
    try:
        output, _ = process.communicate(timeout=3)
    except subprocess.TimeoutExpired:
        _kill(token)
        process.kill()
        output, _ = process.communicate()
    _kill(token)
    return output


def _kill(token: str) -> None:
    for _ in range(5):  # again, for those forked meanwhile
        members = _members(token)
        if not members:
            return
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def _members(token: str) -> list[int]:
    """Return the living processes that carry the run's token in their environment, whoever their parent is now."""
    mark = f"{_TOKEN}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # ended meanwhile, or another user's
                continue
    return found


def _sweep(since: float) -> None:
    """Remove shared memory that killed ranks of MPICH left: made since then (time of day), mapped by no process now."""
    made = [p for p in Path("/dev/shm").glob("mpich_shm_*") if p.stat().st_mtime >= since - 1]
    mapped = ""
    for maps in Path("/proc").glob("[0-9]*/maps") if made else ():
        try:
            mapped += maps.read_text(errors="replace")
        except OSError:
            continue
    for path in made:
        if str(path) not in mapped:
            path.unlink(missing_ok=True)
