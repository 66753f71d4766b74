"""The graphs a job can name, and the one function that makes them."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from mpi_opt.errors import JobError
from mpi_opt.topology import graphs, random_graphs
from mpi_opt.topology.edges import EdgeList, from_edges
from mpi_opt.topology.graphs import Graph
from mpi_opt.words import nearest

Params = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GraphKind:
    """One family of graphs: how to build it, the job keys it takes."""

    build: Callable[[int, Params, int], Graph]
    keys: tuple[str, ...]


def _whole(params: Params, key: str) -> int | None:
    """Return an optional integer parameter."""
    value = params.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise JobError(f"graph.{key} = {value!r}; allowed: an integer")
    return value


def _torus(n: int, params: Params, _seed: int) -> Graph:
    return graphs.torus(n, _whole(params, "rows"), _whole(params, "cols"))


def _random_regular(n: int, params: Params, seed: int) -> Graph:
    degree = _whole(params, "degree")
    return random_graphs.random_regular(n, 4 if degree is None else degree, seed)


def _erdos_renyi(n: int, params: Params, seed: int) -> Graph:
    p = params.get("p")
    if p is None:
        p = min(1.0, 2.0 * math.log(n) / n) if n > 1 else 0.0
    if isinstance(p, bool) or not isinstance(p, int | float):
        raise JobError(f"graph.p = {p!r}; allowed: a probability from 0 to 1")
    return random_graphs.erdos_renyi(n, float(p), seed)


def _edges(n: int, params: Params, _seed: int) -> Graph:
    source = params.get("edges")
    if not isinstance(source, str | os.PathLike | list | tuple):
        raise JobError(
            f"graph.edges = {source!r}; allowed: a file of lines 'i j [w]', or a list of [i, j] or [i, j, w]"
        )
    if isinstance(source, list | tuple) and not all(isinstance(row, list | tuple) for row in source):
        raise JobError(f"graph.edges = {source!r}; allowed: a list of [i, j] or [i, j, w]")
    return from_edges(cast("str | os.PathLike[str] | EdgeList", source), n)


GRAPHS: Mapping[str, GraphKind] = {
    "path": GraphKind(lambda n, _p, _s: graphs.path(n), ()),
    "ring": GraphKind(lambda n, _p, _s: graphs.ring(n), ()),
    "star": GraphKind(lambda n, _p, _s: graphs.star(n), ()),
    "complete": GraphKind(lambda n, _p, _s: graphs.complete(n), ()),
    "torus": GraphKind(_torus, ("rows", "cols")),
    "hypercube": GraphKind(lambda n, _p, _s: graphs.hypercube(n), ()),
    "exponential": GraphKind(lambda n, _p, _s: graphs.exponential(n), ()),
    "random-regular": GraphKind(_random_regular, ("degree",)),
    "erdos-renyi": GraphKind(_erdos_renyi, ("p",)),
    "edges": GraphKind(_edges, ("edges",)),
}


def make_graph(name: str, n: int, params: Params, seed: int) -> Graph:
    """Return the graph that a job names.

    Parameters
    ----------
    name : str
        A key of ``GRAPHS``.
    n : int
        Number of nodes.
    params : mapping
        The graph's own job keys (``rows``, ``cols``, ``degree``, ``p``, ``edges``); ``None`` counts as absent.
        A path in ``edges`` is opened as it stands.
    seed : int
        Seed of the job; random graphs follow from it alone.

    Raises
    ------
    JobError
        An unknown name or key (the nearest valid one is named), a bad value, or a graph that does not fit n.
    """
    kind = GRAPHS.get(name)
    if kind is None:
        raise JobError(f"graph.name = {name!r} is unknown{nearest(name, GRAPHS)}; allowed: {', '.join(GRAPHS)}")
    for key, value in params.items():
        if key not in kind.keys and value is not None:
            hint = nearest(key, kind.keys)
            allowed = ", ".join(f"graph.{known}" for known in kind.keys) or "no further key"
            raise JobError(f"graph.{key} = {value!r} is no key of a {name!r} graph{hint}; allowed: {allowed}")
    return kind.build(n, params, seed)
