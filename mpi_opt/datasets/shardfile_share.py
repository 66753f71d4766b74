"""Files of a job read by all its processes: one looks into them, each reads its own rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpi_opt.datasets.rows import no_rows
from mpi_opt.datasets.shardfile import Contents, Facts, names_of, recipe_of, words_of
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.shardfile_read import Slice, check_alike, read_slice
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices


class Share(NamedTuple):
    """The rows of one process, and figures of the whole set that are the same on every process.

    Attributes
    ----------
    mine : Slice
        Columns as the source counted them.
    numbers : ndarray of int64, shape (held,)
        The rows' numbers in the set.
    rows, features, nonzeros, index_base : int
    divisor : float
    text_base : int or None
        What the text counts from that the files were made of; ``None`` if they were made of other data.
    recipe : str
        How a synthetic set is called; empty for others.
    notes : tuple of str
        What converting them had to tell.
    names, words : tuple of str or None
        Of the features, and what labels 0, 1, ... stand for; see ``Holding``.
    """

    mine: Slice
    numbers: Indices
    rows: int
    features: int
    nonzeros: int
    index_base: int
    divisor: float
    text_base: int | None
    recipe: str
    notes: tuple[str, ...]
    names: tuple[str, ...] | None
    words: tuple[str, ...] | None


def look_into(paths: Sequence[Path]) -> list[Contents]:
    """Return what every process must know of files to read its rows; one process does this for all.

    Raises
    ------
    DataError
        A file is damaged, or the files make no one set.
    """
    files = [open_shards(path) for path in paths]
    check_alike(files)
    return files


def read_share_of(files: Sequence[Contents], collectives: Collectives) -> Share:
    """Read rows N*r//P to N*(r+1)//P on process r of P; called by all processes together.

    Raises
    ------
    DataError
        On every process: a file is damaged.
    """
    error = None
    facts = [file.facts for file in files]
    rows, base = sum(fact.rows for fact in facts), facts[0].index_base
    features = max(fact.features for fact in facts)
    named = (names for fact in facts if fact.features == features and (names := names_of(fact)) is not None)
    begin, end = (rows * (collectives.rank + more) // collectives.size for more in (0, 1))
    mine = Slice(np.empty(0), no_rows(), None, None)
    try:
        mine = read_slice(files, begin, end, base)
    except DataError as caught:
        error = caught
    collectives.check(error)
    return Share(
        mine,
        np.arange(begin, end, dtype=np.int64),
        rows,
        features,
        sum(fact.nonzeros for fact in facts),
        base,
        facts[0].divisor,
        _text_base(facts[0]),
        recipe_of(facts[0]),
        tuple(str(note) for fact in facts for note in fact.provenance.get("notes", ())),
        next(named, None),
        next((words for fact in facts if (words := words_of(fact)) is not None), None),
    )


def _text_base(facts: Facts) -> int | None:
    """Return what the source counts its columns from, if it is text.

    Tables and arrays are stored as counted from 0. Text read as counted from 1 never is.
    """
    reading = facts.provenance.get("reading", {})
    return None if facts.index_base == 0 and reading.get("index_base") == 1 else facts.index_base
