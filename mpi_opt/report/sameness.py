"""Whether runs can be compared at all, and in what they are not alike: said in words, never passed over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from mpi_opt import jobtext
from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import METHODS, Job
from mpi_opt.report.columns import Record
from mpi_opt.report.comparison import Question, sync_every
from mpi_opt.report.course import Course

_SPLIT = ("data.partition", "data.folder", "data.test")
"""Of ``[data]``: how rows are dealt, where names start from, and what is not trained on. The rest makes F."""

_DRAWN_ALIKE = 1e-9
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
    job = _job(course)
    keys = {
        key: value
        for key, value in flat(job).items()
        if key.startswith(("data.", "prepare.", "problem.")) and key not in _SPLIT
    }
    keys["problem.l2"] = course.l2 if job.validation is not None else job.problem.l2
    if job.data.holdout is not None:
        keys["seed (draws the rows that data.holdout takes away)"] = job.seed
    return keys


def check_problems(courses: Sequence[Course], question: Question) -> list[str]:
    """Refuse to compare objectives of different functions; return what is to be noted instead.

    Which files hold the rows may be said differently if the gradient at w = 0 is the same.

    Raises
    ------
    JobError
        Names the runs and the keys in which they differ.
    """
    notes: list[str] = []
    first = courses[0]
    theirs = problem_keys(first)
    for course in courses[1:]:
        ours = problem_keys(course)
        differing = sorted(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
        drawn = [key for key in differing if key.startswith("seed")]
        named = [key for key in differing if key.startswith("data.")]
        others = [key for key in differing if key not in drawn and key not in named]
        told = "; ".join(f"{key} is {_show(theirs.get(key))} and {_show(ours.get(key))}" for key in differing)
        pair = f"{first.label} and {course.label}"
        alike = None if others or drawn else _same_gradient(first, course)
        if question.measure.of_objective:
            if alike is False:
                told = told or "|grad F(0)| is not the same, so neither are the rows"
                raise JobError(f"{pair} do not minimise the same function: {told}; their objectives do not compare")
            each_its_own = question.measure.name == "gap" and len(set(question.measure.optima.values())) > 1
            if others or (drawn and not each_its_own) or (named and not alike):
                raise JobError(
                    f"{pair} do not minimise the same function: {told}. Their objectives do not compare; "
                    "--measure error or accuracy may"
                )
        elif named and not alike:
            raise JobError(f"{pair} are not on the same data: {told}; they do not compare")
        elif alike is False and not differing:
            raise JobError(f"{pair} are not on the same data: |grad F(0)| is not the same; they do not compare")
        if differing:
            notes.append(f"{pair} do not state the same problem: {told}")
    return notes


def _same_gradient(one: Course, other: Course) -> bool | None:
    """Return whether |grad F| is the same at the common start w = 0; ``None`` where that is not known."""
    norms = []
    for course in (one, other):
        if not course.rows or course.shared["step"][0] != 0 or not np.isfinite(course.shared["gradient_norm"][0]):
            return None
        norms.append(float(course.shared["gradient_norm"][0]))
    return bool(abs(norms[0] - norms[1]) <= _DRAWN_ALIKE * max(norms))


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


class _Fact(NamedTuple):
    """Something that should be alike: what it is called, how it is read (``None``: has no meaning), what it spoils."""

    what: str
    of: Callable[[Course, Job], Any]
    so: str


def _value_bits(_course: Course, job: Job) -> int:
    table = job.algorithm.compressor
    if job.algorithm.name not in EXCHANGES:
        return 64  # sums and averages travel as float64
    return int(getattr(table, "value_bits", None) or getattr(table, "inner").value_bits)  # noqa: B009


def _of_sgd(key: str) -> Callable[[Course, Job], Any]:
    def read(_course: Course, job: Job) -> Any:
        if job.algorithm.step_size is None:
            return None
        return jobtext.without_none(msgspec.to_builtins(getattr(job.algorithm, key)))

    return read


def _of_graph(key: str) -> Callable[[Course, Job], Any]:
    return lambda _course, job: getattr(job.graph, key) if job.algorithm.name in EXCHANGES else None


_FACTS = (
    _Fact("H (algorithm.sync_every)", lambda _, job: sync_every(job), "rounds and bytes differ for that alone"),
    _Fact("the width of values (bits)", _value_bits, "bytes differ for that alone"),
    _Fact("algorithm.batch", _of_sgd("batch"), ""),
    _Fact("algorithm.step_size", _of_sgd("step_size"), ""),
    _Fact("algorithm.momentum", _of_sgd("momentum"), ""),
    _Fact("algorithm.output", _of_sgd("output"), "the averaged model is not the same thing"),
    _Fact("seed", lambda _, job: job.seed, "other batches were drawn"),
    _Fact("the number of nodes", lambda course, _: course.nodes, "bytes are sums over them"),
    _Fact("data.partition", lambda _, job: jobtext.without_none(msgspec.to_builtins(job.data.partition)), ""),
    _Fact("graph.name", _of_graph("name"), ""),
    _Fact("graph.weights", _of_graph("weights"), ""),
    _Fact("metrics.nodes", lambda _, job: job.metrics.nodes, "mean and worst are of that many nodes"),
    _Fact("algorithm.master", lambda _, job: job.algorithm.master, ""),
    _Fact(
        "the way nodes talk", lambda course, _: course.attributes["mpi_library"].split(",")[0], "seconds do not compare"
    ),
    _Fact("the number of hosts", lambda course, _: len(set(course.hosts)), "seconds do not compare"),
    _Fact(
        "the version of mpi_opt", lambda course, _: course.attributes["version_mpi_opt"], "its wire format may differ"
    ),
)


def fairness(courses: Sequence[Course], *, across_seeds: bool = False) -> list[str]:
    """Return in words what should be alike between the runs of a comparison and is not.

    Parameters
    ----------
    courses : sequence of Course
    across_seeds : bool, optional
        Seeds are grouped, so that their difference is meant.
    """
    notes = []
    for fact in _FACTS:
        if across_seeds and fact.what == "seed":
            continue
        found: dict[str, list[str]] = {}
        for course in courses:
            value = fact.of(course, _job(course))
            if value is not None:
                found.setdefault(_show(value), []).append(course.label)
        if len(found) > 1:
            notes.append(f"{fact.what} differs: {_listed(found)}" + (f"; {fact.so}" if fact.so else ""))
    notes += _of_rows(courses)
    notes += _of_clocks(courses)
    return notes + [note for course in courses for note in _of_one(course)]


def _of_rows(courses: Sequence[Course]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for course in courses:
        # the start and the end are evaluated whatever the spacing
        gaps = np.diff(course.shared["step"][:-1] if course.rows > 2 else course.shared["step"])
        every = f"every {np.median(gaps):.0f} steps" if gaps.size else "once"
        found.setdefault(every, []).append(course.label)
    if len(found) > 1:
        yield f"evaluations are not at the same steps: {_listed(found)}; a target is seen up to that much late"


def _of_clocks(courses: Sequence[Course]) -> Iterator[str]:
    virtual = [course.label for course in courses if course.lockstep]
    if virtual:
        yield f"simulated in one process, seconds are of nodes taken in turn, not of a network: {', '.join(virtual)}"


def _of_one(course: Course) -> Iterator[str]:
    if course.state.startswith("done"):
        pass
    elif course.word == "running or killed":
        yield f"{course.label} goes on or was killed: its rows end at step {int(course.shared['step'][-1])}"
    else:
        yield f"{course.label} {course.state}"
    for lost in course.lost:
        yield (
            f"{course.label} lost node {lost.node} at step {lost.step}: from there on F is over the rows that are left "
            "and has no gap to the optimum of all"
        )
    if course.cut:
        yield f"{course.label}: {course.cut}"


def below_reference(records: Sequence[Record]) -> list[str]:
    """Return a note for every run that is below what was to be the optimum."""
    return [
        f"{record['run']} comes to {-record['best']:.3g} below the reference, which therefore is no optimum"
        for record in records
        if record["measure"] == "gap"
        and isinstance(record["best"], float)
        and isinstance(record["reference"], float)
        and record["best"] < -1e-12 * max(1.0, abs(record["reference"]))
    ]


def _listed(found: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{value} ({', '.join(labels)})" for value, labels in found.items())


def _show(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, Mapping):
        name = value.get("name", value.get("schedule", ""))
        rest = [f"{key} = {_show(part)}" for key, part in value.items() if key not in ("name", "schedule")]
        return " ".join(filter(None, [str(name), f"({', '.join(rest)})" if rest else ""]))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _job(course: Course) -> Job:
    if course.job is None:
        raise DataError(f"{course.path}: its job cannot be read, so it cannot be compared: {course.trouble}")
    return course.job
