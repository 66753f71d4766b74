"""From the folders of a scaling test to its figures: points that are done, and why others are not."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpi_opt import slurm
from mpi_opt.comparing import Request, compare_courses
from mpi_opt.errors import DataError, JobError, MpiOptError
from mpi_opt.metrics import schema
from mpi_opt.report.columns import Record
from mpi_opt.report.course import Course
from mpi_opt.report.reading import read_course
from mpi_opt.report.samples import is_crowded, is_resumed, sample_of
from mpi_opt.report.scaling import Reached
from mpi_opt.scaletest.study import Study
from mpi_opt.scaling.merit import Sample
from mpi_opt.scaling.points import Point

ENDED = "point.json"
"""How a point's command ended, in its folder; written by the runner."""
_BUSY = 0.5
"""Processes of others a core, in the mean of a minute, above which a machine is called busy."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reached: see `mpi_opt.comparing.Request`."""

    value: float
    measure: str | None
    place: str
    reference: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the folders hold.

    Attributes
    ----------
    courses : tuple of (Point, Course)
        Of the runs that are done, in the plan's order.
    samples : tuple of Sample
        One for each of them, but for those whose figures do not suffice.
    crowded : frozenset of int
        Numbers of ranks that were more than the cores.
    failures, notes : tuple of str
    """

    courses: tuple[tuple[Point, Course], ...]
    samples: tuple[Sample, ...]
    crowded: frozenset[int]
    failures: tuple[str, ...]
    notes: tuple[str, ...]


def is_done(folder: Path) -> bool:
    """Return whether a point's run has ended well."""
    try:
        return read_course(folder).word == "done"
    except MpiOptError:
        return False


def collect(study: Study, skip: int | None = None) -> Found:
    """Read what there is of a scaling test; nothing that is missing or damaged is an error.

    Parameters
    ----------
    study : Study
    skip : int, optional
        Steps of warm-up left out; see `report.samples.sample_of`.
    """
    courses, samples, crowded, failures = [], [], set(), []
    cautions: dict[str, list[Point]] = {}
    for point in sorted(study.plan.points()):
        place = study.place(point)
        try:
            course = _done(place)
            sample, caution = sample_of(course, point, skip)
        except (DataError, JobError) as error:
            failures.append(f"{point}: {error}")
            continue
        courses.append((point, course))
        samples.append(sample)
        if caution:
            cautions.setdefault(caution, []).append(point)
        if is_crowded(place):
            crowded.add(point.ranks)
        if is_resumed(place):
            cautions.setdefault("a run was stopped and gone on with: its times are of several starts", []).append(point)
    notes = [f"{_listed(points)}: {caution}" for caution, points in cautions.items()]
    loads = [_noted(study.place(point)).get("load_before") for point, _ in courses]
    busiest = max((load for load in loads if isinstance(load, float)), default=0.0)
    if busiest > _BUSY:
        notes.append(
            f"the machine was at work before the test began: {busiest:.1f} processes a core wanted to run, so times "
            "hold the turns of others"
        )
    return Found(tuple(courses), tuple(samples), frozenset(crowded), tuple(failures), tuple(notes))


def _done(place: Path) -> Course:
    """Return the run of a point that is done.

    Raises
    ------
    JobError
        It is not: says how it is with it.
    """
    told = str(_noted(place).get("told", ""))
    try:
        course = read_course(place)
    except MpiOptError as error:
        if told or not place.exists():
            raise JobError(told or "not run") from None
        raise JobError(_unbegun(place, error)) from None
    if course.word == "done":
        return course
    state = "still running, or killed" if course.state == schema.RUNNING else course.state
    raise JobError("; ".join(filter(None, [told, state])))


def _unbegun(place: Path, error: MpiOptError) -> str:
    """Return how it is with a point that has no figures and whose runner noted nothing."""
    try:
        number = (place / slurm.JOB_ID).read_text(errors="replace").strip()
    except OSError:
        return "not run to its end" if isinstance(error, JobError) else str(error)
    return f"no figures of SLURM's job {number}: it waits, or see {place / f'slurm-{number}.out'}"


def _noted(place: Path) -> Mapping[str, Any]:
    """Return what the runner noted of a point's command; empty where there is nothing."""
    try:
        noted = json.loads((place / ENDED).read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _listed(points: Sequence[Point]) -> str:
    ranks = sorted({point.ranks for point in points})
    return f"{', '.join(map(str, ranks))} rank{'s' * (ranks != [1])}"


def reach(study: Study, found: Found, target: Target) -> tuple[str, tuple[Reached, ...]]:
    """Return in words what was to be reached, and what each number of ranks spent for it.

    In weak scaling every number of ranks has rows, and so a function and an optimum, of its own.

    Raises
    ------
    JobError, DataError
        As `mpi_opt.comparing.compare`; a measure that means something else on every number of ranks.
    """
    name = target.measure or "gap"
    weak = study.plan.mode == "weak"
    if weak and (name in ("objective", "gradient-norm") or (name == "gap" and target.reference != "compute")):
        what = f"--measure {name}" if name != "gap" else f"--reference {target.reference}"
        raise JobError(
            f"{what}: weak scaling minimises another function on every number of ranks; allowed: --measure error or "
            "accuracy, or gap with --reference compute"
        )
    ranks = study.plan.ranks
    groups = [[each for each in found.courses if each[0].ranks == count] for count in ranks]
    words, rows = "", []
    for members in groups if weak else [list(found.courses)]:
        if not members:
            continue
        courses = [course for _, course in members]
        asked = Request(
            runs=[course.path for course in courses],
            measure=target.measure,
            place=target.place,
            target=target.value,
            reference=target.reference,
        )
        answer = compare_courses(asked, courses)
        own = "\nF* is that of each number of ranks' own rows" if weak and name == "gap" else ""
        words = words or (answer.heading[0] + own if weak else "\n".join(answer.heading))
        rows += [(point, record) for (point, _), record in zip(members, answer.records, strict=True)]
    return words, tuple(_reached(count, [record for point, record in rows if point.ranks == count]) for count in ranks)


def _reached(ranks: int, records: Sequence[Record]) -> Reached:
    met = [record for record in records if record["reached"]]
    if not met:
        return Reached(ranks=ranks, runs=len(records), met=0)

    def all_of(name: str) -> list[float]:
        return [value for record in met if isinstance(value := record[name], int | float)]

    seconds = all_of("seconds")
    return Reached(
        ranks=ranks,
        runs=len(records),
        met=len(met),
        step=statistics.median(all_of("step")),
        round=statistics.median(all_of("round")),
        sent=statistics.median(all_of("sent_bytes")),
        seconds=statistics.median(seconds),
        least=min(seconds),
        most=max(seconds),
    )
