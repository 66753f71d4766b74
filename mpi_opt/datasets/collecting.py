"""Tables and arrays read by all processes together."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mpi_opt.datasets.arrays import array_pieces
from mpi_opt.datasets.growing import Growing
from mpi_opt.datasets.libsvm import Rows, Seen, join_rows
from mpi_opt.datasets.pieces import Piece
from mpi_opt.datasets.source import ArrayFiles, TableFiles
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.tablelayout import look
from mpi_opt.datasets.tables import csv_pieces
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector


class Collected(NamedTuple):
    """What a process has read, and what all know of the set.

    Attributes
    ----------
    dense : ndarray of float64, shape (held, columns), or None
    sparse : Rows or None
        One of the two, the same one on every process.
    labels : ndarray of float64, shape (held,)
    weights : ndarray of float64, shape (held,), or None
        ``None`` on all processes or on none.
    numbers : ndarray of int64, shape (held,)
        Numbers of the rows in the set, those left out not counted.
    columns : int
        Of features, of the whole set.
    seen : Seen
        What this process has passed over.
    names : tuple of str or None
        Of the columns of features, in a table with a header; the same on every process.
    notes : tuple of str
        The same on every process.
    """

    dense: Vector | None
    sparse: Rows | None
    labels: Vector
    weights: Vector | None
    numbers: Indices
    columns: int
    seen: Seen
    names: tuple[str, ...] | None
    notes: tuple[str, ...]


def collect(source: TableFiles | ArrayFiles, reading: Reading, reads: bool, collectives: Collectives) -> Collected:
    """Read a table or array; called by all processes together.

    Parameters
    ----------
    source : TableFiles or ArrayFiles
    reading : Reading
    reads : bool
        Where a source has no ranges: whether this process reads it, as a whole. Of others each reads its share.
    collectives : Collectives

    Raises
    ------
    DataError
        On every process: the first by rank that ``csv_pieces`` or ``array_pieces`` raises.
    """
    mine, layout, error = _Read(), None, None
    part, parts = (collectives.rank, collectives.size) if source.ranges else (0, 1)
    try:
        if source.ranges or reads:
            mine.take(source, reading, part, parts)
        if collectives.rank == 0 and isinstance(source, TableFiles):
            layout = look(source, reading)
    except DataError as caught:
        error = caught
    collectives.check(error)
    layout = collectives.broadcast(layout)
    # a share without rows has not seen what the set is like
    seen = collectives.gather((mine.columns, mine.sparse, mine.weighted, mine.labels.size))
    columns, sparse, weighted = max(entry[:3] for entry in seen)
    first = sum(entry[3] for entry in seen[: collectives.rank]) if source.ranges else 0
    labels = mine.labels.finish()
    return Collected(
        None if sparse else mine.table.finish().reshape(labels.size, columns),
        join_rows(mine.rows) if sparse else None,
        labels,
        mine.weights.finish() if weighted else None,
        np.arange(first, first + labels.size, dtype=np.int64),
        columns,
        mine.seen,
        None if layout is None else layout.feature_names,
        () if layout is None else (layout.note(source.name),),
    )


class _Read:
    """What a process reads, in the making."""

    def __init__(self) -> None:
        self.table, self.labels, self.weights = Growing(np.float64), Growing(np.float64), Growing(np.float64)
        self.rows: list[Rows] = []
        self.columns, self.sparse, self.weighted = 0, False, False
        self.seen = Seen()

    def take(self, source: TableFiles | ArrayFiles, reading: Reading, part: int, parts: int) -> None:
        """Read a share."""
        for piece in _pieces(source, reading, part, parts):
            if isinstance(piece.features, Rows):
                self.rows.append(piece.features)
                self.columns, self.sparse = piece.columns, True
            else:
                self.table.add(piece.features.reshape(-1))
                self.columns = piece.features.shape[1]
            self.labels.add(piece.labels)
            if piece.weights is not None:
                self.weights.add(piece.weights)
                self.weighted = True
            self.seen += Seen(dropped=piece.dropped, zeroed=piece.zeroed)


def _pieces(source: TableFiles | ArrayFiles, reading: Reading, part: int, parts: int) -> Iterator[Piece]:
    if isinstance(source, TableFiles):
        return csv_pieces(source, reading, part, parts)
    return array_pieces(source, reading, part, parts)
