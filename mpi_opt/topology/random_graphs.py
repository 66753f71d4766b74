"""Connected random graphs. They follow from the seed alone, and are therefore the same on every process."""

import math

import numpy as np

from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError
from mpi_opt.topology.graphs import Graph, components, simple

RANDOM_ATTEMPTS = 100
"""Draws of a graph before it is given up as disconnected."""


def random_regular(n: int, degree: int, seed: int) -> Graph:
    """Return a connected random graph in which every node has ``degree`` neighbours, drawn from ``seed`` alone.

    Raises
    ------
    JobError
        No such graph exists (degree >= n, or n degree odd), or no connected one was drawn.
    """
    if n < 1 or not 0 <= degree < n or n * degree % 2:
        raise JobError(
            f"graph.degree = {degree} with {n} nodes; allowed: a degree from 0 to {n - 1} with nodes x degree even"
        )
    import networkx  # only random-regular needs it

    for attempt in range(RANDOM_ATTEMPTS):
        draw = int(Key(seed, 0, Purpose.GRAPH, attempt).generator().integers(2**31))
        drawn = networkx.random_regular_graph(degree, n, seed=draw)
        if networkx.is_connected(drawn):
            return Graph(f"random-regular {degree}", n, simple(drawn.edges()))
    raise JobError(
        f'graph.degree = {degree}: no connected "random-regular" graph on {n} nodes in {RANDOM_ATTEMPTS} draws; '
        f"allowed: a degree of 2 (better 3) or more, or another seed (seed = {seed})"
    )


def erdos_renyi(n: int, p: float, seed: int) -> Graph:
    """Return a connected graph in which each pair is an edge with probability ``p``, drawn from ``seed`` alone.

    Draws that come out disconnected are passed over, at most ``RANDOM_ATTEMPTS`` of them.

    Raises
    ------
    JobError
        ``p`` is outside [0, 1], or no connected graph was drawn.
    """
    if not 0.0 <= p <= 1.0:
        raise JobError(f"graph.p = {p}; allowed: a probability from 0 to 1")
    low, high = np.triu_indices(max(n, 0), k=1)
    for attempt in range(RANDOM_ATTEMPTS):
        kept = np.flatnonzero(Key(seed, 0, Purpose.GRAPH, attempt).generator().random(low.size) < p)
        edges = tuple(zip(low[kept].tolist(), high[kept].tolist(), strict=True))
        # A tree has n-1 edges: fewer need no search.
        if len(edges) >= n - 1 and len(components(n, edges)) == 1:
            return Graph(f"erdos-renyi {p:.4g}", n, edges)
    raise JobError(
        f'graph.p = {p}: no connected "erdos-renyi" graph on {n} nodes in {RANDOM_ATTEMPTS} draws; '
        f"allowed: a larger p (connected ones are likely from ln(n)/n = {math.log(max(n, 1)) / max(n, 1):.3g} on)"
    )
