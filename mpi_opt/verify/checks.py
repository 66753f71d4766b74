"""The checks in their order, how one is carried out by all processes together, and how all of them are."""

import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpi_opt import launch
from mpi_opt.errors import EXIT_DONE, JobError, MpiOptError, RankFailedError
from mpi_opt.network.collectives import Collectives, Solo
from mpi_opt.run.watchdog import end_in_time
from mpi_opt.threads import one_thread
from mpi_opt.verify import agreement, courses, launched, moved, runs
from mpi_opt.verify.findings import FAILED, LEFT_OUT, Finding, Outcome, merged
from mpi_opt.verify.limit import Limit
from mpi_opt.verify.setting import VIRTUAL_NODES, Setting

_PATIENCE = 10.0
"""Seconds that a rank with an unforeseen failure waits for the others to come to the end of the check."""
_SIGHT = 10.0
"""Seconds until a network file system must show a file that another host has written."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: called by all processes together, each returns what it found."""

    name: str
    about: str
    remedy: str
    run: Callable[[Setting], Outcome]


_REPORT = "report it with this output and that of 'mpi-opt info'"
CHECKS = (
    Check(
        "launch",
        "every rank sends to every other; same programs, one BLAS thread, one folder",
        "use one environment and one MPI on all hosts, --dir on a file system that all of them see, and see "
        "'mpi-opt info'; where messages are wrong try another transport of the MPI library",
        launched.check,
    ),
    Check(
        "reference",
        "SPARQ-SGD, Newton and LocalNewton against the papers in matrix form",
        f"trust no result of this installation. Try 'mpi-opt verify' without mpiexec: where that fails too, NumPy, its "
        f"BLAS or mpi_opt is at fault, else the MPI library or its transport; {_REPORT}",
        courses.against_reference,
    ),
    Check(
        "lockstep",
        "ranks over MPI against virtual nodes in one process, bit for bit",
        "hosts with unlike processors may round differently: then results are right, but not the same to the last bit. "
        f"On hosts of one kind messages are damaged: try another transport of the MPI library; {_REPORT}",
        courses.against_lockstep,
    ),
    Check(
        "replicas",
        "what neighbours believe a node's model to be against what it said",
        f"messages were lost or mixed up, trust no result; try another transport of the MPI library; {_REPORT}",
        agreement.replicas,
    ),
    Check(
        "gossip",
        "gossip keeps the network's mean and brings nodes together; W is doubly stochastic",
        f"trust no result of methods of neighbours, they would settle at a wrong point; {_REPORT}",
        agreement.gossip,
    ),
    Check(
        "bytes",
        "bytes and messages counted against those handed to MPI",
        f"trust no figure of messages and bytes here, models are right; {_REPORT}",
        moved.check,
    ),
    Check(
        "resume",
        "a run resumed from a checkpoint against one never interrupted, bit for bit",
        f"do not resume runs here; try --dir on another file system, and {_REPORT}",
        runs.resume,
    ),
    Check(
        "metrics",
        "metrics written, joined, and read while they are written; file locks",
        "give runs an --out on another file system (try it with --dir); where its locks are at fault, set "
        "HDF5_USE_FILE_LOCKING=FALSE",
        runs.metrics,
    ),
)


@dataclass(frozen=True, slots=True)
class Report:
    """What all checks came to, the same on every process."""

    ranks: int
    nodes: int
    library: str
    findings: Sequence[Finding]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 where nothing failed, else 6."""
        failed = any(finding.status == FAILED for finding in self.findings)
        return RankFailedError.exit_code if failed else EXIT_DONE

    def title(self) -> str:
        """Return the first line."""
        if self.ranks:
            return f"mpi-opt verify: {self.ranks} rank{'s' * (self.ranks > 1)}, {self.library}"
        return f"mpi-opt verify: {self.nodes} virtual nodes in one process, no MPI"

    def end(self) -> str:
        """Return the last line."""
        counts = [sum(each.status == status for each in self.findings) for status in (FAILED, LEFT_OUT)]
        passed = len(self.findings) - sum(counts)
        line = f"{passed} ok, {counts[0]} failed, {counts[1]} left out, in {self.seconds:.1f} s"
        return line if self.ranks else f"{line}; with MPI: mpiexec -n 4 mpi-opt verify"

    def values(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "ranks": self.ranks,
            "nodes": self.nodes,
            "library": self.library,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "checks": [finding.values() for finding in self.findings],
        }


def verify(
    environ: Mapping[str, str], folder: Path, *, seconds: float, show: Callable[[str], None] = lambda _: None
) -> Report:
    """Make all checks; called by all processes that the launcher started.

    Parameters
    ----------
    environ : mapping
        The process's environment.
    folder : Path
        Where a temporary folder is made; on a file system that all processes see.
    seconds : float
        Longest time of one check, s.
    show : callable, optional
        Given each line as it is known, on the first process alone.

    Raises
    ------
    LaunchError
        MPI cannot be started, or the ranks do not find each other.
    JobError
        Nothing can be written to ``folder``.
    """
    collectives, comm, library, end = _processes(environ)
    place = _make(folder, collectives)
    try:
        nodes = VIRTUAL_NODES if comm is None else collectives.size
        setting = Setting(
            collectives=collectives,
            nodes=nodes,
            local=tuple(range(nodes)) if comm is None else (collectives.rank,),
            comm=comm,
            folder=place,
            shared=_sees(place, collectives),
            seconds=seconds,
        )
        told = show if setting.first else lambda _: None
        began, findings = time.perf_counter(), list[Finding]()
        report = Report(0 if comm is None else collectives.size, nodes, library, findings, 0.0)
        told(report.title())
        width = max(len(check.name) for check in CHECKS)
        with one_thread(), Limit(setting, end) as limit:
            for check in CHECKS:
                findings.append(carry_out(check, setting, limit))
                told(findings[-1].text(width))
        report = Report(report.ranks, nodes, library, tuple(findings), time.perf_counter() - began)
        told(report.end())
    finally:
        if collectives.rank == 0:
            shutil.rmtree(place, ignore_errors=True)
    if collectives.size > 1:
        end_in_time(seconds)  # MPI's own end waits for all ranks
    return report


def carry_out(check: Check, setting: Setting, limit: Limit) -> Finding:
    """Make one check; an unforeseen failure of one rank is told and, where the others hang on it, ends all."""
    began, alone = time.perf_counter(), False
    limit.begin(check.name)
    try:
        outcome = check.run(setting)
    except Exception as error:
        alone = not getattr(error, "everywhere", False)
        outcome = Outcome(faults=[_told(error)] if alone or setting.first else ())  # what all have is told once
    if setting.comm is not None and setting.comm.size > 1:
        with setting.where.wait_in("all ranks, at the end of the check"):
            if not launch.all_arrive(setting.comm, _PATIENCE if alone else float("inf")):
                limit.give_up(f"{outcome.faults[0]}; the others wait for it. What to do: {check.remedy}")
    outcomes = setting.collectives.gather(outcome)
    return merged(check.name, check.about, check.remedy, outcomes, time.perf_counter() - began)


def _told(error: Exception) -> str:
    if isinstance(error, MpiOptError):
        return str(error).splitlines()[0]
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


def _processes(environ: Mapping[str, str]) -> tuple[Collectives, Any, str, Callable[[int], None]]:
    """Return collectives, communicator (``None`` without a launcher), what carries messages, and what ends all."""
    if launch.rank_from_environ(environ) is None:
        return Solo(), None, "lockstep", _end_process
    collectives = launch.start_mpi(environ)
    from mpi_opt.network import mpi

    return collectives, mpi.world(), mpi.library().split(",")[0], mpi.abort


def _end_process(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)


def _make(folder: Path, collectives: Collectives) -> Path:
    """Make a folder for a while, on the first process, and return its name on all."""
    place, error = "", None
    if collectives.rank == 0:
        try:
            place = tempfile.mkdtemp(prefix=".mpi-opt-verify-", dir=folder.absolute())
            (Path(place) / "seen").write_text(place, encoding="utf-8")
        except OSError as failed:
            error = JobError(
                f"cannot write to {folder}: {failed.strerror or failed}; give --dir a folder that exists and may be "
                "written to"
            )
    collectives.check(error)
    return Path(collectives.broadcast(place))


def _sees(place: Path, collectives: Collectives) -> str:
    """Return, alike on all processes, which of them do not see the folder; empty where all do."""
    until, seen = time.monotonic() + _SIGHT, False
    while not seen:
        with suppress(OSError):
            seen = (place / "seen").read_text(encoding="utf-8") == str(place)
        if time.monotonic() > until:
            break
        if not seen:
            time.sleep(0.1)
    blind = [rank for rank, sees in enumerate(collectives.gather(seen)) if not sees]
    return f"the folder {place.parent} of rank 0 is not seen by ranks {blind}" if blind else ""
