"""Pieces of a set from the processes that read them to the one that writes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.pieces import Piece
from mpi_opt.datasets.rows import Rows, Seen
from mpi_opt.network.collectives import Collectives


def to_first(piece: Piece, collectives: Collectives) -> list[Piece]:
    """Return every process's piece on rank 0, in rank order; nothing elsewhere. Called by all together."""
    if collectives.size == 1:
        return [piece]
    sparse = isinstance(piece.features, Rows)
    seen = piece.features.seen if isinstance(piece.features, Rows) else Seen()
    width = 0 if isinstance(piece.features, Rows) else piece.features.shape[1]
    heads = collectives.gather((sparse, width, piece.weights is not None, piece.dropped, piece.zeroed, seen))
    nothing = np.empty(0)
    if isinstance(piece.features, Rows):
        rows = piece.features
        arrays = [np.diff(rows.indptr), rows.indices, rows.values]
    else:
        arrays = [np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), piece.features.reshape(-1)]
    arrays += [piece.labels, nothing if piece.weights is None else piece.weights]
    came = [collectives.all_to_all([array] + [array[:0]] * (collectives.size - 1)) for array in arrays]
    if collectives.rank:
        return []
    return [_received(head, *parts) for head, *parts in zip(heads, *came, strict=True)]


def _received(head: tuple[bool, int, bool, int, int, Seen], *arrays: npt.NDArray[Any]) -> Piece:
    sparse, width, weighted, dropped, zeroed, seen = head
    lengths, indices, values, labels, weights = arrays
    if sparse:
        features: Any = Rows(np.append(0, np.cumsum(lengths)), indices, values, labels, seen)
    else:
        features = values.reshape(labels.size, width)
    return Piece(features, labels, weights if weighted else None, dropped, zeroed)
