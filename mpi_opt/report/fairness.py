"""In what the runs of a comparison are not alike, said in words under its tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from mpi_opt import jobtext
from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.job import METHODS, Job
from mpi_opt.report.columns import Record
from mpi_opt.report.comparison import sync_every
from mpi_opt.report.course import Course
from mpi_opt.report.measures import PLACES
from mpi_opt.report.sameness import job_of, show


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
            value = fact.of(course, job_of(course))
            if value is not None:
                found.setdefault(show(value), []).append(course.label)
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
    virtual = [course.label for course in courses if course.lockstep and not course.clock]
    if virtual:
        yield f"simulated in one process, seconds are of nodes taken in turn, not of a network: {', '.join(virtual)}"
    found: dict[str, list[str]] = {}
    for course in courses:
        found.setdefault(course.clock, []).append(course.label)
    measured = found.pop("", [])
    if not found or (len(found) == 1 and not measured):
        return  # all by one clock, as the heading says
    for clock, labels in found.items():
        yield f"seconds of {', '.join(labels)} are {clock}"
    others = f"those of {', '.join(measured)} are measured" if measured else "by clocks that are not alike"
    yield f"seconds do not compare: some are simulated, {others}"


def _of_one(course: Course) -> Iterator[str]:
    if course.state.startswith("done"):
        pass
    elif course.word == "running or killed":
        yield f"{course.label} goes on or was killed: its rows end at step {int(course.shared['step'][-1])}"
    else:
        yield f"{course.label} {course.state}"
    asked = job_of(course).metrics.nodes
    if asked != "all" and asked < course.nodes:
        yield (
            f"{course.label}: mean and worst are of {asked} of its {course.nodes} nodes, drawn anew at each evaluation "
            "(metrics.nodes)"
        )
    for lost in course.lost:
        yield (
            f"{course.label} lost node {lost.node} at step {lost.step}: from there on F is over the rows that are left "
            "and has no gap to the optimum of all"
        )
    if course.cut:
        yield f"{course.label}: {course.cut}"


def closing_average(courses: Sequence[Course], records: Sequence[Record]) -> list[str]:
    """Return a note on runs whose target was met at the last evaluation, which is after the average that is put out."""
    found = []
    for course, record in zip(courses, records, strict=True):
        job = job_of(course)
        puts_out = "output" in METHODS[job.algorithm.name].keys and job.algorithm.output != "local"
        met = [record[f"sent_bytes_to_{place}"] for place in PLACES]
        if puts_out and course.word == "done" and record["target"] is not None and record["last_sent_bytes"] in met:
            found.append(course.label)
    if not found:
        return []
    return [f"met at the last evaluation, bytes include the closing average of all models: {', '.join(found)}"]


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
