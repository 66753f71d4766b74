"""The graph over which nodes talk, drawn, with how fast it mixes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.report.course import Course
from mpi_opt.report.figures.firing import shares
from mpi_opt.report.figures.picture import Picture, words_instead
from mpi_opt.report.figures.style import INK, new_figure
from mpi_opt.topology.graphs import Edge, Graph

_NUMBERED = 64
"""Up to that many nodes have their numbers."""
_FAINT = 400
_MANY = 3000
"""Edges beyond which they are drawn as a picture of dots."""
_MOST = 20_000
"""Edges that are drawn at most: a complete graph of 1,000 nodes has half a million."""
_STUB = 0.55
"""How far an edge round the torus is drawn, of the way to the next node."""
_LAID_OUT = 150
"""Up to that many nodes an edge list is laid out by its distances; beyond, nodes stand on a circle."""


def places(graph: Graph) -> npt.NDArray[np.float64]:
    """Return where the nodes stand, shape (n, 2)."""
    n = graph.n
    if graph.name.startswith("torus"):
        rows, columns = (int(part) for part in graph.name.split()[1].split("x"))
        if min(rows, columns) > 1:
            nodes = np.arange(n)
            return np.column_stack([nodes % columns, -(nodes // columns)]).astype(np.float64)
    if graph.name.startswith("edges") and 2 < n <= _LAID_OUT:
        import networkx

        drawn = networkx.Graph()
        drawn.add_nodes_from(range(n))
        drawn.add_edges_from(graph.edges)
        found = networkx.kamada_kawai_layout(drawn)
        return np.array([found[node] for node in range(n)])
    first = 1 if graph.name == "star" and n > 2 else 0  # the master stands in the middle
    turn = 0.85 if graph.name == "path" else 1.0  # a path is no ring
    angles = np.pi / 2 - 2 * np.pi * turn * np.arange(n - first) / max(n - first, 1)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.vstack([np.zeros((first, 2)), circle]) if n > 1 else np.zeros((1, 2))


def network(course: Course, graph: Graph | None, why: str, name: str) -> Picture:
    """Return the picture of a run's graph.

    Parameters
    ----------
    course : Course
    graph : Graph or None
        ``None`` where there is none to be drawn.
    why : str
        Then says why.
    name : str
        Of the picture.
    """
    title = "Graph"
    if graph is None:
        return words_instead(name, title, why)
    at = places(graph)
    wide, high = np.maximum(np.ptp(at, axis=0), 1e-9)
    figure, (axes,) = new_figure(width=5.0, height=float(np.clip(0.8 + 3.4 * high / wide, 2.6, 4.2)))
    axes.set_axis_off()
    axes.set_aspect("equal")
    _edges(axes, graph, at)
    gone = [lost.node for lost in course.lost]
    stay = [node for node in range(graph.n) if node not in gone]
    spoke = _spoke(course)
    crowd = 9000.0 / graph.n if graph.name.startswith(("torus", "edges")) else (620.0 / graph.n) ** 2  # on a circle
    area, rim = min(330.0, max(2.0, crowd)), 0.8 if graph.n <= _LAID_OUT else 0.0
    dots = axes.scatter(
        at[stay, 0],
        at[stay, 1],
        s=area,
        c=None if spoke is None else spoke[stay],
        color="#56b4e9" if spoke is None else None,
        cmap="cividis" if spoke is not None else None,
        vmin=0 if spoke is not None else None,
        vmax=1 if spoke is not None else None,
        edgecolors=INK,
        linewidths=rim,
        zorder=3,
    )
    if gone:
        axes.scatter(
            at[gone, 0], at[gone, 1], s=area, marker="X", color="#b4b4b4", edgecolors=INK, linewidths=rim, zorder=3
        )
    if spoke is not None:
        bar = figure.colorbar(dots, ax=axes, fraction=0.04, pad=0.02)
        bar.set_label("Share of indices spoken at", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=8, colors=INK)
        bar.outline.set_visible(False)
    if graph.n <= _NUMBERED:
        for node, (x, y) in enumerate(at):
            dark = spoke is not None and spoke[node] < 0.5 and node not in gone
            axes.text(
                x,
                y,
                str(node),
                ha="center",
                va="center",
                fontsize=7.5,
                zorder=4,
                color="#ffffff" if dark else "#000000",
            )
    axes.margins(0.12)
    return Picture(
        name=name,
        title=title,
        figure=figure,
        alt=_told(course, graph),
        caption=_told(course, graph) + _few(graph) + _round(graph) + _gone(gone),
    )


def _edges(axes: Any, graph: Graph, at: npt.NDArray[np.float64]) -> None:
    from matplotlib.collections import LineCollection

    grid = graph.name.startswith("torus")
    near: list[Edge] = []
    far: list[Edge] = []
    for i, j in graph.edges:
        (far if grid and np.abs(at[i] - at[j]).max() > 1.5 else near).append((i, j))
    near = near[:: _one_of(graph)]
    many = len(near) > _MANY
    lines = LineCollection(
        [at[list(pair)] for pair in near],
        colors="#808080" if many else INK,
        linewidths=float(np.clip(90.0 / max(len(near), 1), 0.35, 0.9)),
        alpha=1.0 if len(near) < _FAINT else max(0.05, _FAINT / len(near)),
        rasterized=many,
        zorder=1,
    )
    axes.add_collection(lines)
    for i, j in far:  # round the torus: it leaves at one side and comes back at the other
        away = np.sign(at[i] - at[j]) * _STUB
        axes.plot(*zip(at[i], at[i] + away, strict=True), color=INK, linewidth=0.9, linestyle=(0, (2, 1.5)), zorder=1)
        axes.plot(*zip(at[j], at[j] - away, strict=True), color=INK, linewidth=0.9, linestyle=(0, (2, 1.5)), zorder=1)


def _spoke(course: Course) -> npt.NDArray[np.float64] | None:
    """Return each node's share of spoken indices; ``None`` where nobody ever was silent, or none is known."""
    if not course.fired.shape[1] or course.fired.all():
        return None
    known = shares(course)
    return np.array([row[np.isfinite(row)].mean() if np.isfinite(row).any() else 0.0 for row in known])


def _told(course: Course, graph: Graph) -> str:
    gap, rate = (float(course.attributes.get(key, math.nan)) for key in ("spectral_gap", "consensus_rate"))
    degrees = sorted({graph.degree(i) for i in range(graph.n)})
    weights = "" if course.job is None else f", weights {course.job.graph.weights}"
    parts = [
        f"{graph.name}: {graph.n} {'node' if graph.n == 1 else 'nodes'}, {len(graph.edges)} edges, neighbours "
        + (str(degrees[0]) if len(degrees) == 1 else f"{degrees[0]} to {degrees[-1]}")
        + weights
    ]
    if math.isfinite(gap):
        parts.append(f"spectral gap {gap:.4g}")
    if math.isfinite(rate):
        parts.append(f"consensus rate {rate:.4g}")
    return "; ".join(parts) + "."


def _one_of(graph: Graph) -> int:
    return max(1, math.ceil(len(graph.edges) / _MOST))


def _few(graph: Graph) -> str:
    return f" One of {_one_of(graph)} edges is drawn." if _one_of(graph) > 1 else ""


def _round(graph: Graph) -> str:
    return " Dashed edges come back at the other side." if graph.name.startswith("torus") else ""


def _gone(gone: Sequence[int]) -> str:
    return f" Crosses: lost on the way ({', '.join(map(str, gone))})." if gone else ""
