"""What is known of a run from outside: what SLURM says of its job, and how far its files say that it has come."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mpi_opt import scheduler, slurm
from mpi_opt.errors import DataError, JobError, MpiOptError
from mpi_opt.job import load_job
from mpi_opt.metrics import schema
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.run.checkpoint import found
from mpi_opt.scheduler import Queued
from mpi_opt.submitting import SWEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come, by its first node's metrics.

    Attributes
    ----------
    state : str
        ``running`` (or killed: files cannot tell), or how it ended.
    nodes, step, round : int
        Ranks; steps and rounds at the last evaluation on disk.
    objective : float or None
        There, at the averaged model; ``None`` before the first, or where it is not finite.
    seconds : float
        Run clock there, s.
    simulated : bool
        That clock is a virtual one.
    """

    state: str
    nodes: int
    step: int
    round: int
    objective: float | None
    seconds: float
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a run.

    Attributes
    ----------
    folder : str
    name : str
        The job's; empty where that is not known.
    steps : int or None
        How many it is to take, where the job says so.
    job_id : str
        SLURM's number of its job; empty where it was not submitted.
    slurm : Queued or None
        What SLURM says of it.
    asked : bool
        Whether there is a SLURM to be asked.
    progress : Progress or None
        ``None`` before the run has begun.
    checkpoint : int or None
        Step of the newest checkpoint.
    checkpoint_age, sign_age : float or None
        Seconds since that was written, and since anything was.
    trouble : str
        Why the metrics cannot be read; empty where they can.
    """

    folder: str
    name: str
    steps: int | None
    job_id: str
    slurm: Queued | None
    asked: bool
    progress: Progress | None
    checkpoint: int | None
    checkpoint_age: float | None
    sign_age: float | None
    trouble: str = ""


def status_of(folders: Iterable[Path]) -> list[Status]:
    """Return what is known of runs; the folder of a sweep stands for its runs.

    Raises
    ------
    JobError
        A folder holds neither a run nor one that was submitted.
    """
    places = [place for folder in folders for place in runs_in(folder)]
    numbers = [_text(place / slurm.JOB_ID) for place in places]
    queue = scheduler.ask(number for number in numbers if number)
    return [_status(place, number, queue) for place, number in zip(places, numbers, strict=True)]


def as_json(statuses: Sequence[Status]) -> str:
    """Return the runs as a JSON list."""
    return json.dumps([asdict(status) for status in statuses], indent=2, allow_nan=False)


def as_text(statuses: Sequence[Status]) -> str:
    """Return the runs as text, a few lines each."""
    return "\n".join("\n".join(_lines(status)) for status in statuses)


def _lines(status: Status) -> Iterator[str]:
    yield f"{status.folder}: {_run_line(status)}"
    if status.job_id:
        yield f"  job {status.job_id}: {_job_line(status)}"
    if status.progress is not None and status.progress.objective is not None:
        done = status.progress
        clock = f"{done.seconds:.4g} simulated s" if done.simulated else f"{done.seconds:.1f} s of run clock"
        yield f"  objective {done.objective:.10g} after {done.round} rounds, {clock}"
    if status.checkpoint is not None and status.checkpoint_age is not None:
        yield f"  last checkpoint at step {status.checkpoint}, {span(status.checkpoint_age)} ago"
    if status.trouble:
        yield f"  {status.trouble}"


def _run_line(status: Status) -> str:
    done = status.progress
    if done is None:
        return "has not begun"
    of = "" if status.steps is None else f" of {status.steps}"
    at = f"step {done.step}{of} on {done.nodes} nodes"
    if done.state != schema.RUNNING:
        return f"{at}; {done.state}"
    told = "" if status.sign_age is None else f"; last written to {span(status.sign_age)} ago"
    gone = status.slurm is not None and status.slurm.state != "RUNNING"
    return f"{at}; {'not running: it was ended from outside' if gone else 'running'}{told}"


def _job_line(status: Status) -> str:
    job = status.slurm
    if job is None:
        return "SLURM does not know it any more" if status.asked else "squeue gives no answer"
    parts = [job.state]
    if job.state == "PENDING":
        parts += [f"waits for: {job.reason}"] if job.reason else []
        parts += [f"expected at {job.start}"] if job.start else []
    elif job.state == "RUNNING":
        parts += [f"{job.left} left"] if job.left else []
    elif job.reason:
        parts.append(job.reason)
    if job.restarts:
        parts.append(f"begun again {job.restarts} time{'s' * (job.restarts > 1)}")
    return ", ".join(parts)


def span(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def runs_in(folder: Path) -> list[Path]:
    """Return the folder, or those of the sweep in it.

    Raises
    ------
    JobError
        It holds neither.
    """
    listed = _text(folder / SWEEP)
    if listed:
        try:
            return [folder / run["folder"] for run in json.loads(listed)["runs"]]
        except (KeyError, TypeError, ValueError) as error:
            raise JobError(f"{folder / SWEEP}: damaged: {error}") from None
    if not any((folder / name).exists() for name in ("job.toml", slurm.SUBMITTED)):
        raise JobError(f"{folder} holds no run; allowed: a folder that a run, or mpi-opt submit, has made")
    return [folder]


def _status(folder: Path, number: str, queue: Mapping[str, Queued] | None) -> Status:
    progress, trouble, name, steps = None, "", "", None
    job = folder / "job.toml"
    with suppress(MpiOptError):
        loaded = load_job(job if job.exists() else folder / slurm.SUBMITTED)
        name, steps = loaded.name, loaded.stop.steps
    metrics = folder / "metrics" / "rank_00000.h5"
    if job.exists() and metrics.exists():
        try:
            progress = _progress(metrics)
        except DataError as error:
            trouble = str(error)
    checkpoints = found(folder / "checkpoints")
    newest = checkpoints[0] if checkpoints else None
    return Status(
        folder=os.path.relpath(folder),
        name=name,
        steps=steps,
        job_id=number,
        slurm=None if queue is None else queue.get(number),
        asked=queue is not None,
        progress=progress,
        checkpoint=None if newest is None else int(newest.name.removeprefix("step_")),
        checkpoint_age=None if newest is None else age([newest]),
        sign_age=age([*(folder / ".alive").glob("rank_*"), metrics, folder / "log.txt"]),
        trouble=trouble,
    )


def _progress(metrics: Path) -> Progress:
    read = read_rank(metrics, models=False)
    row = {name: values[-1].item() for name, values in read.series.items() if read.rows}
    objective = row.get("objective_average")
    return Progress(
        state=read.status,
        nodes=int(read.attributes["nodes"]),
        step=row.get("step", 0),
        round=row.get("round", 0),
        objective=objective if objective is not None and abs(objective) < float("inf") else None,
        seconds=row.get("seconds", 0.0),
        simulated=bool(read.attributes.get("clock", "")),
    )


def age(paths: Iterable[Path]) -> float | None:
    """Return the seconds since the latest change of what there is of ``paths``."""
    times = []
    for path in paths:
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(0.0, time.time() - max(times)) if times else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
