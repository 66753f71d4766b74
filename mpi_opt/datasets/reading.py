"""A set of any kind read by all processes together, each of them a part or, where it has none, nothing."""

import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.builtin import read_builtin
from mpi_opt.datasets.collecting import Collected, collect
from mpi_opt.datasets.holding import Holding, agree
from mpi_opt.datasets.idx import WHITE
from mpi_opt.datasets.packed import read_spread
from mpi_opt.datasets.pixels import read_pixels
from mpi_opt.datasets.records import RecordFiles
from mpi_opt.datasets.rows import Rows, no_rows
from mpi_opt.datasets.shardfile import Contents
from mpi_opt.datasets.shardfile_share import look_into, read_share_of
from mpi_opt.datasets.source import (
    ArrayFiles,
    BuiltinSet,
    IdxPair,
    ShardFiles,
    Source,
    TableFiles,
    TextFiles,
    resolve,
)
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.textfiles import read_share
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector


def hold(words: str | Sequence[str], search: Sequence[Path], reading: Reading, collectives: Collectives) -> Holding:
    """Read a set, all processes together.

    Plain text and tables are read by byte range, ``.npy`` by row range, a share on each process. All else is read once
    on each host, by its lowest rank, and serves the processes of that host: compressed LIBSVM text is spread over them
    as it is read, the rest stays with the reader.

    Parameters
    ----------
    words, search
        As for ``source.resolve``, which rank 0 does for all.
    reading : Reading
        How files are read.
    collectives : Collectives

    Raises
    ------
    DataError
        On every process: what the first process by rank met.
    """
    found, error = None, None
    if collectives.rank == 0:
        try:
            source = resolve(words, search)
            found = source, look_into(source.paths) if isinstance(source, ShardFiles) else []
        except DataError as caught:
            error = caught
    found = collectives.broadcast(found)
    if found is None:
        collectives.check(error)
    source, files = found
    check_keys(source, reading)
    if isinstance(source, ShardFiles):
        return _hold_shards(source, files, collectives)
    # with the base still open, the parser must let index 0 pass
    index_base = reading.index_base
    smallest = 0 if index_base is None else index_base
    if isinstance(source, TextFiles) and not source.compressed:
        everyone = list(range(collectives.size))
        text = _read_share(source, smallest, reading, collectives)
        return _of_text(agree(text, everyone, everyone, index_base, collectives))
    if isinstance(source, TableFiles | ArrayFiles) and source.ranges:
        everyone = list(range(collectives.size))
        piece = collect(source, reading, True, collectives)
        return agree(_collected(source.name, piece, reading), everyone, everyone, 0, collectives, piece.seen)
    names = collectives.gather(socket.gethostname())
    first, host = ([other for other, name in enumerate(names) if name == names[of]] for of in (0, collectives.rank))
    if isinstance(source, TextFiles):
        text = _piece(source.name, *read_spread(source, smallest, host, collectives, reading.nan))
        return _of_text(agree(text, first, host, index_base, collectives))
    reads = host[0] == collectives.rank
    if isinstance(source, TableFiles | ArrayFiles):
        piece = collect(source, reading, reads, collectives)
        return agree(_collected(source.name, piece, reading), [0], host if reads else [], 0, collectives, piece.seen)
    return agree(_read_dense(source, reads, collectives), [0], host if reads else [], index_base, collectives)


def _piece(name: str, rows: Rows, numbers: Indices) -> Holding:
    """Return a holding of text whose figures are still to be agreed on."""
    return Holding(name, rows.labels, rows, None, 1.0, numbers, np.empty(0, dtype=np.bool_), 0, 0, 0, 0)


def _of_text(agreed: Holding) -> Holding:
    return replace(agreed, text_base=agreed.index_base)


def _dense_piece(name: str, table: npt.NDArray[np.uint8] | Vector, labels: Vector, divisor: float) -> Holding:
    """Return a holding of anything else whose figures are still to be agreed on."""
    numbers = np.arange(labels.size, dtype=np.int64)
    return Holding(name, labels, None, table, divisor, numbers, np.empty(0, dtype=np.bool_), 0, 0, 0, 0)


def _hold_shards(source: ShardFiles, files: Sequence[Contents], collectives: Collectives) -> Holding:
    """Return this process's rows of converted files, which know all figures."""
    share = read_share_of(files, collectives)
    return Holding(
        source.name if share.recipe in source.name else f"{source.name} (synthetic: {share.recipe})",
        share.mine.labels,
        share.mine.sparse,
        share.mine.dense,
        share.divisor,
        share.numbers,
        np.ones(collectives.size, dtype=np.bool_),
        share.rows,
        share.features,
        share.nonzeros,
        share.index_base,
        share.mine.weights,
        share.notes,
        share.names,
        share.text_base,
        share.words,
    )


def _collected(name: str, read: Collected, reading: Reading) -> Holding:
    """Return a holding of a table or array whose figures are still to be agreed on."""
    return Holding(
        name,
        read.labels,
        read.sparse,
        read.dense,
        1.0,
        read.numbers,
        np.empty(0, dtype=np.bool_),
        0,
        read.columns,
        0,
        0,
        read.weights,
        read.notes,
        read.names,
        words=reading.labels if reading.labelled else None,
    )


def check_keys(source: Source, reading: Reading) -> None:
    """Refuse keys that say something of tables and arrays for any other set."""
    if isinstance(source, TableFiles | ArrayFiles):
        return
    if not reading.labelled:
        raise DataError(f"{source.name}: has labels; only tables (.csv) and arrays (.npy, .npz) can be without")
    for key in ("label", "weight", "labels"):
        if getattr(reading, key) is not None:
            raise DataError(
                f"{source.name}: data.{key} is for tables (.csv) and arrays (.npy, .npz), and the set is none; "
                "leave the key out"
            )


def _read_share(source: TextFiles, smallest: int, reading: Reading, collectives: Collectives) -> Holding:
    """Return this process's share of plain text."""
    rows, error = no_rows(), None
    try:
        rows = read_share(source, collectives.rank, collectives.size, smallest, reading.nan)
    except DataError as caught:
        error = caught
    collectives.check(error)
    first = sum(collectives.gather(rows.labels.size)[: collectives.rank])
    return _piece(source.name, rows, np.arange(first, first + rows.labels.size, dtype=np.int64))


def _read_dense(source: IdxPair | RecordFiles | BuiltinSet, reads: bool, collectives: Collectives) -> Holding:
    """Return the whole of a set that is no text, or what a process holds that leaves the reading to another."""
    pixels = isinstance(source, IdxPair | RecordFiles)
    nothing: npt.NDArray[Any] = np.empty((0, 0), dtype=np.uint8 if pixels else np.float64)
    piece, error = _dense_piece(source.name, nothing, np.empty(0), WHITE if pixels else 1.0), None
    if reads:
        try:
            if isinstance(source, BuiltinSet):
                piece = _dense_piece(source.name, *read_builtin(source.key))
            else:
                images, classes = read_pixels(source)
                piece = _dense_piece(source.name, images, classes.astype(np.float64), WHITE)
        except DataError as caught:
            error = caught
    collectives.check(error)
    return piece
