"""A scaling test as jobs of SLURM: one array a number of ranks, as their hosts differ; one task a repeat."""

import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mpi_opt import scheduler, slurm
from mpi_opt.errors import JobError
from mpi_opt.metrics.files import replace_file
from mpi_opt.scaletest.collecting import is_done
from mpi_opt.scaletest.study import JOB, Study
from mpi_opt.scaling.points import Point
from mpi_opt.site import Launcher, Site, load_site, one_line
from mpi_opt.submitting import own_command

assert JOB == slurm.SUBMITTED  # the batch file starts the run from it


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What SLURM is asked for.

    Attributes
    ----------
    ranks_per_node : int
        Ranks a host at most.
    time : str
        Time limit of a point, in SLURM's forms.
    site : Path or None
        Site profile.
    launcher : {"srun", "mpirun"} or None
        ``None``: the site's.
    dependency : str or None
    command : sequence of str
        The command line, for the head of the batch files.
    """

    ranks_per_node: int
    time: str
    site: Path | None
    launcher: Launcher | None
    dependency: str | None
    command: Sequence[str]


def batches(study: Study, queue: Queue) -> dict[int, slurm.Batch]:
    """Return the batch of every number of ranks; a pure function but for the site profile that is read.

    Raises
    ------
    JobError
        The site profile or an option is wrong.
    """
    site = Site() if queue.site is None else load_site(queue.site)
    dependency = None if queue.dependency is None else one_line(queue.dependency, "--dependency")
    seconds = slurm.seconds_of(queue.time)
    return {ranks: _batch(study, queue, site, seconds, dependency, ranks) for ranks in study.plan.ranks}


def _batch(study: Study, queue: Queue, site: Site, seconds: int, dependency: str | None, ranks: int) -> slurm.Batch:
    plan = study.plan
    rows = plan.rows_on(ranks)
    what = f"{plan.mode} scaling of {study.name}, {_ranks(ranks)}"
    return slurm.Batch(
        name=f"{study.name}-{ranks}",
        folder=Path(os.path.abspath(study.group(ranks))),
        about=(f"{what}{'' if rows is None else f', {rows} rows'}. Written by:", f"  {shlex.join(queue.command)}"),
        nodes=-(-ranks // queue.ranks_per_node),
        ntasks=ranks,
        seconds=seconds,
        site=site,
        launcher=queue.launcher or site.launcher,
        command=site.command or own_command(),
        signal_ahead=None,  # a run that pauses has no time worth telling
        sweep=tuple((f"repeat {repeat + 1} of {plan.repeats}",) for repeat in range(plan.repeats)),
        array_limit=1,  # repeats of a point do not disturb each other
        dependency=dependency,
    )


def submit(study: Study, queue: Queue) -> list[str]:
    """Write batch files and jobs, hand them to SLURM, and return a line on each number of ranks.

    Points that are done, wait or run are left as they are; what others left of an earlier try is taken away.

    Raises
    ------
    JobError
        An option is wrong or a folder cannot be written to.
    LaunchError
        SLURM refuses, or is not there.
    """
    made = batches(study, queue)
    texts = {ranks: slurm.batch_text(batch) for ranks, batch in made.items()}
    study.save()
    waiting = _waiting(study)
    lines = []
    for ranks, batch in made.items():
        points = [point for point in study.plan.points() if point.ranks == ranks]
        open_points = [point for point in points if point not in waiting and not is_done(study.place(point))]
        busy = [point for point in points if point in waiting]
        said = f", {len(busy)} in the queue" if busy else ""
        if not open_points:
            lines.append(f"{_ranks(ranks)}: nothing to submit, {len(points) - len(busy)} of {len(points)} done{said}")
            continue
        number = _send(study, batch, texts[ranks], open_points)
        lines.append(
            f"{_ranks(ranks)}: job {number}, {len(open_points)} of {len(points)} runs on {_hosts(batch)}{said}"
        )
    return lines


def _send(study: Study, batch: slurm.Batch, text: str, points: Sequence[Point]) -> str:
    for point in points:
        with suppress(FileNotFoundError):
            shutil.rmtree(study.place(point))
        study.write_job(point)
    path = batch.folder / slurm.BATCH
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise JobError(f"cannot write {path}: {error.strerror or error}; give another --out") from None
    repeats = [point.repeat for point in points]
    whole = len(repeats) == study.plan.repeats
    number = scheduler.send(path, array=None if whole else f"{','.join(map(str, repeats))}%{batch.array_limit}")
    for point in points:
        replace_file(study.place(point) / slurm.JOB_ID, f"{number}_{point.repeat}\n".encode())
    return number


def _waiting(study: Study) -> set[Point]:
    """Return the points that wait in SLURM's queue or run."""
    numbers = {}
    for point in study.plan.points():
        with suppress(OSError):
            numbers[(study.place(point) / slurm.JOB_ID).read_text(errors="replace").strip()] = point
    known = scheduler.ask(numbers) or {} if numbers else {}
    return {point for number, point in numbers.items() if number in known and not known[number].over}


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"


def _hosts(batch: slurm.Batch) -> str:
    return f"{batch.nodes} host{'s' * (batch.nodes > 1)}"


def queue_words(study: Study) -> str:
    """Return what to do once the jobs are done."""
    place = shlex.quote(os.path.relpath(study.folder))
    return f"watch: mpi-opt status {place}; the table, also of a part: mpi-opt scale {place} --collect"
