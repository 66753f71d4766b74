"""Figures of LocalNewton's comparison: the gap against simulated seconds, a file a set, the splits side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mpi_opt.errors import JobError
from mpi_opt.report.figures.style import label, legend, line, log_axis, mark, new_figure, save
from mpi_opt.studies.kept import Course, Kept
from mpi_opt.studies.methods import ADAPTIVE, EXACT, FINISHES, PLAIN, RIVALS
from mpi_opt.types import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (PLAIN[-1], ADAPTIVE, FINISHES[-1], *RIVALS, EXACT)
_FLOOR = 1e-7
"""Gaps below are drawn there: the last point of a method is below the smallest target by chance."""


def draw(found: Sequence[Kept], network: str, folder: Path) -> list[Path]:
    """Write one SVG a set into ``folder``, and return the files.

    Parameters
    ----------
    found : sequence of Kept
    network : str
        The first network's name, for the axis.
    folder : Path
        Made where it is not there.

    Raises
    ------
    JobError
        Matplotlib is not installed, or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(f"{folder}: {error.strerror}") from None
    made = []
    for name in dict.fromkeys(kept.setting.name for kept in found):
        figure = picture([kept for kept in found if kept.setting.name == name], network)
        made += save(figure, folder, f"compare-newton-{name}", ["svg"])
    return made


def picture(found: Sequence[Kept], network: str) -> "Figure":
    """Return the figure of one set: a panel a split, a line a method.

    Raises
    ------
    JobError
        Matplotlib is not installed.
    """
    figure, axes = new_figure(width=4.6 * len(found), height=3.9, columns=len(found))
    for each, kept in zip(axes, found, strict=True):
        shown = {method: kept.courses[method.name] for method in SHOWN if method.name in kept.courses}
        ways = {method: gaps(kept, course) for method, course in shown.items()}
        for index, method in enumerate(SHOWN):
            if method in ways:
                line(each, *ways[method], mark(index), method.name)
        for which, axis in enumerate(("x", "y")):
            log_axis(each, axis, np.concatenate([way[which] for way in ways.values()]))
        split = f"{kept.setting.name}, {kept.setting.nodes} nodes, {kept.setting.split}"
        label(each, x=f"simulated seconds, network {network}", y="F - F*", title=split)
    legend(figure, axes[0])
    return figure


def gaps(kept: Kept, course: Course) -> tuple[Vector, Vector]:
    """Return seconds on the first network and F - F* after them; the start, at no time, is left out."""
    points = [point for point in course.points if point.rounds]
    seconds = np.array([point.seconds[0] for point in points])
    gap = np.array([point.objective for point in points]) - kept.setting.optimum
    return seconds, np.maximum(gap, _FLOOR)
