"""A scaling test as its folder keeps it: the plan, the job of every point, and which points are done.

``scale.json`` in the test's folder holds the plan and the job; ``NAME-RANKS/NAME-RANKS-REPEAT/`` is an ordinary run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.build import graph_of
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import Job, load_job, to_toml
from mpi_opt.metrics.files import replace_file
from mpi_opt.scaling.points import Mode, Plan, Point, weak_rows
from mpi_opt.submitting import SWEEP

FILE = "scale.json"
FORMAT, VERSION = "mpi_opt scaling test", 1
JOB = "submitted.toml"
"""A point's job, in its folder, as `submit` calls it."""


@dataclass(frozen=True)
class Study:
    """A scaling test.

    Attributes
    ----------
    folder : Path
    job : Job
        Resolved, with every override but without what is a point's own.
    plan : Plan
    """

    folder: Path
    job: Job
    plan: Plan

    @cached_property
    def name(self) -> str:
        """What it is called."""
        return self.job.name

    def group(self, ranks: int) -> Path:
        """Return the folder of all runs on this many ranks."""
        return self.folder / f"{self.name}-{ranks}"

    def place(self, point: Point) -> Path:
        """Return a point's folder."""
        return self.group(point.ranks) / point.name(self.name)

    def job_of(self, point: Point) -> Job:
        """Return a point's job: the same but for its name and, in weak scaling, its rows."""
        rows = self.plan.rows_on(point.ranks)
        settings = [f'name="{point.name(self.name)}"', *([] if rows is None else [f"data.rows={rows}"])]
        return load_job(to_toml(self.job), settings)

    def write_job(self, point: Point) -> Path:
        """Write a point's job into its folder, which is made where there is none; return the file."""
        path = self.place(point) / JOB
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, to_toml(self.job_of(point)).encode())
        except OSError as error:
            raise JobError(f"cannot write to {path.parent}: {error.strerror or error}; give another --out") from None
        return path

    def save(self) -> None:
        """Write the plan into the test's folder, which is made where there is none; also what ``status`` looks for.

        Raises
        ------
        JobError
            It cannot be written.
        """
        plan = self.plan
        values = {
            "format": FORMAT,
            "version": VERSION,
            "mode": plan.mode,
            "ranks": list(plan.ranks),
            "repeats": plan.repeats,
            "rows_per_rank": plan.rows,
            "masters": plan.masters,
            "job": to_toml(self.job),
        }
        runs = [
            {"folder": str(self.place(point).relative_to(self.folder)), "set": [f"ranks={point.ranks}"]}
            for point in sorted(plan.points())
        ]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / FILE, (json.dumps(values, indent=1) + "\n").encode())
            replace_file(self.folder / SWEEP, (json.dumps({"runs": runs}, indent=1) + "\n").encode())
        except OSError as error:
            raise JobError(
                f"cannot make the folder {self.folder}: {error.strerror or error}; give another --out"
            ) from None


def make_study(
    path: Path,
    settings: Sequence[str],
    *,
    ranks: Sequence[int],
    mode: Mode,
    repeats: int,
    rows: int | None = None,
    out: Path | None = None,
) -> Study:
    """Return the scaling test of a job; one that the folder holds already is gone on with, or grows.

    Parameters
    ----------
    path : Path
        The job file.
    settings : sequence of str
        Overrides.
    ranks : sequence of int
        Ascending.
    mode : {"strong", "weak"}
    repeats : int
    rows : int, optional
        Weak: rows a node; by default as many as let the largest number of ranks use all.
    out : Path, optional
        By default ``runs/NAME-scale``, or ``runs/NAME-scale-weak``.

    Raises
    ------
    JobError, DataError
        The job is wrong, its graph does not fit a number of ranks, or the folder holds another test.
    """
    job = load_job(path, settings)
    if mode == "strong" and rows is not None:
        raise JobError("--rows-per-rank: has no meaning without --mode weak")
    if job.validation is not None:
        raise JobError("[validation]: a scaling test times one training; allowed: problem.l2 = NUMBER instead")
    masters = 1 if job.algorithm.master == "dedicated" else 0
    for count in ranks:
        _check_fits(job, count, masters)
    folder = Path("runs") / f"{job.name}-scale{'' if mode == 'strong' else '-weak'}" if out is None else out
    plan = Plan(mode=mode, ranks=tuple(ranks), repeats=repeats, rows=rows, masters=masters)
    study = Study(folder, job, plan)
    earlier = read_study(folder) if (folder / FILE).exists() else None
    if earlier is not None:
        return _grown(earlier, study)
    if folder.exists() and (not folder.is_dir() or (folder / "metrics").exists() or (folder / "job.toml").exists()):
        raise JobError(f"{folder} holds something else than a scaling test; give another --out")
    return study if mode == "strong" else replace(study, plan=replace(plan, rows=_rows(job, ranks, masters, rows)))


def read_study(folder: Path) -> Study:
    """Return the scaling test that a folder holds.

    Raises
    ------
    JobError
        It holds none.
    DataError
        Its file is damaged.
    """
    path = folder / FILE
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise JobError(
            f"{folder} holds no scaling test ({FILE}: {error.strerror}); allowed: a job file, or the folder that "
            "mpi-opt scale has made"
        ) from None
    except ValueError as error:
        raise DataError(f"{path}: damaged: {error}") from None
    try:
        return _from_values(folder, values)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: not what mpi-opt scale writes: {type(error).__name__}: {error}") from None


def _from_values(folder: Path, values: Mapping[str, Any]) -> Study:
    if (values["format"], values["version"]) != (FORMAT, VERSION) or values["mode"] not in get_args(Mode):
        raise ValueError(f"{values['format']!r}, version {values['version']!r}, mode {values['mode']!r}")
    rows = values["rows_per_rank"]
    plan = Plan(
        mode=values["mode"],
        ranks=tuple(int(count) for count in values["ranks"]),
        repeats=int(values["repeats"]),
        rows=None if rows is None else int(rows),
        masters=int(values["masters"]),
    )
    return Study(folder, load_job(str(values["job"])), plan)


def _grown(earlier: Study, asked: Study) -> Study:
    """Return the test that is there with what is asked for added to it, if it is of the same job."""
    had, wanted = earlier.plan, asked.plan
    if had.mode != wanted.mode or to_toml(earlier.job) != to_toml(asked.job):
        what = f"of mode {had.mode}" if had.mode != wanted.mode else "of another job or other settings"
        raise JobError(f"{earlier.folder} holds a scaling test {what}; give another --out")
    if wanted.rows not in (None, had.rows):
        raise JobError(
            f"--rows-per-rank {wanted.rows}: the test in {earlier.folder} has {had.rows}; allowed: that, or another "
            "--out"
        )
    ranks = tuple(sorted({*had.ranks, *wanted.ranks}))
    return replace(earlier, plan=replace(had, ranks=ranks, repeats=max(had.repeats, wanted.repeats)))


def _check_fits(job: Job, ranks: int, masters: int) -> None:
    if ranks <= masters:
        raise JobError(f"--ranks {ranks}: the job's master holds no rows; allowed: {masters + 1} ranks or more")
    if job.algorithm.name in EXCHANGES:
        try:
            graph_of(job, ranks)
        except JobError as error:
            raise JobError(f"--ranks {ranks}: {error}") from None


def _rows(job: Job, ranks: Sequence[int], masters: int, wanted: int | None) -> int:
    """Return the rows a node of weak scaling; the data are only read where the number is not given."""
    if wanted is not None:
        return wanted
    if job.data.rows is not None:
        return weak_rows(job.data.rows, ranks, masters)
    from mpi_opt.network.collectives import Solo
    from mpi_opt.shards import load_shards

    alone = job if not masters else load_job(to_toml(job), ['algorithm.master="working"'])
    return weak_rows(load_shards(alone, Solo(), 1, [0]).info.rows, ranks, masters)
