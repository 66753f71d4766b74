"""Any source as pieces in order on rank 0; text is parsed by all processes, a piece each in turn."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.arrays import array_pieces
from mpi_opt.datasets.builtin import read_builtin
from mpi_opt.datasets.converting_send import to_first
from mpi_opt.datasets.idx import WHITE
from mpi_opt.datasets.pieces import Piece
from mpi_opt.datasets.pixels import read_pixels
from mpi_opt.datasets.records import RecordFiles
from mpi_opt.datasets.rows import join_rows, no_rows
from mpi_opt.datasets.shardfile import Contents, names_of, recipe_of, words_of
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.shardfile_read import check_alike, pieces_of, read_slice
from mpi_opt.datasets.source import (
    ArrayFiles,
    BuiltinSet,
    IdxPair,
    ShardFiles,
    Source,
    TableFiles,
    TextFiles,
)
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.synthetic_mark import named
from mpi_opt.datasets.tablelayout import Layout, look
from mpi_opt.datasets.tables import csv_pieces
from mpi_opt.datasets.textfiles import Text, parse_text, read_share, texts
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives

TEXT = 1 << 20
"""Bytes of text that a process parses before it hands the rows on; compressed text counts as unpacked."""

_ENTRIES = 1 << 18


class Kind(NamedTuple):
    """What pieces of a source have in common.

    Attributes
    ----------
    index_base : int or None
        What columns of sparse pieces count from; ``None``: to be told from the pieces.
    divisor : float
        Of dense features.
    features : int
        That the set has at least.
    told_base : int or None
        What the source of the pieces counted columns from, where columns of pieces count from 0.
    recipe : str
        How a synthetic set is called; empty for others.
    names, words : tuple of str or None
        Of features and labels, of a set that was converted before.
    """

    index_base: int | None = 0
    divisor: float = 1.0
    features: int = 0
    told_base: int | None = None
    recipe: str = ""
    names: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None


def paths_of(source: Source) -> tuple[Path, ...]:
    """Return the files of a source."""
    match source:
        case TextFiles() | TableFiles() | ShardFiles() | RecordFiles():
            return source.paths
        case ArrayFiles():
            return tuple(path for path in (source.features, source.labels, source.weights) if path is not None)
        case IdxPair():
            return source.images, source.labels
        case BuiltinSet():
            return ()


def recipe_in(paths: Sequence[Path]) -> str:
    """Return what the first line of synthetic text says; nothing for other text."""
    return named("", paths[0]).removeprefix(" (synthetic: ").removesuffix(")")


def pieces_together(source: Source, reading: Reading, collectives: Collectives) -> Iterator[list[Piece]]:
    """Yield the rows of text or a table in order, round by round; all processes go through it together.

    All but rank 0 get an empty list each round, so that all can agree on what went wrong in it.

    Raises
    ------
    DataError
        On every process: the first error in the files.
    """
    assert isinstance(source, TextFiles | TableFiles)
    if isinstance(source, TextFiles) and source.compressed:
        rounds = _packed(source, reading, collectives)
    else:
        rounds = _shares(source, reading, collectives)
    for piece in rounds:
        yield to_first(piece, collectives)


def pieces_alone(source: Source, reading: Reading) -> tuple[Kind, Iterator[Piece]]:
    """Return the pieces of a source that one process reads; errors as in its reader."""
    match source:
        case ShardFiles():
            files = [open_shards(path) for path in source.paths]
            check_alike(files)
            facts = files[0].facts
            features = max(file.facts.features for file in files)
            named = (names_of(file.facts) for file in files if file.facts.features == features)
            names = next((found for found in named if found is not None), None)
            words = next((found for file in files if (found := words_of(file.facts)) is not None), None)
            kind = Kind(0, facts.divisor, features, facts.index_base, recipe_of(facts), names, words)
            return kind, _of_shards(files)
        case IdxPair() | RecordFiles():
            images, classes = read_pixels(source)
            return Kind(divisor=WHITE), _of_table(images, classes)
        case BuiltinSet():
            table, labels, divisor = read_builtin(source.key)
            return Kind(divisor=divisor), _of_table(table, labels)
        case ArrayFiles():
            return Kind(), array_pieces(source, reading, 0, 1)
        case TableFiles():
            return Kind(), csv_pieces(source, reading, 0, 1)
        case TextFiles():
            raise TypeError("text is read by all processes together")


def read_together(source: Source) -> bool:
    """Return whether all processes take part in reading a source."""
    return isinstance(source, TextFiles) or (isinstance(source, TableFiles) and source.ranges)


def _of_shards(files: Sequence[Contents]) -> Iterator[Piece]:
    for begin, end in pieces_of(files, _ENTRIES):
        part = read_slice(files, begin, end)
        yield Piece(part.dense if part.sparse is None else part.sparse, part.labels, part.weights)  # type: ignore[arg-type]


def _of_table(table: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Iterator[Piece]:
    step = max(1, _ENTRIES // max(1, table.shape[1]))
    for begin in range(0, labels.size, step):
        rows = slice(begin, begin + step)
        yield Piece(table[rows], labels[rows].astype(np.float64), None)


def _shares(source: TextFiles | TableFiles, reading: Reading, collectives: Collectives) -> Iterator[Piece]:
    """Yield what this process parses of plain files, one share of many a round; as many rounds on all processes."""
    parts = max(1, -(-sum(source.sizes) // TEXT))
    smallest = 0 if reading.index_base is None else reading.index_base
    layouts: list[Layout] = []
    for begin in range(0, parts, collectives.size):
        part = begin + collectives.rank

        def parse(part: int = part) -> Piece:
            if part >= parts:
                return _NOTHING
            if isinstance(source, TableFiles):
                if not layouts:  # looking goes through all files, and there may be many parts
                    layouts.append(look(source, reading))
                return _joined(list(csv_pieces(source, reading, part, parts, layouts[0])))
            rows = read_share(source, part, parts, smallest, reading.nan)
            return Piece(rows, rows.labels, None)

        yield _agreed(parse, collectives)


def _packed(source: TextFiles, reading: Reading, collectives: Collectives) -> Iterator[Piece]:
    """Yield what this process parses of compressed text, which rank 0 unpacks and hands out."""
    smallest = 0 if reading.index_base is None else reading.index_base
    unread = texts(source) if collectives.rank == 0 else iter(())
    broken: list[Exception] = []
    while True:
        groups = [_some(unread, broken) for _ in range(collectives.size)] if collectives.rank == 0 else []
        heads = collectives.broadcast([[(text.file, text.at, len(text.data)) for text in group] for group in groups])
        if not any(heads):
            collectives.check(broken[0] if broken else None)
            return
        sent = [np.frombuffer(b"".join(text.data for text in group), dtype=np.uint8) for group in groups]
        nothing = np.empty(0, dtype=np.uint8)
        mine = collectives.all_to_all(sent or [nothing] * collectives.size)[0]
        head = heads[collectives.rank]

        def parse(mine: npt.NDArray[np.uint8] = mine, head: list[tuple[int, int, int]] = head) -> Piece:
            ends = np.cumsum([size for _, _, size in head])
            rows = join_rows(
                parse_text(source, file, at, mine[end - size : end], smallest, reading.nan)
                for (file, at, size), end in zip(head, ends, strict=True)
            )
            return Piece(rows, rows.labels, None)

        yield _agreed(parse, collectives)


def _some(unread: Iterator[Text], broken: list[Exception]) -> list[Text]:
    """Return about ``TEXT`` bytes of text; an error is kept, so that what comes before it is looked at first."""
    taken: list[Text] = []
    size = 0
    try:
        while size < TEXT and not broken:
            (text,) = islice(unread, 1)
            taken.append(text)
            size += len(text.data)
    except ValueError:
        pass  # the end
    except DataError as error:
        broken.append(error)
    return taken


def _agreed(parse: Callable[[], Piece], collectives: Collectives) -> Piece:
    """Return what this process parses; an error on any becomes everybody's."""
    piece, error = _NOTHING, None
    try:
        piece = parse()
    except DataError as caught:
        error = caught
    collectives.check(error)
    return piece


def _joined(pieces: list[Piece]) -> Piece:
    """Return dense pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return _NOTHING
    weights = None
    if pieces[0].weights is not None:
        weights = np.concatenate([piece.weights for piece in pieces if piece.weights is not None])
    features = np.concatenate([np.asarray(piece.features) for piece in pieces])
    labels = np.concatenate([piece.labels for piece in pieces])
    dropped, zeroed = (sum(getattr(piece, what) for piece in pieces) for what in ("dropped", "zeroed"))
    return Piece(features, labels, weights, dropped, zeroed)


_NOTHING = Piece(no_rows(), np.empty(0), None)
