"""What each process has read of a set before the rows go to their nodes, and the facts all agree on."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.builtin import read_builtin
from mpi_opt.datasets.idx import WHITE, read_images
from mpi_opt.datasets.libsvm import Rows
from mpi_opt.datasets.numbers import Mask
from mpi_opt.datasets.source import BuiltinSet, IdxPair, Source, TextFiles, resolve
from mpi_opt.datasets.textfiles import read_share, read_whole
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Vector


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
    first : int
        Number in the set of the first row held.
    serves : ndarray of bool, shape (processes,)
        Which processes get their rows from this one.
    rows, features, nonzeros : int
        Of the whole set; ``features`` is the largest column seen, or the width of a dense set.
    index_base : int
        0 or 1; 0 for dense sets.
    """

    name: str
    labels: Vector
    sparse: Rows | None
    dense: npt.NDArray[np.uint8] | Vector | None
    divisor: float
    first: int
    serves: Mask
    rows: int
    features: int
    nonzeros: int
    index_base: int

    def without_rows(self) -> "Holding":
        """Return the figures alone, so that the rows read need not be kept beside the rows dealt."""
        return replace(
            self,
            labels=self.labels[:0].copy(),
            sparse=None if self.sparse is None else _no_rows(),
            dense=None if self.dense is None else self.dense[:0].copy(),
        )


def hold(
    words: str | Sequence[str], search: Sequence[Path], index_base: int | None, collectives: Collectives
) -> Holding:
    """Read a set, all processes together.

    Plain text is read by byte range, a share on each process. Compressed text, IDX files and built-in sets are read
    once on each host, by its lowest rank, which serves the processes of that host.

    Parameters
    ----------
    words, search
        As for ``source.resolve``, which rank 0 does for all.
    index_base : {1, 0} or None
        What columns are counted from; ``None`` takes 0 if index 0 occurs anywhere in the set, else 1.
    collectives : Collectives

    Raises
    ------
    DataError
        On every process: what the first process by rank met.
    """
    source, error = None, None
    if collectives.rank == 0:
        try:
            source = resolve(words, search)
        except DataError as caught:
            error = caught
    collectives.check(error)
    source = collectives.broadcast(source)
    whole = not isinstance(source, TextFiles) or source.compressed
    serves = np.ones(collectives.size, dtype=np.bool_)
    reads = True
    if whole:
        hosts = collectives.gather(socket.gethostname())
        serves = np.array([host == hosts[collectives.rank] for host in hosts])
        reads = int(np.argmax(serves)) == collectives.rank
        serves &= reads
    piece, error = _nothing(source), None
    if reads:
        try:
            piece = _read(source, whole, index_base, collectives)
        except DataError as caught:
            error = caught
    collectives.check(error)
    return _agree(replace(piece, serves=serves), whole, index_base, collectives)


def _piece(name: str, labels: Vector, sparse: Rows | None, dense: npt.NDArray[np.uint8] | Vector | None) -> Holding:
    """Return a holding whose figures are still to be agreed on."""
    return Holding(name, labels, sparse, dense, 1.0, 0, np.empty(0, dtype=np.bool_), 0, 0, 0, 0)


def _no_rows() -> Rows:
    return Rows(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0), np.empty(0))


def _nothing(source: Source) -> Holding:
    """Return what a process holds that leaves the reading to another."""
    if isinstance(source, TextFiles):
        return _piece(source.name, np.empty(0), _no_rows(), None)
    if isinstance(source, IdxPair):
        return replace(_piece(source.name, np.empty(0), None, np.empty((0, 0), dtype=np.uint8)), divisor=WHITE)
    return _piece(source.name, np.empty(0), None, np.empty((0, 0)))


def _read(source: Source, whole: bool, index_base: int | None, collectives: Collectives) -> Holding:
    """Return what this process reads."""
    if isinstance(source, TextFiles):
        # with the base still open, the parser must let index 0 pass
        smallest = 0 if index_base is None else index_base
        if whole:
            rows = read_whole(source, smallest)
        else:
            rows = read_share(source, collectives.rank, collectives.size, smallest)
        return _piece(source.name, rows.labels, rows, None)
    if isinstance(source, BuiltinSet):
        features, labels, divisor = read_builtin(source.key)
        return replace(_piece(source.name, labels, None, features), divisor=divisor)
    pixels, classes = read_images(source.images, source.labels)
    return replace(_piece(source.name, classes.astype(np.float64), None, pixels), divisor=WHITE)


def _agree(piece: Holding, whole: bool, index_base: int | None, collectives: Collectives) -> Holding:
    """Return the holding with the whole set's figures, the same on every process."""
    smallest, largest = -1, -1
    if piece.sparse is not None:
        nonzeros = piece.sparse.values.size
        if nonzeros:
            smallest, largest = int(piece.sparse.indices.min()), int(piece.sparse.indices.max())
    else:
        assert piece.dense is not None
        nonzeros, largest = int(np.count_nonzero(piece.dense)), piece.dense.shape[1] - 1
    seen = collectives.gather((piece.labels.size, nonzeros, smallest, largest, piece.divisor))
    counted = seen[:1] if whole else seen
    rows = sum(entry[0] for entry in counted)
    if rows == 0:
        raise DataError(f"{piece.name}: holds no rows; allowed is a set of at least one")
    base = 0
    if piece.sparse is not None:
        base = index_base if index_base is not None else int(all(entry[2] != 0 for entry in counted))
    return replace(
        piece,
        first=0 if whole else sum(entry[0] for entry in seen[: collectives.rank]),
        divisor=seen[0][4],
        rows=rows,
        features=max(0, max(entry[3] for entry in counted) + 1 - base),
        nonzeros=sum(entry[1] for entry in counted),
        index_base=base,
    )
