"""What each rank did when, as far as totals at evaluations tell."""

from typing import TYPE_CHECKING

import numpy as np

from mpi_opt.report.course import Course
from mpi_opt.report.figures.picture import Picture, words_instead
from mpi_opt.report.figures.style import INK, label, new_figure
from mpi_opt.report.phases import CLOCK, TURNS, merged, phases
from mpi_opt.types import Indices, Vector

if TYPE_CHECKING:
    from matplotlib.collections import PolyCollection

TITLE = "Phase timeline"
_LOOKS = {
    "compute": ("#0072b2", ""),
    "compress": ("#e69f00", ""),
    "communicate": ("#009e73", "////"),
    "wait": ("#d9d9d9", ""),
    "evaluate": ("#cc79a7", "...."),
    "write": (INK, ""),
    "other": ("none", ""),
}
_RANKS = 24
_INTERVALS = 24


def _boxes(left: Vector, right: Vector, row: Indices, phase: str) -> "PolyCollection":
    """Return the boxes of a phase, drawn as one: a run of many ranks has thousands."""
    from matplotlib.collections import PolyCollection

    colour, hatch = _LOOKS[phase]
    low, high = row - 0.39, row + 0.39
    corners = np.stack([np.stack([left, right, right, left], axis=1), np.stack([low, low, high, high], axis=1)], axis=2)
    return PolyCollection(
        list(corners),
        facecolor=colour,
        hatch=hatch,
        edgecolor="white" if hatch else INK,
        linewidth=0.35 if phase == "other" else 0.0,
        label=phase,
    )


def timeline(course: Course, name: str) -> Picture:
    """Return the picture of every rank's time, from evaluation to evaluation."""
    found = phases(course)
    if not found.seconds.sum() > 0:
        return words_instead(name, TITLE, "No time was recorded between the evaluations on disk.")
    n = course.nodes
    ranks = np.arange(n) if n <= _RANKS else np.unique(np.linspace(0, n - 1, _RANKS).round().astype(int))
    spent, starts = merged(found.seconds[:, ranks], _INTERVALS)
    ends = np.cumsum(spent.sum(axis=0), axis=1)
    begins = ends - spent.sum(axis=0)
    figure, (axes,) = new_figure(width=10.2, height=1.5 + 0.19 * len(ranks))
    offset = begins.copy()
    for phase, seconds in zip(found.names, spent, strict=True):
        row, interval = np.nonzero(seconds)
        left = offset[row, interval]
        offset = offset + seconds
        if row.size:
            axes.add_collection(_boxes(left, offset[row, interval], row, phase))
    row, interval = np.nonzero(spent.sum(axis=0))
    axes.vlines(ends[row, interval], row - 0.46, row + 0.46, color=INK, linewidth=0.5)
    axes.set_ylim(len(ranks) - 0.4, -0.6)
    axes.set_xlim(0, float(ends.max()) * 1.01)
    step = max(1, len(ranks) // 12) if n <= _RANKS else 1
    axes.set_yticks(range(0, len(ranks), step), [str(rank) for rank in ranks[::step]])
    axes.grid(visible=False)
    label(axes, x=found.unit[0].upper() + found.unit[1:], y="Rank" if not course.lockstep else "Node")
    figure.legend(loc="outside upper left", ncols=7, fontsize=8, frameon=False, labelcolor=INK, handlelength=1.6)
    parts = ["From line to line, one interval between evaluations: how much of it each phase took, not in which order."]
    if len(starts) < course.rows:
        parts.append(f"Intervals are joined: {len(starts)} of {course.rows}.")
    if len(ranks) < n:
        parts.append(f"{len(ranks)} of {n} nodes are shown.")
    if found.kind == TURNS:
        parts.append("The nodes took turns in one process: only their own work is timed.")
    if found.kind == CLOCK:
        parts.append("Simulated: evaluating and writing take no time.")
    shares = found.seconds.sum(axis=(1, 2)) / found.seconds.sum()
    told = ", ".join(f"{phase} {share:.0%}" for phase, share in zip(found.names, shares, strict=True))
    return Picture(
        name=name,
        title=TITLE,
        figure=figure,
        alt=f"Bars of each node's time by phase. Over all nodes: {told}.",
        caption=" ".join(parts),
    )
