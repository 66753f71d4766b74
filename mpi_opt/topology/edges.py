"""Graphs from edge lists: lines ``i j`` or ``i j w``, with ``#`` comments, or the same as a list."""

import math
import os
from collections.abc import Sequence

from mpi_opt.errors import JobError
from mpi_opt.topology.graphs import Graph

EdgeList = Sequence[Sequence[float]]


def from_edges(source: str | os.PathLike[str] | EdgeList, n: int) -> Graph:
    """Return the graph whose edges a file or a list gives.

    Every edge is written once, in either direction. A third column gives mixing weights, ``0 < w_ij <= 1``, on all
    lines or on none; own weights follow as ``w_ii = 1 - sum_j w_ij``.

    Parameters
    ----------
    source : path or list
        A text file with lines ``i j [w]`` (0-based node numbers, ``#`` starts a comment), or a list of such rows.
    n : int
        Number of nodes.

    Raises
    ------
    JobError
        Names ``file:line`` (or the entry of the list) and what is allowed: unreadable or malformed lines, self-loops,
        nodes out of range, an edge given twice, differing weights for i j and j i, weights on some lines only, a
        disconnected graph or a number of nodes that does not fit.
    """
    if isinstance(source, str | os.PathLike):
        name = f"edges of {os.fspath(source)}"
        rows = _read(source)
    else:
        name = "edges"
        rows = [(f"graph.edges[{at}]", [str(field) for field in row]) for at, row in enumerate(source)]
    found: dict[tuple[int, int], tuple[str, float | None]] = {}
    for place, fields in rows:
        i, j, weight = _edge(place, fields, n)
        pair = (min(i, j), max(i, j))
        if pair in found:
            first, other = found[pair]
            if weight != other:
                raise JobError(
                    f"{place}: edge {i} {j} has weight {weight}, but {other} at {first}: W would be asymmetric; "
                    "allowed: each edge once, w_ij = w_ji"
                )
            raise JobError(
                f"{place}: edge {i} {j} is there already at {first}; allowed: each edge once, either way round"
            )
        found[pair] = (place, weight)
    for place, weight in found.values():
        if (weight is None) != (rows and len(rows[0][1]) == 2):
            raise JobError(f"{place}: a weight on some lines only; allowed: a third column on every line or on none")
    edges = tuple(sorted(found))
    highest = max((j for _, j in edges), default=0)
    if highest + 1 < n:
        raise JobError(
            f"{name}: the edges join nodes 0..{highest}, but there are {n} nodes (n mismatch): nodes "
            f"{highest + 1}..{n - 1} would be disconnected; allowed: a graph of exactly {n} nodes"
        )
    weights = [found[edge][1] for edge in edges]
    given = tuple(weight for weight in weights if weight is not None)
    return Graph(name, n, edges, given if given else None)


def _read(path: str | os.PathLike[str]) -> list[tuple[str, list[str]]]:
    """Return ``(file:line, fields)`` of every line that holds something besides a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"graph.edges = {os.fspath(path)!r} cannot be read: {error}; allowed: a text file") from error
    rows = [(f"{os.fspath(path)}:{at}", line.split("#", 1)[0].split()) for at, line in enumerate(lines, start=1)]
    return [(place, fields) for place, fields in rows if fields]


def _edge(place: str, fields: list[str], n: int) -> tuple[int, int, float | None]:
    """Return ``(i, j, weight or None)`` of one line, checked on its own."""
    shown = " ".join(fields)
    if len(fields) not in (2, 3):
        raise JobError(f"{place}: {shown!r} has {len(fields)} columns; allowed: i j, or i j w")
    try:
        i, j = int(fields[0]), int(fields[1])
        weight = float(fields[2]) if len(fields) == 3 else None
    except ValueError:
        raise JobError(f"{place}: {shown!r}; allowed: two node numbers and perhaps a weight (i j [w])") from None
    for node in (i, j):
        if not 0 <= node < n:
            raise JobError(
                f"{place}: node {node} is out of range in {shown!r}; allowed: 0..{n - 1}, as there are {n} nodes"
            )
    if i == j:
        raise JobError(
            f"{place}: self-loop {shown!r}; allowed: edges between two nodes (own weights follow from the rest)"
        )
    if weight is not None and not (math.isfinite(weight) and 0.0 < weight <= 1.0):
        raise JobError(f"{place}: weight {fields[2]} of edge {i} {j}; allowed: 0 < w <= 1")
    return i, j, weight
