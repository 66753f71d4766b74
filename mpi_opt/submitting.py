"""Submit: a job and a site profile are checked, written out as a batch file, and handed to SLURM."""

import itertools
import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mpi_opt import scheduler, slurm
from mpi_opt.errors import JobError
from mpi_opt.job import Job, load_job, to_toml
from mpi_opt.metrics.files import replace_file
from mpi_opt.site import Launcher, Site, load_site, one_line

SWEEP = "sweep.json"
"""The runs of a sweep and their settings, in the sweep's folder."""

_AHEAD = 120
"""Seconds before the time limit at which a run is asked to stop; a quarter of a short job."""

_HELD = ("job.toml", "model.h5", "checkpoints", "metrics")
_OPEN, _CLOSE = "[{", "]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for; ``None`` where it is left to site profile or default.

    Attributes
    ----------
    job : Path
    settings, sweeps : sequence of str
        ``key=value`` and ``key=a,b,c``.
    nodes, ntasks : int
    time : str
        In SLURM's forms.
    site, out : Path or None
    launcher : {"srun", "mpirun"} or None
    signal_ahead, requeue, array_limit : int or None
    dependency : str or None
    command : sequence of str
        The command line, for the head of the batch file.
    """

    job: Path
    settings: Sequence[str]
    sweeps: Sequence[str]
    nodes: int
    ntasks: int
    time: str
    site: Path | None
    out: Path | None
    launcher: Launcher | None
    signal_ahead: int | None
    requeue: int | None
    array_limit: int | None
    dependency: str | None
    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be written and submitted: the batch, and the job of each of its runs by folder."""

    batch: slurm.Batch
    jobs: tuple[tuple[Path, Job], ...]


def prepare(request: Request) -> Prepared:
    """Check everything that can be checked before SLURM is asked; nothing is written.

    Raises
    ------
    JobError
        The job, one of a sweep, the site profile or an option is wrong.
    """
    site = Site() if request.site is None else load_site(request.site)
    job = load_job(request.job, request.settings)
    combinations = tuple(sweep(request.sweeps))
    seconds = slurm.seconds_of(request.time)
    if request.ntasks < request.nodes:
        raise JobError(f"--ntasks {request.ntasks}: less than one rank on each of {request.nodes} nodes")
    if request.array_limit is not None and not combinations:
        raise JobError("--array-limit: has no meaning without --sweep")
    folder = Path(os.path.abspath(Path("runs") / job.name if request.out is None else request.out))
    batch = slurm.Batch(
        name=job.name,
        folder=folder,
        about=_about(request, job, sweep=bool(combinations)),
        nodes=request.nodes,
        ntasks=request.ntasks,
        seconds=seconds,
        site=site,
        launcher=request.launcher or site.launcher,
        command=site.command or own_command(),
        signal_ahead=_ahead(request, site, seconds),
        requeue=site.requeue if request.requeue is None else request.requeue,
        sweep=combinations,
        array_limit=request.array_limit,
        dependency=None if request.dependency is None else one_line(request.dependency, "--dependency"),
    )
    if not combinations:
        return Prepared(batch, ((folder, job),))
    jobs = []
    for index, settings in enumerate(combinations):
        place = slurm.run_folder(batch, index)
        jobs.append((place, load_job(request.job, (*request.settings, *settings, f"name={place.name}"))))
    return Prepared(batch, tuple(jobs))


def submit(prepared: Prepared) -> str:
    """Write the batch file and the jobs, hand the file to SLURM, and return the job's number.

    Raises
    ------
    JobError
        A folder holds a run, belongs to a job in the queue, or cannot be written to.
    LaunchError
        SLURM refuses, or is not there.
    """
    batch = prepared.batch
    text = slurm.batch_text(batch)
    _refuse([batch.folder, *(folder for folder, _ in prepared.jobs)], batch)
    try:
        for folder, job in prepared.jobs:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / slurm.SUBMITTED, to_toml(job).encode())
        if batch.sweep:
            runs = [{"folder": folder.name, "set": batch.sweep[k]} for k, (folder, _) in enumerate(prepared.jobs)]
            replace_file(batch.folder / SWEEP, (json.dumps({"runs": runs}, indent=1) + "\n").encode())
        replace_file(batch.folder / slurm.BATCH, text.encode())
    except OSError as error:
        raise JobError(f"cannot make the folder {batch.folder}: {error.strerror}; give another --out") from None
    number = scheduler.send(batch.folder / slurm.BATCH)
    for index, (folder, _) in enumerate(prepared.jobs):
        # The job writes its number too, where it begins; perhaps it has begun by now.
        replace_file(folder / slurm.JOB_ID, (f"{number}_{index}\n" if batch.sweep else f"{number}\n").encode())
    return number


def said(prepared: Prepared, number: str) -> str:
    """Return what a person is told of a job just submitted: number, folder, and what to do next."""
    batch = prepared.batch
    place = shlex.quote(os.path.relpath(batch.folder))
    runs = f"{len(batch.sweep)} runs of " if batch.sweep else ""
    log = f"{batch.name}-*/slurm-{number}_*.out" if batch.sweep else f"slurm-{number}.out"
    again = " --array=K" if batch.sweep else ""
    return "\n".join(
        (
            f"job {number}: {runs}{batch.name} on {batch.ntasks} ranks, {batch.nodes} "
            f"node{'s' * (batch.nodes > 1)}, at most {slurm.as_limit(batch.seconds)}",
            f"  folder  {place}: batch file {slurm.BATCH}, log {log}",
            f"  watch   mpi-opt status {place}",
            f"  stop    scancel {number}   (a checkpoint is left)",
            f"  go on   sbatch{again} {shlex.quote(os.path.relpath(batch.folder / slurm.BATCH))}",
        )
    )


def sweep(sweeps: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every combination of ``key=a,b,c``, as ``key=value`` settings; the last key changes fastest.

    Raises
    ------
    JobError
        One of them names no key, no value, or a key that is there twice.
    """
    keys, columns = [], []
    for text in sweeps:
        key, _, values = text.partition("=")
        words = list(_split(values))
        if not key.strip() or not all(words):
            raise JobError(f"--sweep {text!r}: expected key=a,b,c, no value empty")
        if key.strip() in keys:
            raise JobError(f"--sweep {text!r}: the key is there twice")
        keys.append(key.strip())
        columns.append([f"{key.strip()}={word}" for word in words])
    return itertools.product(*columns) if columns else iter(())


def own_command() -> tuple[str, ...]:
    """Return how this ``mpi-opt`` is started, by full path: nodes share the file system."""
    script = Path(sysconfig.get_path("scripts"), "mpi-opt")
    return (str(script),) if script.exists() else (sys.executable, "-P", "-m", "mpi_opt")


def _split(text: str) -> Iterator[str]:
    """Yield what stands between commas, of which those within quotes, lists and tables are none."""
    word, quote, depth = "", "", 0
    for character in text:
        if character == "," and not quote and not depth:
            yield word.strip()
            word = ""
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in _OPEN) - (character in _CLOSE)
        word += character
    yield word.strip()


def _about(request: Request, job: Job, *, sweep: bool) -> tuple[str, ...]:
    what = f"{job.name}: {'a sweep of ' if sweep else ''}{job.algorithm.name}. Written by:"
    return (what, f"  {shlex.join(request.command)}", "To go on with it after it was stopped, submit this file again.")


def _ahead(request: Request, site: Site, seconds: int) -> int | None:
    """Return how long before the limit the run is asked to stop; ``None`` for not at all."""
    asked = site.signal_ahead if request.signal_ahead is None else request.signal_ahead
    if asked is None:
        return min(_AHEAD, max(1, seconds // 4))
    if asked >= seconds:
        raise JobError(f"--signal-ahead {asked}: the job has only {seconds} s (--time {request.time})")
    return asked or None


def _refuse(folders: Sequence[Path], batch: slurm.Batch) -> None:
    """Refuse folders that hold a run or wait for one."""
    places = {}
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise JobError(f"{folder} is a file: results need a folder; give another --out")
        with suppress(FileNotFoundError):
            places[(folder / slurm.JOB_ID).read_text(errors="replace").strip()] = folder
    scheduler.refuse_queued(places)
    for folder in folders:
        held = [name for name in _HELD if (folder / name).exists()]
        if held:
            way = f"to go on with it, sbatch {shlex.quote(str(batch.folder / slurm.BATCH))}"
            ways = f"{way}; else give" if (batch.folder / slurm.BATCH).exists() else "give"
            raise JobError(f"{folder} already holds a run ({', '.join(held)}): {ways} another --out")
