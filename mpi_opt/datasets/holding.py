"""What each process has read of a set before the rows go to their nodes, and the facts all agree on."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.numbers import Mask
from mpi_opt.datasets.rows import Rows, Seen, no_rows
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector


@dataclass(frozen=True, slots=True)
class Holding:
    """One process's part of a set as read, and the whole set's figures.

    Attributes
    ----------
    name : str
        The job's word for the set.
    labels : ndarray of float64, shape (held,)
        As in the file.
    sparse : Rows or None
        The rows held, of a set of text.
    dense : ndarray, shape (held, features), or None
        The rows held, of any other set, in the type they are stored in: what travels is a byte a pixel.
    divisor : float
        What dense features are divided by when they have arrived.
    numbers : ndarray of int64, shape (held,)
        Numbers in the set of the rows held, ascending.
    serves : ndarray of bool, shape (processes,)
        Which processes get their rows from this one.
    rows, features, nonzeros : int
        Of the whole set; ``features`` is the largest column seen, or the width of a dense set.
    index_base : int
        0 or 1; 0 for dense sets.
    weights : ndarray of float64, shape (held,), or None
        What the loss of each row held is multiplied by; ``None`` on all processes where the set has no weights.
    notes : tuple of str
        What a user should know about the reading, the same on every process (rows dropped, fields skipped).
    names : tuple of str or None
        Of the features, the same on every process; ``None`` where the set does not tell.
    text_base : int or None
        What LIBSVM text of the same columns counts from; ``None`` for sets that were never text.
    words : tuple of str or None
        What the labels 0, 1, ... stand for, the same on every process; ``None`` for labels that are numbers.
    """

    name: str
    labels: Vector
    sparse: Rows | None
    dense: npt.NDArray[np.uint8] | Vector | None
    divisor: float
    numbers: Indices
    serves: Mask
    rows: int
    features: int
    nonzeros: int
    index_base: int
    weights: Vector | None = None
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    text_base: int | None = None
    words: tuple[str, ...] | None = None

    def without_rows(self) -> "Holding":
        """Return the figures alone, so that the rows read need not be kept beside the rows dealt."""
        return replace(
            self,
            labels=self.labels[:0].copy(),
            weights=None if self.weights is None else self.weights[:0].copy(),
            numbers=self.numbers[:0].copy(),
            sparse=None if self.sparse is None else no_rows(),
            dense=None if self.dense is None else self.dense[:0].copy(),
        )


def agree(
    piece: Holding,
    holders: list[int],
    served: list[int],
    index_base: int | None,
    collectives: Collectives,
    passed: Seen | None = None,
) -> Holding:
    """Return the holding with the whole set's figures, the same on every process.

    Called by all processes together.

    Parameters
    ----------
    piece : Holding
        What this process has read; figures of the whole set are ignored, but for ``features`` where they are more than
        occur.
    holders : list of int
        The processes that hold the set once, together.
    served : list of int
        The processes that get their rows from this one.
    passed : Seen or None
        What this process has passed over; ``None`` takes what the sparse rows say.
    """
    smallest, largest = -1, -1
    if piece.sparse is not None:
        nonzeros = piece.sparse.values.size
        if nonzeros:
            smallest, largest = int(piece.sparse.indices.min()), int(piece.sparse.indices.max())
    else:
        assert piece.dense is not None
        nonzeros, largest = int(np.count_nonzero(piece.dense)), piece.dense.shape[1] - 1
    if passed is None:
        passed = Seen() if piece.sparse is None else piece.sparse.seen
    if passed.zero_index:
        smallest = 0
    seen = collectives.gather((piece.labels.size, nonzeros, smallest, largest, piece.divisor, passed))
    counted = [seen[process] for process in holders]
    rows = sum(entry[0] for entry in counted)
    passed = sum((entry[5] for entry in counted), start=Seen())
    if rows == 0:
        why = f" ({passed.dropped} were left out for what is not finite)" if passed.dropped else ""
        raise DataError(f"{piece.name}: holds no rows{why}; allowed is a set of at least one")
    base = 0
    if piece.sparse is not None:
        base = index_base if index_base is not None else int(all(entry[2] != 0 for entry in counted))
    return replace(
        piece,
        serves=np.isin(np.arange(collectives.size), served),
        divisor=seen[0][4],
        rows=rows,
        features=max(piece.features, max(entry[3] for entry in counted) + 1 - base),
        nonzeros=sum(entry[1] for entry in counted),
        index_base=base,
        notes=(*piece.notes, *passed.notes(piece.name)),
    )
