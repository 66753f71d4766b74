"""Who spoke when: nodes against synchronisation indices."""

import math

import numpy as np
import numpy.typing as npt

from mpi_opt.report.course import BLOCKS, Course
from mpi_opt.report.figures.picture import Picture, words_instead
from mpi_opt.report.figures.style import INK, label, new_figure, power_text

CELLS = (60, 240)
"""Most nodes and synchronisation indices that have a cell each; beyond, several share one."""
_COLOURS = "cividis"
_LOST = "#b4b4b4"


def shares(course: Course) -> npt.NDArray[np.float64]:
    """Return 1 where a node spoke, 0 where it was silent, NaN once it was lost: shape (nodes, syncs)."""
    map_ = course.fired.astype(np.float64)
    for lost in course.lost:
        if lost.step >= 0:
            map_[lost.node, course.sync_steps > lost.step] = math.nan
    return map_


def binned(map_: npt.NDArray[np.float64], rows: int, columns: int) -> npt.NDArray[np.float64]:
    """Return the mean of what is known in each of at most ``rows`` x ``columns`` cells of nearly the same size."""
    for axis, most in ((0, rows), (1, columns)):
        count = map_.shape[axis]
        starts = [count * k // min(count, most) for k in range(min(count, most))]
        if axis == 0:
            known = np.add.reduceat(np.isfinite(map_).astype(np.float64), starts, axis=0)
            total = np.add.reduceat(np.nan_to_num(map_), starts, axis=0)
        else:
            known = np.add.reduceat(known, starts, axis=1)
            total = np.add.reduceat(total, starts, axis=1)
    return np.divide(total, known, out=np.full_like(total, math.nan), where=known > 0)


def _blocks(course: Course) -> str:
    """Say how many blocks spoke, where each decides for itself."""
    if BLOCKS not in course.own or not course.rows or not course.own["syncs"][:, -1].any():
        return ""
    share = course.own[BLOCKS][:, -1].sum() / course.own["syncs"][:, -1].sum()
    return f" A node counts as speaking where any block of its model does; of the blocks {share:.1%} spoke."


def firing(course: Course, name: str) -> Picture:
    """Return the firing map of a run."""
    title = "Firing map"
    nodes, syncs = course.fired.shape
    if not syncs:
        why = "No synchronisation index is on disk: nobody decides to speak in this method, or none was reached yet."
        return words_instead(name, title, why)
    map_ = shares(course)
    spoke = float(np.nanmean(map_))
    if spoke == 1.0:
        return words_instead(
            name, title, f"Every node spoke at every one of {syncs} synchronisation indices.{_blocks(course)}"
        )
    cells = binned(map_, *CELLS)
    alone = cells.shape == map_.shape
    height = min(4.6, 2.1 + 0.09 * cells.shape[0])
    figure, (top, below) = new_figure(
        width=10.2, height=height + 0.9, rows=2, share_x=True, heights=(height - 0.6, 1.1)
    )
    first, last = int(course.sync_steps[0]) + 1, int(course.sync_steps[-1]) + 1
    from matplotlib import colormaps
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    colours = colormaps[_COLOURS].with_extremes(bad=_LOST)
    extent = (0.5, syncs + 0.5, nodes - 0.5, -0.5)
    shown = top.imshow(cells, cmap=colours, vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="nearest")
    top.grid(visible=False)
    label(top, x="", y="Node")
    top.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    if alone:
        keys = [Patch(facecolor=colours(1.0), label="spoke"), Patch(facecolor=colours(0.0), label="silent")]
        if np.isnan(cells).any():
            keys.append(Patch(facecolor=_LOST, label="lost"))
        figure.legend(handles=keys, loc="outside upper left", ncols=3, fontsize=8, frameon=False, labelcolor=INK)
        what = "Each cell is a node at a synchronisation index."
    else:
        bar = figure.colorbar(shown, ax=[top, below], fraction=0.025, pad=0.01)
        bar.set_label("Share that spoke", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=8, colors=INK)
        bar.outline.set_visible(False)
        many = [
            f"{math.ceil(count / cell)} {word}"
            if count % cell == 0
            else f"{count // cell} or {count // cell + 1} {word}"
            for count, cell, word in zip(map_.shape, cells.shape, ("nodes", "indices"), strict=True)
            if count > cell
        ]
        what = f"A cell holds {' and '.join(many)}: its colour is the share of them at which a node spoke."
    edges = np.array([syncs * k // cells.shape[1] for k in range(cells.shape[1] + 1)]) + 0.5
    below.stairs(np.nanmean(binned(map_, 1, CELLS[1]), axis=0), edges, color="#0072b2", linewidth=1.3, baseline=None)
    below.set_ylim(0, 1.03)
    below.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    label(below, x=f"Synchronisation index (of step {power_text(first)} to {power_text(last)})", y="Share")
    figure.align_ylabels([top, below])
    return Picture(
        name=name,
        title=title,
        figure=figure,
        alt=f"Map of {nodes} nodes against {syncs} synchronisation indices; a node spoke at {spoke:.1%} of them.",
        caption=f"{what} Below, the share of nodes that spoke. All together {spoke:.1%}.{_blocks(course)}",
    )
