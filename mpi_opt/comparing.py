"""``mpi-opt compare``: runs read, held against a reference and each other, with what is not alike said."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpi_opt.errors import DataError, JobError
from mpi_opt.optimum import find_optimum
from mpi_opt.report.comparison import Comparison, Question, choose_baseline, records
from mpi_opt.report.course import Course
from mpi_opt.report.fairness import below_reference, closing_average, fairness
from mpi_opt.report.grouping import grouped
from mpi_opt.report.measures import IN_WORDS, Measure
from mpi_opt.report.reading import read_course
from mpi_opt.report.sameness import check_problems, problem_keys, same_but_seed

COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for on the command line.

    Attributes
    ----------
    runs : sequence of Path
    measure : str or None
        ``None``: the gap with a target, else the objective.
    place : {"average", "mean", "worst"}
    target : float or None
    reference : str
        ``"compute"``, a number, or the folder of a run whose least objective is taken.
    baseline : str or None
        Which run ratios are against; the first by default.
    interpolate : bool
    group_seeds : bool
    """

    runs: Sequence[Path]
    measure: str | None = None
    place: str = "average"
    target: float | None = None
    reference: str = COMPUTE
    baseline: str | None = None
    interpolate: bool = False
    group_seeds: bool = False


def read_runs(paths: Sequence[Path]) -> list[Course]:
    """Return the runs, called by their folders' names or, where two are alike, by their paths.

    Raises
    ------
    JobError
        There is no run.
    DataError
        Metrics are missing or damaged, or there is no evaluation yet.
    """
    return [_read(path, label) for path, label in zip(paths, _labels(paths), strict=True)]


def compare(request: Request) -> Comparison:
    """Return the comparison of runs.

    Raises
    ------
    JobError
        There is no run, the runs do not compare, or the target, place, reference or baseline has no meaning.
    DataError
        Metrics are missing or damaged, or no optimum can be found.
    """
    _check(request)
    return compare_courses(request, read_runs(request.runs))


def _check(request: Request) -> Measure:
    """Return the measure asked for, without its optima."""
    measure = Measure(request.measure or ("objective" if request.target is None else "gap"), {})
    measure.check_place(request.place)
    if request.target is not None:
        measure.check_target(request.target)
    return measure


def compare_courses(request: Request, courses: Sequence[Course]) -> Comparison:
    """Return the comparison of runs that have been read: those of ``request.runs``.

    Raises
    ------
    JobError
        There is no run, the runs do not compare, or the target, place, reference or baseline has no meaning.
    DataError
        Metrics are missing or damaged, or no optimum can be found.
    """
    measure = _check(request)
    name = measure.name
    baseline = choose_baseline(courses, request.baseline)
    notes = check_problems(courses, measure, own_optima=name == "gap" and request.reference == COMPUTE)
    how = ""
    if name == "gap":
        optima, how = _optima(courses, request.reference)
        measure = Measure(name, optima)
    question = Question(measure=measure, place=request.place, target=request.target, interpolate=request.interpolate)
    found = records(courses, question, baseline)
    notes += fairness(courses, across_seeds=request.group_seeds)
    notes += closing_average(courses, found)
    notes += below_reference(found)
    answer = Comparison(
        question=question,
        records=tuple(found),
        heading=_heading(question, how, courses),
        notes=tuple(dict.fromkeys(notes)),
    )
    return grouped(answer, courses, baseline, same_but_seed) if request.group_seeds else answer


def _read(path: Path, label: str | None = None) -> Course:
    course = read_course(path, label)
    if not course.rows:
        raise DataError(f"{path}: no evaluation on disk yet: the run has just begun, or was killed before one")
    return course


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the folders' names, or where two are called alike, their paths."""
    names = [path.stem if path.is_file() else path.absolute().name for path in paths]
    twice = len(set(names)) < len(names)
    return [os.path.normpath(path) for path in paths] if twice else names


def _heading(question: Question, how: str, courses: Sequence[Course]) -> tuple[str, ...]:
    measure, target = question.measure, question.target
    where = IN_WORDS[question.place]
    if target is None:
        asked = f"{measure.name} at the last evaluation, at {where}"
    else:
        sign = ">=" if measure.name == "accuracy" else "<="
        asked = f"{measure.name} {sign} {target:g} at {where}"
        asked += (
            ", between evaluations estimated" if question.interpolate else ", at the first evaluation that meets it"
        )
    clocks = {course.clock for course in courses}
    seconds = f"seconds are {clocks.pop()}" if len(clocks) == 1 and "" not in clocks else ""
    return tuple(filter(None, (asked, how, seconds)))


def _optima(courses: Sequence[Course], reference: str) -> tuple[Mapping[object, float], str]:
    """Return F* of each run, and in words how it was found."""
    if reference == COMPUTE:
        return _computed(courses)
    try:
        value = float(reference)
    except ValueError:
        return _of_run(courses, Path(reference))
    if not np.isfinite(value):
        raise JobError(f"--reference {reference}: allowed: a finite number, the folder of a run, or {COMPUTE}")
    return {course.path: value for course in courses}, f"F* = {value:.15g}, as given"


def _of_run(courses: Sequence[Course], path: Path) -> tuple[Mapping[object, float], str]:
    """Take the least objective that a run came to, anywhere."""
    try:
        other = _read(path)
    except JobError:
        raise JobError(
            f"--reference {path}: neither a number nor a run; allowed: a number, the folder of a run, or {COMPUTE}"
        ) from None
    check_problems([other, *courses], Measure("objective", {}))
    seen = [other.shared["objective_average"], other.own["objective_local"].ravel()]
    finite = np.concatenate(seen)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        raise JobError(f"--reference {path}: the run has no objective on disk; allowed: a run that has, or {COMPUTE}")
    value = float(finite.min())
    words = (
        f"F* = {value:.12g}, the least objective of {other.label}: the optimum is at most that, gaps are at least these"
    )
    return {course.path: value for course in courses}, words


def _computed(courses: Sequence[Course]) -> tuple[Mapping[object, float], str]:
    """Find the optimum of every function that is minimised."""
    problems: list[tuple[Mapping[str, object], list[Course]]] = []
    for course in courses:
        own = problem_keys(course)
        same = next((members for known, members in problems if known == own), None)
        if same is None:
            problems.append((own, [course]))
        else:
            same.append(course)
    optima: dict[object, float] = {}
    words = []
    for keys, members in problems:
        job = members[0].job
        assert job is not None  # problem_keys has read it
        l2 = members[0].l2 if job.validation is not None else None
        found = find_optimum(job, l2, keys, [course.path for course in members if course.path.is_dir()])
        optima |= {course.path: found.value for course in members}
        of = "" if len(problems) == 1 else f" for {', '.join(course.label for course in members)}"
        words.append(f"F* = {found.value:.12f}{of}, {found.words()}")
    return optima, "; ".join(words)
