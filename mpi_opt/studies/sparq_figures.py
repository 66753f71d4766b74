"""Test error against bytes of SPARQ-SGD and its rivals, first seed: the nodes' own models, and the averaged one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mpi_opt.report.figures.style import label, legend, line, log_axis, mark, new_figure, save
from mpi_opt.report.sameness import job_of
from mpi_opt.run.progress import size
from mpi_opt.studies.sparq_tables import Run
from mpi_opt.types import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "compare-sparq"


def picture(runs: Sequence[Run]) -> "Figure":
    """Return the figure: above the mean over the nodes' own models, below the averaged model.

    Parameters
    ----------
    runs : sequence of Run
        Of several seeds the first of each row is drawn; rows of other tables are left out.

    Raises
    ------
    JobError
        Matplotlib is not installed.
    """
    shown = [run for run in runs if run.seed == 0 and run.row.part == "rivals"]
    figure, axes = new_figure(height=6.4, rows=2, share_x=True)
    for each, place, title in zip(
        axes, ("mean", "average"), ("nodes' own models, mean", "averaged model"), strict=True
    ):
        for index, run in enumerate(shown):
            line(each, sent(run), run.course.shared[f"test_error_{place}"], mark(index), name_of(run))
        label(each, x="", y="test error", title=title)
        each.set_ylim(0.0, 1.0)
        log_axis(each, "x", np.concatenate([sent(run) for run in shown]), size)
    axes[-1].set_xlabel("bytes sent by a node")
    legend(figure, axes[0])
    return figure


def sent(run: Run) -> Vector:
    """Return the bytes a node sent by every evaluation, shape (rows,); NaN where that is none."""
    total = run.course.sent.sum(axis=0) / run.course.nodes
    return np.where(total > 0, total, np.nan)


def name_of(run: Run) -> str:
    """Return what a run is called in the legend."""
    job = job_of(run.course)
    return run.row.name if job.algorithm.name == "allreduce-sgd" else f"{run.row.name}, H = {job.algorithm.sync_every}"


def draw(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write the figure as ``compare-sparq.svg`` into a folder, and return what was written.

    Raises
    ------
    JobError
        Matplotlib is not installed, or the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return save(picture(runs), folder, NAME, ("svg",))
