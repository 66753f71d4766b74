"""Rows from whoever read them to the nodes that train on them, in flat numeric arrays."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.holding import Holding
from mpi_opt.datasets.libsvm import Rows
from mpi_opt.datasets.partition import Partition
from mpi_opt.datasets.shard import Shard
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Features, Indices, Vector

_Send: TypeAlias = Callable[[Callable[[Indices], npt.NDArray[Any]]], npt.NDArray[Any]]
"""Picks an array for the rows of each process, sends it, returns what came."""
_Cut: TypeAlias = Callable[[int, int], Features]
"""The features of rows ``begin`` to ``end`` of this process."""


def deal(
    holding: Holding,
    labels: Vector,
    features: int,
    partition: Partition,
    owners: Indices,
    local: Sequence[int],
    collectives: Collectives,
) -> tuple[Shard, ...]:
    """Send every row of the partition to the process of its node; called by all processes together.

    Parameters
    ----------
    holding : Holding
        What this process has read.
    labels : ndarray of float64, shape (held,)
        Its labels as the loss wants them.
    features : int
        Columns of the shards; of a dense set, its own.
    partition : Partition
        Over row numbers of the set; rows that it leaves out are dropped.
    owners : ndarray of int64, shape (nodes,)
        Each node's process.
    local : sequence of int
        The nodes of this process.

    Returns
    -------
    tuple of Shard
        One for each of ``local``, in that order. The shards do not depend on how many processes there are.
    """
    place = np.full(holding.rows, -1, dtype=np.int64)
    place[partition.order] = np.arange(partition.order.size)
    mine = place[holding.first : holding.first + labels.size]
    held = np.flatnonzero(mine >= 0)
    held = held[_sorting(mine[held])]
    # of nodes that begin at the same place only the last one has rows
    target = owners[np.searchsorted(partition.offsets, mine[held], side="right") - 1]
    groups = [held[target == process] if served else held[:0] for process, served in enumerate(holding.serves)]

    def send(pick: Callable[[Indices], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        came = collectives.all_to_all([pick(rows) for rows in groups])
        return came[0] if len(came) == 1 else np.concatenate(came)

    places = send(lambda rows: mine[rows])
    arrived = _sorting(places)
    places, values = places[arrived], send(lambda rows: labels[rows])[arrived]
    if holding.sparse is not None:
        cut = _deal_sparse(holding.sparse, holding.index_base, features, arrived, send)
    else:
        assert holding.dense is not None
        cut = _deal_dense(holding.dense, holding.divisor, features, arrived, send)

    def shard(node: int) -> Shard:
        begin, end = (int(at) for at in np.searchsorted(places, partition.offsets[node : node + 2]))
        return Shard(cut(begin, end), values[begin:end], partition.order[places[begin:end]])

    return tuple(shard(node) for node in local)


def _sorting(keys: Indices) -> Any:
    """Return what to index with to sort by ``keys``, all distinct; a slice if they ascend already."""
    return slice(None) if bool((keys[1:] > keys[:-1]).all()) else np.argsort(keys, kind="stable")


def _deal_sparse(rows: Rows, index_base: int, features: int, arrived: Any, send: _Send) -> _Cut:
    lengths = np.diff(rows.indptr)
    came_lengths = send(lambda picked: lengths[picked])
    came = np.append(0, np.cumsum(came_lengths))
    order = _entries(came, np.arange(came_lengths.size)[arrived])
    indices = send(lambda picked: rows.indices[_entries(rows.indptr, picked)])[order] - np.int32(index_base)
    values = send(lambda picked: rows.values[_entries(rows.indptr, picked)])[order]
    indptr = np.append(0, np.cumsum(came_lengths[arrived]))

    def cut(begin: int, end: int) -> Features:
        from scipy.sparse import csr_array

        inside = slice(indptr[begin], indptr[end])
        pointers = indptr[begin : end + 1] - indptr[begin]
        # SciPy wants one type for both index arrays
        kind = np.int32 if pointers[-1] < 2**31 else np.int64
        columns = indices[inside].astype(kind, copy=False)
        matrix = csr_array((values[inside], columns, pointers.astype(kind)), shape=(end - begin, features), copy=False)
        matrix.has_canonical_format = True
        return matrix

    return cut


def _entries(indptr: Indices, rows: Indices) -> Any:
    """Return what to index with for the entries of ``rows``, in that order; a slice if that is all of them."""
    if rows.size == indptr.size - 1 and bool((rows[1:] > rows[:-1]).all()):
        return slice(None)
    lengths = (indptr[1:] - indptr[:-1])[rows]
    ends = np.cumsum(lengths)
    return np.repeat(indptr[rows] - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)


def _deal_dense(table: npt.NDArray[Any], divisor: float, features: int, arrived: Any, send: _Send) -> _Cut:
    flat = send(lambda picked: table[picked].ravel())
    came = flat.reshape(-1, features)[arrived].astype(np.float64)
    if divisor != 1.0:
        came /= divisor
    return lambda begin, end: came[begin:end]
