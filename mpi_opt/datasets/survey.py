"""What each node holds, counted in one pass over its rows, and what a user should know about it before a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mpi_opt.datasets.shard import Shard
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Features, Indices, Vector

_SHOWN = 8
"""Nodes named in a remark."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Counts of all nodes, the same on every process; arrays have one entry a node.

    Attributes
    ----------
    rows, nonzeros : ndarray of int64
        ``nonzeros``: entries that are stored (CSR) or not 0 (dense).
    held : ndarray of int64
        Features that are not 0 in some row of the node.
    occurring : int
        Features that are not 0 in some row of any node.
    mixed : ndarray of bool
        Whether the labels of the node's rows differ.
    changes : int
        Pairs of neighbouring rows with different labels, the nodes' rows taken one after the other.
    rising : bool
        Whether no label is smaller than the one before.
    falling : bool
        Whether none is larger.
    """

    rows: Indices
    nonzeros: Indices
    held: Indices
    occurring: int
    mixed: np.typing.NDArray[np.bool_]
    changes: int
    rising: bool
    falling: bool


def survey(shards: Sequence[Shard], local: Sequence[int], features: int, collectives: Collectives) -> Survey:
    """Count what the nodes hold; called by all processes together.

    Parameters
    ----------
    shards : sequence of Shard
        Of the ``local`` nodes, in that order.
    local : sequence of int
    features : int
    collectives : Collectives
    """
    anywhere = np.zeros(features)
    mine = []
    for node, shard in zip(local, shards, strict=True):
        here = present(shard.features)
        anywhere[here] = 1.0
        y = shard.labels
        ends = (float(y[0]), float(y[-1])) if y.size else None
        order = (int((y[1:] != y[:-1]).sum()), bool((y[1:] >= y[:-1]).all()), bool((y[1:] <= y[:-1]).all()))
        mine.append((int(node), y.size, _nonzeros(shard.features), int(np.count_nonzero(here)), ends, order))
    seen = sorted(entry for group in collectives.gather(mine) for entry in group)
    occurring = int(np.count_nonzero(collectives.max(anywhere)))
    changes = sum(entry[5][0] for entry in seen)
    rising, falling = (all(entry[5][which] for entry in seen) for which in (1, 2))
    filled = [entry[4] for entry in seen if entry[4] is not None]
    for (_, before), (after, _) in pairwise(filled):
        changes += before != after
        rising, falling = rising and before <= after, falling and before >= after
    rows, nonzeros, held = (np.array([entry[k] for entry in seen], dtype=np.int64) for k in (1, 2, 3))
    mixed = np.array([entry[5][0] > 0 for entry in seen])
    return Survey(rows, nonzeros, held, occurring, mixed, changes, rising, falling)


def present(features: Features) -> np.typing.NDArray[np.bool_]:
    """Return which columns are not 0 everywhere, shape (features,)."""
    if isinstance(features, np.ndarray):
        return np.asarray(features.any(axis=0))
    found = np.zeros(features.shape[1], dtype=np.bool_)
    found[features.indices[features.data != 0.0]] = True
    return found


def _nonzeros(features: Features) -> int:
    return int(np.count_nonzero(features)) if isinstance(features, np.ndarray) else int(features.nnz)


def remarks(found: Survey, labels: Mapping[float, float] | None, *, in_file_order: bool) -> tuple[str, ...]:
    """Return what a user should know about how the rows are spread over the nodes.

    Parameters
    ----------
    found : Survey
    labels : mapping or None
        Of the set's `DataInfo`; ``None`` for regression.
    in_file_order : bool
        Whether nodes hold rows as they follow each other in the file.
    """
    nodes, said = found.rows.size, []
    empty = np.flatnonzero(found.rows == 0)
    if empty.size:
        few = f"; there are {found.rows.sum()} rows" if found.rows.sum() < nodes else ""
        said.append(f"{empty.size} of {nodes} nodes hold no rows: {_named(empty)}{few}")
    several = nodes - empty.size > 1
    if labels is not None and len(labels) > 1:
        alone = np.flatnonzero((found.rows > 0) & ~found.mixed)
        if alone.size:
            said.append(f"{alone.size} of {nodes} nodes hold rows of one class only: {_named(alone)}")
        # as many changes as there are further classes: each of them stands together
        if several and in_file_order and 2 * len(labels) < found.rows.sum() and found.changes < len(labels):
            said.append(
                "the file is sorted by label, and each node holds a part of it as it is; "
                'data.partition = "shuffled" mixes the classes'
            )
    elif labels is None and several and in_file_order and found.changes > 1 and (found.rising or found.falling):
        said.append(
            "the file is sorted by label, and each node holds a part of it as it is; "
            'data.partition = "shuffled" mixes the rows'
        )
    held = np.where(found.rows > 0, found.held, found.occurring)
    lacking = np.flatnonzero(held < found.occurring)
    if lacking.size:
        fewest = int(held.argmin())
        said.append(
            f"{lacking.size} of {nodes} nodes lack some of the {found.occurring} features that occur: node {fewest} "
            f"holds {held[fewest]}, the mean is {held[found.rows > 0].mean():.0f}"
        )
    return tuple(said)


def _named(nodes: Indices) -> str:
    return ", ".join(str(node) for node in nodes[:_SHOWN]) + (", ..." if nodes.size > _SHOWN else "")


def column_largest(shards: Sequence[Shard], features: int) -> Vector:
    """Return the largest magnitude in each column over some shards, shape (features,)."""
    largest = np.zeros(features)
    for shard in shards:
        if isinstance(shard.features, np.ndarray):
            if shard.features.size:
                np.maximum(largest, np.abs(shard.features).max(axis=0), out=largest)
        elif shard.features.nnz:
            here = abs(shard.features).max(axis=0)
            np.maximum(largest, here.toarray().ravel(), out=largest)
    return largest
