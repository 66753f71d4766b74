"""What the lines of a figure are made of: a run, or runs that differ by seed alone, as median, least and most."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.report.course import Course
from mpi_opt.report.figures.style import Mark, mark
from mpi_opt.report.measures import Measure
from mpi_opt.types import Vector

_LONG = 44


class Spread(NamedTuple):
    """A series of a strand, each of shape (rows,): in a strand of one run all three are its own."""

    middle: Vector
    least: Vector
    most: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """Runs that are one line.

    Attributes
    ----------
    label : str
        In legends.
    courses : tuple of Course
        The runs, which differ by seed alone.
    look : Mark
    rows : tuple of ndarray
        Of each run, the evaluations that all of them have.
    """

    label: str
    courses: tuple[Course, ...]
    look: Mark
    rows: tuple[npt.NDArray[np.intp], ...]

    def series(self, of: Callable[[Course], npt.NDArray[Any]]) -> Spread:
        """Return the spread over the runs of what ``of`` returns for each, shape (rows of the run,)."""
        table = np.array(
            [np.asarray(of(each), dtype=np.float64)[rows] for each, rows in zip(self.courses, self.rows, strict=True)]
        )
        with np.errstate(invalid="ignore"):  # infinities of runs that diverged
            return Spread(np.median(table, axis=0), table.min(axis=0), table.max(axis=0))


def strands(courses: Sequence[Course], groups: Sequence[Sequence[int]]) -> list[Strand]:
    """Return one strand for each group of runs, in the order of their first runs."""
    made = []
    for index, group in enumerate(groups):
        members = tuple(courses[k] for k in group)
        common = reduce(np.intersect1d, [each.shared["step"] for each in members])
        seeds = f" ({len(members)} seeds)" if len(members) > 1 else ""
        made.append(
            Strand(
                label=short(members[0].label) + seeds,
                courses=members,
                look=mark(index),
                rows=tuple(np.flatnonzero(np.isin(each.shared["step"], common)) for each in members),
            )
        )
    return made


def short(label: str) -> str:
    """Return a label that fits into a legend: a long one loses its middle."""
    if len(label) <= _LONG:
        return label
    keep = _LONG // 2 - 1
    return f"{label[:keep]}…{label[-keep:]}"


def finite(values: npt.NDArray[Any]) -> Vector:
    """Return values with NaN where they are infinite: a line ends there."""
    return np.where(np.isfinite(values), values, math.nan).astype(np.float64)


def measured(measure: Measure, place: str) -> Callable[[Course], Vector]:
    """Return what reads ``measure`` off a run."""
    return lambda course: measure.values(course, place)


def unshown(strand: Strand, measure: Measure, place: str, *, logarithmic: bool) -> str:
    """Return in words what of a strand has no place on its axis; empty where all has.

    Parameters
    ----------
    strand : Strand
    measure : Measure
    place : {"average", "mean", "worst"}
    logarithmic : bool
        Whether the axis is.
    """
    values = np.concatenate(
        [measure.values(c, place)[rows] for c, rows in zip(strand.courses, strand.rows, strict=True)]
    )
    told = []
    low = int(np.count_nonzero(np.isfinite(values) & (values <= 0)))
    off = int(np.count_nonzero(np.isinf(values)))
    unknown = int(np.count_nonzero(np.isnan(values)))
    if low and logarithmic:
        below = "at or below the reference" if measure.name == "gap" else "at or below 0"
        told.append(f"{low} of {values.size} {below}")
    if off:
        told.append(f"{off} of {values.size} infinite")
    if unknown and unknown < values.size:
        told.append(f"{unknown} of {values.size} not known")
    return f"{strand.label}: {', '.join(told)}" if told else ""
