"""Rows of sparse features as read, and what was passed over in reading them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.growing import Growing
from mpi_opt.datasets.numbers import Mask
from mpi_opt.types import Indices, Vector


@dataclass(frozen=True, slots=True)
class Seen:
    """What was passed over in reading.

    Attributes
    ----------
    qids : int
        ``qid:`` fields.
    dropped : int
        Rows left out for a label or value that is not finite.
    zeroed : int
        Values that are not finite and were taken as 0.
    zero_index : bool
        Whether a row left out had an index 0: it says what the file counts from all the same.
    """

    qids: int = 0
    dropped: int = 0
    zeroed: int = 0
    zero_index: bool = False

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.qids + other.qids,
            self.dropped + other.dropped,
            self.zeroed + other.zeroed,
            self.zero_index or other.zero_index,
        )

    def notes(self, name: str) -> tuple[str, ...]:
        """Return what a user should know of it about the set ``name``."""
        said = (
            (self.dropped, 'rows left out: a label or value of theirs is not finite (data.nan = "drop-row")'),
            (self.zeroed, 'values that are not finite taken as 0 (data.nan = "zero")'),
            (self.qids, "qid: fields ignored"),
        )
        return tuple(f"{name}: {count} {what}" for count, what in said if count)


@dataclass(frozen=True, slots=True)
class Rows:
    """Parsed rows in compressed form.

    Attributes
    ----------
    indptr : ndarray of int64, shape (rows + 1,)
    indices : ndarray of int32, shape (nonzeros,)
        As written in the file: the index base is not yet taken off.
    values : ndarray of float64, shape (nonzeros,)
    labels : ndarray of float64, shape (rows,)
    seen : Seen
    """

    indptr: Indices
    indices: npt.NDArray[np.int32]
    values: Vector
    labels: Vector
    seen: Seen = Seen()


def no_rows() -> Rows:
    """Return rows of which there are none."""
    return Rows(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0), np.empty(0))


def join_rows(parts: Iterable[Rows]) -> Rows:
    """Return the rows of all parts, in order; parts made on the way are not needed longer than their turn."""
    indptr, indices, values, labels = Growing(np.int64), Growing(np.int32), Growing(np.float64), Growing(np.float64)
    indptr.add(np.zeros(1, dtype=np.int64))
    seen = Seen()
    for part in parts:
        indptr.add(part.indptr[1:] + indices.size)
        indices.add(part.indices)
        values.add(part.values)
        labels.add(part.labels)
        seen += part.seen
    return Rows(indptr.finish(), indices.finish(), values.finish(), labels.finish(), seen)


def select_rows(rows: Rows, kept: Mask) -> Rows:
    """Return the rows where ``kept`` (bool, shape (rows,)) is true; ``seen`` stays as it is."""
    lengths = np.diff(rows.indptr)
    entries = np.repeat(kept, lengths)
    indptr = np.append(0, np.cumsum(lengths[kept]))
    return Rows(indptr, rows.indices[entries], rows.values[entries], rows.labels[kept], rows.seen)
