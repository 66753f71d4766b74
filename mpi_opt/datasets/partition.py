"""Which rows of a set each node holds: pure functions of the rows (or their labels), the number of nodes and the seed.

Every function returns ``order`` (int64, the row numbers, node after node) and ``offsets`` (int64, shape ``(n + 1,)``):
node ``i`` holds rows ``order[offsets[i]:offsets[i + 1]]`` in that order. The number of processes plays no part.
"""

from typing import NamedTuple

import numpy as np

from mpi_opt.draws import Key, Purpose
from mpi_opt.types import Indices, Vector


class Partition(NamedTuple):
    """Rows in the order of the nodes, and where each node's begin."""

    order: Indices
    offsets: Indices


def equal_cuts(rows: int, nodes: int) -> Indices:
    """Return ``rows * i // nodes`` for i = 0..nodes."""
    return rows * np.arange(nodes + 1, dtype=np.int64) // nodes


def contiguous(rows: int, nodes: int) -> Partition:
    """Node i holds rows ``rows * i // nodes`` to ``rows * (i + 1) // nodes`` of the file as it is."""
    return Partition(np.arange(rows, dtype=np.int64), equal_cuts(rows, nodes))


def shuffled(rows: int, nodes: int, seed: int) -> Partition:
    """Cut the rows as ``contiguous`` does, after a permutation drawn from the seed alone (not from ``nodes``)."""
    order = Key(seed, 0, Purpose.PARTITION, 0).generator().permutation(rows).astype(np.int64)
    return Partition(order, equal_cuts(rows, nodes))


def by_label(labels: Vector, nodes: int) -> Partition:
    """Cut the rows as ``contiguous`` does, after a stable sort by label, ascending."""
    return Partition(np.argsort(labels, kind="stable").astype(np.int64), equal_cuts(labels.size, nodes))


def dirichlet(labels: Vector, nodes: int, seed: int, alpha: float) -> Partition:
    """Spread each class over the nodes in proportions drawn from a symmetric Dirichlet distribution.

    For the c-th label (ascending) of m rows, proportions p ~ Dirichlet(alpha, ..., alpha) over the nodes and then a
    permutation of its rows are drawn from ``Key(seed, 0, PARTITION, c + 1)``; node i takes the permuted rows
    ``floor(m P_i)`` to ``floor(m P_(i+1))`` with P the running sums of p. A node's rows stand in the file's order.
    Shards differ in size and may be empty (Hsu, Qi, Brown 2019, arXiv 1909.06335, without their rebalancing).

    Parameters
    ----------
    labels : ndarray of float64, shape (rows,)
    nodes, seed : int
    alpha : float
        Concentration, > 0: small for one-sided shards, large for even ones.
    """
    owner = np.empty(labels.size, dtype=np.int64)
    distinct, members = np.unique(labels, return_inverse=True)
    for c in range(distinct.size):
        generator = Key(seed, 0, Purpose.PARTITION, c + 1).generator()
        shares = generator.dirichlet(np.full(nodes, alpha))
        rows = generator.permutation(np.flatnonzero(members == c))
        cuts = np.floor(rows.size * np.cumsum(shares[:-1])).astype(np.int64)
        owner[rows] = np.searchsorted(cuts, np.arange(rows.size), side="right")
    counts = np.bincount(owner, minlength=nodes)
    return Partition(
        np.argsort(owner, kind="stable").astype(np.int64), np.append(0, np.cumsum(counts)).astype(np.int64)
    )


def choose(rows: int, count: int, seed: int) -> Indices:
    """Return ``count`` of ``rows`` row numbers, ascending: the first of a permutation drawn from the seed alone.

    What is chosen for a lesser count is part of what is chosen for a greater one.
    """
    order = Key(seed, 0, Purpose.DATA, 1).generator().permutation(rows).astype(np.int64)
    return np.sort(order[:count])


def hold_out(rows: int, fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Choose the test rows by the seed alone.

    Returns
    -------
    kept, held : ndarray of int64
        Both ascending; ``held`` has ``round(fraction * rows)`` rows.
    """
    order = Key(seed, 0, Purpose.DATA, 0).generator().permutation(rows).astype(np.int64)
    count = round(fraction * rows)
    return np.sort(order[count:]), np.sort(order[:count])
