"""From pieces of a set, in order, to a ``shards.h5``: memory for a few pieces, whatever the size of the set."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets import shardfile
from mpi_opt.datasets.pieces import Piece
from mpi_opt.datasets.rows import Rows
from mpi_opt.datasets.shardfile import MOST_LABELS, Facts, Layout
from mpi_opt.datasets.shardfile_spool import PIECE, Spool, Values
from mpi_opt.datasets.shardfile_write import write_shards, writing
from mpi_opt.errors import DataError
from mpi_opt.types import Indices, Vector


class Collector:
    """Takes the pieces of a set and writes its file at the end.

    Parameters
    ----------
    path : Path
        Of the file to be written.
    name : str
        What the set is called.
    layout : {"csr", "dense"} or None
        How features are stored; ``None``: as they come.
    single : bool
        Store features as float32.
    divisor : float
        What dense features that come are to be divided by.
    """

    def __init__(self, path: Path, name: str, layout: Layout | None, *, single: bool, divisor: float) -> None:
        self._path, self._name, self._layout, self._divisor = path, name, layout, divisor
        self._real = np.dtype(np.float32 if single else np.float64)
        self._came: Layout | None = None
        self._sparse: bool | None = None
        self._largest, self._smallest = -1, shardfile.INT32_MOST
        self._width = 0
        self.changed = self.rows = self._nonzeros = 0
        self._counts: dict[float, int] | None = {}
        folder = path.parent
        with writing(path):
            self._lengths, self._indices = Spool(np.int64, folder), Spool(np.int32, folder)
            self._labels, self._weights = Spool(np.float64, folder), Spool(np.float64, folder)
            self._values = Values(self._real, folder)
            self._dense: Spool | None = None

    def add(self, piece: Piece) -> None:
        """Append the rows of a piece.

        Raises
        ------
        DataError
            A value is beyond the range of float32, or the piece does not go with those before.
        JobError
            The disk is full.
        """
        if not piece.labels.size:
            return
        came: Layout = "csr" if isinstance(piece.features, Rows) else "dense"
        if self._came not in (None, came) or (self.rows and (piece.weights is None) != (self._weights.size == 0)):
            raise DataError(f"{self._name}: its parts are of different kinds; convert each of them alone")
        self._came = came
        with writing(self._path):
            if isinstance(piece.features, Rows):
                self._add_sparse(piece.features)
            elif self._layout == "csr":
                self._add_sparse(_to_rows(piece.features, piece.labels, self._divisor))
                self._widen(piece.features.shape[1])
            else:
                self._add_dense(piece.features)
            self._labels.add(piece.labels)
            if piece.weights is not None:
                self._weights.add(piece.weights)
        self.rows += piece.labels.size
        self._count(piece.labels)

    def _widen(self, width: int) -> None:
        if self._width not in (0, width):
            raise DataError(f"{self._name}: rows have {self._width} features, and others {width}; allowed is one width")
        self._width = width

    def _add_sparse(self, rows: Rows) -> None:
        values = self._as_stored(rows.values)
        if rows.indices.size:
            self._smallest = min(self._smallest, int(rows.indices.min()))
            self._largest = max(self._largest, int(rows.indices.max()))
        self._lengths.add(np.diff(rows.indptr))
        self._indices.add(rows.indices)
        self._values.add(values)
        self._nonzeros += rows.values.size

    def _add_dense(self, table: npt.NDArray[Any]) -> None:
        self._widen(table.shape[1])
        stored = table if table.dtype == np.uint8 else self._as_stored(table)
        if self._dense is None:
            self._dense = Spool(stored.dtype, self._path.parent)
        self._dense.add(stored)
        self._nonzeros += int(np.count_nonzero(stored))

    def _as_stored(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values in the file's type; counts those that are others then."""
        if self._real == np.float64:
            return values.astype(np.float64, copy=False)
        with np.errstate(over="ignore"):
            stored = values.astype(np.float32)
        if not np.isfinite(stored).all():
            wrong = values[~np.isfinite(stored)][0]
            raise DataError(f"{self._name}: {wrong:g} is beyond the range of float32 (about 3.4e38); store float64")
        self.changed += int(np.count_nonzero(stored != values))
        return stored

    def _count(self, labels: Vector) -> None:
        if self._counts is None:
            return
        for label, rows in zip(*(found.tolist() for found in np.unique(labels, return_counts=True)), strict=True):
            # -0.0 and 0.0 are one label
            self._counts[label + 0.0] = self._counts.get(label + 0.0, 0) + rows
        if len(self._counts) > MOST_LABELS:
            self._counts = None

    def finish(
        self,
        index_base: int | None,
        least: int,
        wanted: int | None,
        provenance: Mapping[str, Any],
        told_base: int | None = None,
    ) -> tuple[Facts, int]:
        """Write the file; return its facts and its bytes.

        Parameters
        ----------
        index_base : {0, 1} or None
            What the columns of sparse pieces count from; ``None``: from 0 if column 0 occurs, else from 1.
        least : int
            Features that the set has at least.
        wanted : int or None
            Features of the file, at least as many as occur.
        provenance : mapping
            JSON values.
        told_base : int or None
            What the file says that its source counts columns from, where that is not ``index_base``.

        Raises
        ------
        DataError
            There are no rows or no features, or more features than wanted.
        JobError
            The file cannot be written.
        """
        if not self.rows:
            raise DataError(f"{self._name}: holds no rows; allowed is a set of at least one")
        dense = self._came == "dense"
        base = 0 if dense else int(self._smallest != 0) if index_base is None else index_base
        found = self._width if dense else max(least, self._largest + 1 - base)
        features = found if wanted is None else wanted
        if not features:
            raise DataError(f"{self._name}: no row has any feature; say how many there are with --features")
        if features < found or (self._dense is not None and features != found):
            raise DataError(
                f"{self._name}: has {found} features, but {features} are wanted; allowed are "
                f"{found if self._dense is not None else f'at least {max(1, found)}'} (--features)"
            )
        layout = self._layout or self._came
        assert layout is not None
        if layout == "dense" and self._dense is None:
            self._densify(features, base)
        facts = Facts(
            # a file may be called what is no text
            name=self._name.encode("utf-8", "backslashreplace").decode(),
            layout=layout,
            rows=self.rows,
            features=features,
            nonzeros=self._nonzeros,
            index_base=base if told_base is None else told_base,
            divisor=self._divisor if dense and layout == "dense" else 1.0,
            constant=self._values.constant if layout == "csr" else None,
            weighted=self._weights.size > 0,
            label_counts=None if self._counts is None else tuple(sorted(self._counts.items())),
            changed=self.changed,
            provenance=provenance,
        )
        return facts, write_shards(self._path, facts, self._arrays(facts, base))

    def _arrays(self, facts: Facts, base: int) -> dict[str, tuple[np.dtype[Any], Iterator[npt.NDArray[Any]]]]:
        """Return each array's type on disk and its numbers, in the file's order."""
        narrow = np.dtype(
            np.uint8 if facts.features <= 1 << 8 else np.uint16 if facts.features <= 1 << 16 else np.int32
        )
        pointers = np.dtype(np.int32 if facts.nonzeros <= shardfile.INT32_MOST else np.int64)
        found: dict[str, tuple[np.dtype[Any], Iterator[npt.NDArray[Any]]]] = {
            "indptr": (pointers, self._pointers()),
            "indices": (narrow, (part - np.int32(base) for part in self._indices)),
            "values": (self._real, iter(self._values)),
            "labels": (self._labels.dtype, iter(self._labels)),
            "weights": (self._weights.dtype, iter(self._weights)),
        }
        if self._dense is not None:
            found["dense"] = (self._dense.dtype, iter(self._dense))
        return {name: found[name] for name in facts.shapes()}

    def _pointers(self) -> Iterator[Indices]:
        done = np.zeros(1, dtype=np.int64)
        yield done
        for part in self._lengths:
            ends = done + np.cumsum(part)
            yield ends
            done = ends[-1:]

    def _densify(self, features: int, base: int) -> None:
        """Make a dense table of the sparse rows collected."""
        self._dense = Spool(self._real, self._path.parent)
        self._nonzeros = 0
        for spool in (self._lengths, self._indices, self._values):
            spool.rewind()
        step = max(1, PIECE // features)
        with writing(self._path):
            while (lengths := self._lengths.take(step)).size:
                table = np.zeros((lengths.size, features), dtype=self._real)
                entries = int(lengths.sum())
                rows = np.repeat(np.arange(lengths.size), lengths)
                table[rows, self._indices.take(entries) - np.int32(base)] = self._values.take(entries)
                self._dense.add(table)
                self._nonzeros += int(np.count_nonzero(table))
        for used in (self._lengths, self._indices, self._values):
            used.close()

    def close(self) -> None:
        """Give all room back."""
        for spool in (self._lengths, self._indices, self._values, self._labels, self._weights, self._dense):
            if spool is not None:
                spool.close()


def _to_rows(table: npt.NDArray[Any], labels: Vector, divisor: float) -> Rows:
    """Return the entries of a table that are not 0, divided as they would be when read."""
    rows, columns = np.nonzero(table)
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=labels.size))).astype(np.int64)
    values = table[rows, columns].astype(np.float64)
    return Rows(indptr, columns.astype(np.int32), values / divisor if divisor != 1.0 else values, labels)
