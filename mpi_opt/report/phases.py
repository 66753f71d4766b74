"""Where the time of a run went: seconds of each phase, node and interval between evaluations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.report.course import Course

PHASES = ("compute", "compress", "communicate", "wait", "evaluate", "write")
"""What is timed; ``<phase>_seconds`` are the series."""
OTHER = "other"
"""What is left of the time that passed: the run's own bookkeeping."""

_ROUNDING = 1e-9
"""Of the time that passed: what is left of it by rounding alone is nothing."""

TURNS, CLOCK, WALL = "turns", "clock", "wall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """The time of a run.

    Attributes
    ----------
    kind : {"wall", "turns", "clock"}
        Seconds of the machines' clocks, those of each virtual node's own work (nodes take turns in one process, so that
        no clock tells them apart), or simulated.
    names : tuple of str
        The phases.
    seconds : ndarray, shape (phases, nodes, rows)
        Spent from the evaluation before to the evaluation r; of row 0, from the start.
    """

    kind: str
    names: tuple[str, ...]
    seconds: npt.NDArray[np.float64]

    @property
    def unit(self) -> str:
        """What the seconds are, in words."""
        return {
            WALL: "seconds since the start",
            TURNS: "seconds of the node's own work",
            CLOCK: "simulated seconds since the start",
        }[self.kind]


def phases(course: Course) -> Phases:
    """Return the time of a run, as far as it was recorded."""
    kind = CLOCK if course.clock else TURNS if course.lockstep else WALL
    names = PHASES if kind == WALL else PHASES[:4]
    spent = [_steps(course.own[f"{name}_seconds"]) for name in names]
    if kind != TURNS:
        passed = _steps(course.own["wall_seconds" if kind == WALL else "seconds"])
        rest = passed - np.sum(spent, axis=0)
        spent.append(np.where(rest > _ROUNDING * passed, rest, 0.0))
        names = (*names, OTHER)
    return Phases(kind=kind, names=names, seconds=np.array(spent))


def _steps(totals: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return what was added from row to row; nothing where a total is not known."""
    return np.asarray(np.maximum(np.nan_to_num(np.diff(totals, axis=1, prepend=0.0)), 0.0), dtype=np.float64)


def phase_rows(found: Phases) -> list[tuple[str, float, float, float, float]]:
    """Return of each phase: name, least, mean and most seconds over the nodes, and the mean's share of all time."""
    totals = found.seconds.sum(axis=2)
    everything = float(totals.sum()) or 1.0
    return [
        (name, float(row.min()), float(row.mean()), float(row.max()), float(row.sum()) / everything)
        for name, row in zip(found.names, totals, strict=True)
    ]


def merged(values: npt.NDArray[np.float64], most: int) -> tuple[npt.NDArray[np.float64], Sequence[int]]:
    """Return intervals joined until there are at most ``most``, and where each begins; sums along the last axis."""
    rows = values.shape[-1]
    starts = [rows * k // min(rows, most) for k in range(min(rows, most))]
    return np.add.reduceat(values, starts, axis=-1), starts
