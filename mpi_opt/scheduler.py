"""SLURM's own commands, asked and answered: ``sbatch`` and ``squeue``."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.errors import JobError, LaunchError

_SECONDS = 30.0
"""Longest wait for an answer; a busy controller takes several."""

_FIELDS = {"JobArrayID": 40, "State": 20, "TimeLeft": 24, "StartTime": 24, "RestartCnt": 12, "Reason": 60}
"""What is asked of ``squeue``, and how wide a column it is to fill."""

_OVER = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)


@dataclass(frozen=True, slots=True)
class Queued:
    """What SLURM says of a job.

    Attributes
    ----------
    state : str
        ``PENDING``, ``RUNNING``, ``COMPLETED`` ...
    left : str
        Time that is left to it; empty where that means nothing.
    start : str
        When it began or is expected to.
    restarts : int
        How many times it has begun again.
    reason : str
        Why it waits, or ended badly; empty where there is none.
    """

    state: str
    left: str
    start: str
    restarts: int
    reason: str

    @property
    def over(self) -> bool:
        """Whether it will not run any more."""
        return self.state in _OVER


def send(batch: Path, array: str | None = None) -> str:
    """Hand a batch file to ``sbatch`` and return the job's number.

    Parameters
    ----------
    batch : Path
    array : str, optional
        Tasks of an array, instead of those that the file names: ``"1,2%1"``.

    Raises
    ------
    LaunchError
        There is no ``sbatch``, or it refuses: in its own words.
    """
    try:
        done = _run(["sbatch", "--parsable", *([] if array is None else [f"--array={array}"]), str(batch)])
    except FileNotFoundError:
        raise LaunchError(
            f"sbatch is not found, so nothing is submitted; {batch} is written: submit it where SLURM is, or print "
            "the text with --print"
        ) from None
    except subprocess.TimeoutExpired:
        raise LaunchError(f"sbatch gave no answer within {_SECONDS:g} s: see squeue before trying again") from None
    number = re.match(r"\d+", done.stdout)
    if done.returncode or number is None:
        said = " ".join((done.stderr or done.stdout).split())
        raise LaunchError(f"sbatch refuses {batch}: {said}")
    return number[0]


def ask(jobs: Iterable[str]) -> Mapping[str, Queued] | None:
    """Return what SLURM knows of jobs by their numbers (``12`` or ``12_3``); ``None`` where there is no SLURM.

    A job that has ended is known for some minutes more.
    """
    wanted = [job for job in jobs if re.fullmatch(r"\d+(_\d+)?", job)]
    if shutil.which("squeue") is None:
        return None
    if not wanted:
        return {}
    columns = ",".join(f"{name}:{width}" for name, width in _FIELDS.items())
    try:
        done = _run(
            ["squeue", "--noheader", "--array", "--states=all", f"--jobs={','.join(wanted)}", f"--Format={columns}"]
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return {} if "Invalid job id" in done.stderr else None
    return dict(_parsed(line) for line in done.stdout.splitlines() if line.strip())


def refuse_queued(places: Mapping[str, Path]) -> None:
    """Refuse folders whose jobs, by number, are still waiting or running.

    Raises
    ------
    JobError
        Names the first such folder, the job and its state.
    """
    found = ask(places) or {} if places else {}
    for job, place in places.items():
        if job in found and not found[job].over:
            state = found[job].state
            raise JobError(f"{place} belongs to job {job}, which is {state}: scancel {job}, or give another --out")


def _parsed(line: str) -> tuple[str, Queued]:
    values, at = {}, 0
    for name, width in _FIELDS.items():
        values[name] = line[at : at + width].strip()
        at += width
    known = {name: "" if value in ("N/A", "None", "(null)", "INVALID") else value for name, value in values.items()}
    restarts = known["RestartCnt"]
    return known["JobArrayID"], Queued(
        known["State"], known["TimeLeft"], known["StartTime"], int(restarts or 0), known["Reason"]
    )


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
