"""Graphs of nodes: who may talk to whom. Simple, undirected and connected; built by name or from an edge file.

The regular families are closed forms by hand, so that a rank starts without loading a graph library; the random ones
are in `random_graphs`.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mpi_opt.errors import JobError

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """A connected simple graph on the nodes 0..n-1.

    Attributes
    ----------
    name : str
        What it is, for logs: ``"ring"``, ``"torus 4x4"``, ``"edges of ring.txt"``.
    n : int
        Number of nodes, at least 1.
    edges : tuple of (int, int)
        Pairs ``i < j``, ascending, each once.
    weights : tuple of float, or None
        Mixing weight ``w_ij > 0`` of each edge where the edge list brought its own.

    Raises
    ------
    JobError
        n < 1; an edge that is a self-loop, out of range, out of order or repeated; a disconnected graph.
    """

    name: str
    n: int
    edges: tuple[Edge, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise JobError(f"graph {self.name}: {self.n} nodes; at least 1 is needed")
        for i, j in self.edges:
            if not 0 <= i < j < self.n:
                raise JobError(
                    f"graph.edges ({self.name}): edge {i} {j}; edges are pairs i < j of nodes 0..{self.n - 1}"
                )
        if any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise JobError(f"graph.edges ({self.name}): edges must be ascending and each be there once")
        if self.weights is not None and len(self.weights) != len(self.edges):
            raise JobError(f"graph.edges ({self.name}): {len(self.weights)} weights for {len(self.edges)} edges")
        sizes = self.component_sizes
        if len(sizes) > 1:
            shown = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
            raise JobError(
                f"graph {self.name} on {self.n} nodes is disconnected: {len(sizes)} components of {shown} nodes; "
                "models can only agree on a connected graph"
            )

    @cached_property
    def _adjacency(self) -> tuple[tuple[int, ...], ...]:
        lists: list[list[int]] = [[] for _ in range(self.n)]
        # Edges ascend by (i, j), so node v first meets its lower neighbours, ascending, then its higher ones.
        for i, j in self.edges:
            lists[j].append(i)
            lists[i].append(j)
        return tuple(map(tuple, lists))

    def neighbours(self, i: int) -> tuple[int, ...]:
        """Return the neighbours of node ``i``, ascending, without ``i``."""
        return self._adjacency[i]

    def degree(self, i: int) -> int:
        """Return the number of neighbours of node ``i``."""
        return len(self._adjacency[i])

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Degrees of all nodes, in node order."""
        return tuple(map(len, self._adjacency))

    @cached_property
    def component_sizes(self) -> tuple[int, ...]:
        """Sizes of the connected components, largest first; one entry, n, once a graph has been made."""
        return components(self.n, self.edges)


def components(n: int, edges: Iterable[Edge]) -> tuple[int, ...]:
    """Return the sizes of the connected components of n nodes, largest first (union-find with path halving)."""
    parent = list(range(n))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for i, j in edges:
        parent[root(i)] = root(j)
    return tuple(sorted(Counter(map(root, range(n))).values(), reverse=True))


def simple(pairs: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return ``pairs`` as the ascending edges of a simple graph: turned to i < j, loops and repeats dropped."""
    return tuple(sorted({(min(i, j), max(i, j)) for i, j in pairs if i != j}))


def path(n: int) -> Graph:
    """Return the path 0 - 1 - ... - n-1."""
    return Graph("path", n, tuple((i, i + 1) for i in range(n - 1)))


def ring(n: int) -> Graph:
    """Return the ring i ~ i+1 mod n. The ring of 2 is one edge, the ring of 1 has none."""
    return Graph("ring", n, simple((i, (i + 1) % n) for i in range(n)))


def star(n: int) -> Graph:
    """Return the star with node 0 in the middle."""
    return Graph("star", n, tuple((0, i) for i in range(1, n)))


def complete(n: int) -> Graph:
    """Return the complete graph."""
    return Graph("complete", n, tuple((i, j) for i in range(n) for j in range(i + 1, n)))


def torus(n: int, rows: int | None = None, cols: int | None = None) -> Graph:
    """Return the rows x cols grid with both sides closed to rings; node r cols + c stands in row r, column c.

    Without ``rows`` and ``cols`` the sides are the most square factors of n. A side of 2 is one edge, not two.
    A prime n has no two sides: it is refused, unless ``rows = 1`` asks for the ring that such a torus is.

    Raises
    ------
    JobError
        rows x cols is not n, or n is prime and no side is given.
    """
    if rows is None and cols is None:
        rows = next((r for r in range(math.isqrt(max(n, 1)), 1, -1) if n % r == 0), 1)
        if rows == 1 and n > 1:
            raise JobError(
                f'graph.name = "torus" with {n} nodes: {n} is prime, so there are no two sides; '
                "take another number of nodes, a ring, or graph.rows = 1 (the same ring)"
            )
    key, value = ("rows", rows) if rows is not None else ("cols", cols)
    assert value is not None
    if value < 1 or n % value:
        raise JobError(f"graph.{key} = {value} does not divide {n} nodes; allowed: a divisor of {n}")
    other = n // value
    if rows is not None and cols is not None and cols != other:
        raise JobError(f"graph.rows = {rows} times graph.cols = {cols} is not the number of nodes, {n}")
    r, c = (value, other) if rows is not None else (other, value)
    pairs = [(i * c + j, i * c + (j + 1) % c) for i in range(r) for j in range(c)]
    pairs += [(i * c + j, (i + 1) % r * c + j) for i in range(r) for j in range(c)]
    return Graph(f"torus {r}x{c}", n, simple(pairs))


def hypercube(n: int) -> Graph:
    """Return the hypercube: nodes are neighbours when their numbers differ in one bit.

    Raises
    ------
    JobError
        n is not a power of two.
    """
    if n < 1 or n & (n - 1):
        below = 1 << (max(n, 1).bit_length() - 1)
        raise JobError(
            f'graph.name = "hypercube" with {n} nodes; allowed: a power of two (nearest: {below}, {2 * below})'
        )
    bits = n.bit_length() - 1
    return Graph("hypercube", n, simple((i, i ^ (1 << b)) for i in range(n) for b in range(bits)))


def exponential(n: int) -> Graph:
    """Return the static exponential graph, made undirected: i ~ i + 2^k mod n and i - 2^k mod n for 2^k < n.

    Source: Ying, Yuan, Chen, Hu, Pan, Yin 2021 (arXiv 2110.13363), whose graph has the arcs i -> i + 2^k.
    """
    powers = [1 << k for k in range(max(n - 1, 0).bit_length())]
    return Graph("exponential", n, simple((i, (i + step) % n) for i in range(n) for step in powers))
