"""Rows from whoever read them to the nodes that train on them, in flat numeric arrays and in pieces.

A process holds its rows as read, its rows as dealt, and a piece of each on its way.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.holding import Holding
from mpi_opt.datasets.libsvm import Rows
from mpi_opt.datasets.partition import Partition
from mpi_opt.datasets.shard import Shard
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Features, Indices, Vector

PIECE = 1 << 15
"""Entries that a process sends at a time, to all processes together."""

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
    mine = _places(holding.numbers, partition.order)
    held = np.flatnonzero(mine >= 0)
    held = held[_sorting(mine[held])]
    # of nodes that begin at the same place only the last one has rows
    target = owners[np.searchsorted(partition.offsets, mine[held], side="right") - 1]
    groups = [held[target == process] if served else held[:0] for process, served in enumerate(holding.serves)]
    del held, target
    came = collectives.all_to_all([mine[rows] for rows in groups])
    del mine
    places = np.concatenate(came)
    places = places[_sorting(places)]
    route = _Route(groups, [np.searchsorted(places, part) for part in came], collectives)
    del groups, came
    values = route.per_row(labels)
    weights = None if holding.weights is None else route.per_row(holding.weights)
    if holding.sparse is not None:
        cut = _deal_sparse(holding.sparse, holding.index_base, features, route)
    else:
        assert holding.dense is not None
        cut = _deal_dense(holding.dense, holding.divisor, features, route)

    def shard(node: int) -> Shard:
        begin, end = (int(at) for at in np.searchsorted(places, partition.offsets[node : node + 2]))
        own = None if weights is None else weights[begin:end]
        return Shard(cut(begin, end), values[begin:end], partition.order[places[begin:end]], own)

    return tuple(shard(node) for node in local)


def _places(numbers: Indices, order: Indices) -> Indices:
    """Return where in ``order`` the rows ``numbers`` (ascending) stand, -1 for those left out."""
    places = np.full(numbers.size, -1, dtype=np.int64)
    # the order is the whole set's, so nothing else as long is made of it
    for begin in range(0, order.size if numbers.size else 0, PIECE):
        rows = order[begin : begin + PIECE]
        at = np.minimum(np.searchsorted(numbers, rows), numbers.size - 1)
        here = np.flatnonzero(numbers[at] == rows)
        places[at[here]] = begin + here
    return places


def _sorting(keys: Indices) -> Any:
    """Return what to index with to sort by ``keys``, all distinct; a slice if they ascend already."""
    return slice(None) if bool((keys[1:] > keys[:-1]).all()) else np.argsort(keys, kind="stable")


class _Route:
    """Which rows go to which process, and where those that come belong.

    Parameters
    ----------
    groups : sequence of ndarray of int64
        For each process the rows held here that it gets, as it gets them.
    spots : sequence of ndarray of int64
        For each process where the rows that it sends belong among this process's rows as dealt.
    collectives : Collectives
    """

    def __init__(self, groups: Sequence[Indices], spots: Sequence[Indices], collectives: Collectives) -> None:
        self.groups, self.spots, self._collectives = groups, spots, collectives
        self.count = sum(part.size for part in spots)

    def keeps(self, held: int) -> bool:
        """Return whether this is the only process, and all of its ``held`` rows stay where they are."""
        return self._collectives.size == 1 and all(
            np.array_equal(rows, np.arange(held)) for rows in (self.groups[0], self.spots[0])
        )

    def per_row(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Send one number for each row; return those of the rows dealt to this process."""
        out = np.empty(self.count, dtype=numbers.dtype)
        self.move(numbers, self.groups, out, self.spots)
        return out

    def move(self, source: npt.NDArray[Any], picks: Sequence[Any], out: npt.NDArray[Any], spots: Sequence[Any]) -> None:
        """Send ``source[picks[p]]`` to each process p and put what comes from it to ``out[spots[p]]``."""
        came = self._collectives.all_to_all([source[pick].ravel() for pick in picks])
        for spot, part in zip(spots, came, strict=True):
            out[spot] = part.reshape(-1, *out.shape[1:])

    def pieces(self, sent: Sequence[Indices], due: Sequence[Indices]) -> Iterator[tuple[list[Indices], list[Indices]]]:
        """Yield the groups and spots of a few rows at a time, as often on every process.

        Parameters
        ----------
        sent, due : sequence of ndarray of int64
            Entries of each row that goes to, or comes from, each process: both ends cut alike.
        """
        most = max(1, PIECE // self._collectives.size)
        ends = [np.cumsum(sizes) for sizes in (*sent, *due)]
        longest = max(int(end[-1]) if end.size else 0 for end in ends)
        rounds = max(1, int(self._collectives.max([-(-longest // most)])[0]))
        edges = np.arange(1, rounds) * most
        cuts = [np.concatenate([[0], np.searchsorted(end, edges, "right"), [end.size]]) for end in ends]
        del sent, due, ends
        numbers = [*self.groups, *self.spots]
        for k in range(rounds):
            piece = [rows[cut[k] : cut[k + 1]] for rows, cut in zip(numbers, cuts, strict=True)]
            yield piece[: len(self.groups)], piece[len(self.groups) :]


def _deal_sparse(rows: Rows, index_base: int, features: int, route: _Route) -> _Cut:
    base = np.int32(index_base)
    if route.keeps(rows.labels.size):
        indptr, indices, values = rows.indptr, rows.indices - base, rows.values
    else:
        indptr, indices, values = _send_sparse(rows, route)
        indices -= base

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


def _send_sparse(rows: Rows, route: _Route) -> tuple[Indices, npt.NDArray[np.int32], Vector]:
    """Return the index pointers, indices and values of the rows dealt to this process."""
    lengths = np.diff(rows.indptr)
    arrived = route.per_row(lengths)
    indptr = np.append(0, np.cumsum(arrived))
    indices, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    pieces = route.pieces([lengths[group] for group in route.groups], [arrived[spot] for spot in route.spots])
    del lengths, arrived
    for groups, spots in pieces:
        picks = [_entries(rows.indptr, group) for group in groups]
        places = [_entries(indptr, spot) for spot in spots]
        route.move(rows.indices, picks, indices, places)
        route.move(rows.values, picks, values, places)
    return indptr, indices, values


def _entries(indptr: Indices, rows: Indices) -> Any:
    """Return what to index with for the entries of ``rows``, in that order; a slice if they lie together."""
    if rows.size == 0:
        return slice(0, 0)
    if bool((rows[1:] - rows[:-1] == 1).all()):
        return slice(indptr[rows[0]], indptr[rows[-1] + 1])
    lengths = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(lengths)
    at = np.repeat(indptr[rows] - ends + lengths, lengths)
    at += np.arange(at.size)
    return at


def _deal_dense(table: npt.NDArray[Any], divisor: float, features: int, route: _Route) -> _Cut:
    came = np.empty((route.count, features))
    sent, due = ([np.full(rows.size, features) for rows in side] for side in (route.groups, route.spots))
    for groups, spots in route.pieces(sent, due):
        route.move(table, groups, came, spots)
    if divisor != 1.0:
        came /= divisor
    return lambda begin, end: came[begin:end]
