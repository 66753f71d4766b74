"""Whether runs can be compared at all: whether they minimise the same function."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from mpi_opt import jobtext
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import METHODS, Job
from mpi_opt.report.course import Course
from mpi_opt.report.measures import Measure

_SPLIT = ("data.partition", "data.folder", "data.test")
"""Of ``[data]``: how rows are dealt, where names start from, and what is not trained on. The rest makes F."""

_FILES = frozenset(
    f"data.{key}" for key in ("train", "features", "index_base", "nan", "label", "weight", "labels", "weights")
)
"""Keys that say where rows are read from and how; other words may mean the same rows."""

_DRAWN = {
    "holdout": "seed (draws the rows that data.holdout takes away)",
    "rows": "seed (draws the rows that data.rows takes)",
}

_SUMMED_ALIKE = 1e-9
"""Relative difference of |grad F(0)| that orders of summation leave at most; other rows leave more."""


def flat(job: Job) -> dict[str, Any]:
    """Return the job's keys with their dotted names; keys that the method does not take are left out."""
    raw = jobtext.without_none(msgspec.to_builtins(job))
    keys = METHODS[job.algorithm.name].keys
    raw["algorithm"] = {key: value for key, value in raw["algorithm"].items() if key in keys}
    return {
        f"{table}.{key}" if isinstance(entries, Mapping) else table: value
        for table, entries in raw.items()
        for key, value in (entries.items() if isinstance(entries, Mapping) else [("", entries)])
    }


def problem_keys(course: Course) -> dict[str, Any]:
    """Return what the function F that a run minimises follows from.

    Raises
    ------
    DataError
        The run's job cannot be read.
    """
    job = job_of(course)
    keys = {
        key: value
        for key, value in flat(job).items()
        if key.startswith(("data.", "prepare.", "problem.")) and key not in _SPLIT
    }
    keys["problem.l2"] = course.l2 if job.validation is not None else job.problem.l2
    for key, drawn in _DRAWN.items():
        if getattr(job.data, key) is not None:
            keys[drawn] = job.seed
    return keys


def check_problems(courses: Sequence[Course], measure: Measure, *, own_optima: bool = False) -> list[str]:
    """Refuse to compare what does not compare; return what is to be noted instead.

    Objectives, gaps and gradients compare where the same function is minimised, errors and accuracies where training
    and test rows are the same. Which files hold the rows may be said in other words if the gradient at w = 0 is the
    same, for that tells the rows.

    Parameters
    ----------
    courses : sequence of Course
        Held against the first of them.
    measure : Measure
    own_optima : bool, optional
        Every gap is to the optimum of its own rows, so that these may have been drawn by another seed.

    Raises
    ------
    JobError
        Names the runs and the keys in which they differ.
    """
    notes: list[str] = []
    first = courses[0]
    theirs = problem_keys(first) | _test(first, measure)
    for course in courses[1:]:
        ours = problem_keys(course) | _test(course, measure)
        differing = sorted(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
        drawn = [key for key in differing if key in _DRAWN.values()]
        files = [key for key in differing if key in _FILES]
        others = [key for key in differing if key not in drawn and key not in files]
        told = "; ".join(f"{key} is {show(theirs.get(key))} and {show(ours.get(key))}" for key in differing)
        pair = f"{first.label} and {course.label}"
        alike = None if others or drawn else _same_gradient(first, course)
        if alike is False:
            told = "; ".join(filter(None, [told, "the gradient at w = 0 is not the same, so the rows are not"]))
        same_rows = alike is not False and not (files and not alike)
        if measure.of_objective:
            if others or not same_rows or (drawn and not own_optima):
                raise JobError(
                    f"{pair} do not minimise the same function, so their objectives do not compare: {told}. "
                    "--measure error or accuracy may compare"
                )
        elif not same_rows or any(key.startswith("data.") and key != "data.intercept" for key in others):
            raise JobError(f"{pair} are not on the same data, so they do not compare: {told}")
        if differing:
            notes.append(f"{pair} do not state the same problem: {told}")
    return notes


def _test(course: Course, measure: Measure) -> dict[str, Any]:
    return {} if measure.of_objective else {"data.test": job_of(course).data.test}


def _same_gradient(one: Course, other: Course) -> bool | None:
    """Return whether |grad F| is the same at the common start w = 0; ``None`` where that is not known.

    Modules start elsewhere for each seed, and the gradient of one that draws or normalises as it trains is not F's.
    """
    norms = []
    for course in (one, other):
        if job_of(course).problem.module is not None:
            return None
        if not course.rows or course.shared["step"][0] != 0 or not np.isfinite(course.shared["gradient_norm"][0]):
            return None
        norms.append(float(course.shared["gradient_norm"][0]))
    return bool(abs(norms[0] - norms[1]) <= _SUMMED_ALIKE * max(norms))


def same_but_seed(one: Course, other: Course, loosely: bool = False) -> bool:
    """Return whether two runs are of one job but for its name and seed, on as many nodes.

    ``loosely`` allows other consensus rates: a resolved job does not tell one that "auto" found from one that was set.
    """
    if one.job is None or other.job is None:
        return False
    if (one.nodes, one.lockstep, one.hosts) != (other.nodes, other.lockstep, other.hosts):
        return False
    apart = {"name", "seed", "data.folder"} | ({"algorithm.consensus_rate"} if loosely else set())
    ours, theirs = (
        {key: value for key, value in flat(job).items() if key not in apart} for job in (one.job, other.job)
    )
    return ours == theirs


def show(value: Any) -> str:
    """Return a job's value in words."""
    if value is None:
        return "not given"
    if isinstance(value, Mapping):
        name = value.get("name", value.get("schedule", ""))
        rest = [f"{key} = {show(part)}" for key, part in value.items() if key not in ("name", "schedule")]
        return " ".join(filter(None, [str(name), f"({', '.join(rest)})" if rest else ""]))
    return f"{value:g}" if isinstance(value, float) else str(value)


def job_of(course: Course) -> Job:
    """Return the run's job.

    Raises
    ------
    DataError
        It cannot be read.
    """
    if course.job is None:
        raise DataError(f"{course.path}: its job cannot be read, so it cannot be compared: {course.trouble}")
    return course.job
