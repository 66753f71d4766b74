"""Margins of a model on any number of processes: a set is read together, and each process has its part of the rows.

They do not depend on the number of processes, to the last bit: rows are cut where blocks of a fixed
height end, so that every product has the same shape, whoever makes it.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from mpi_opt.datasets.deal import deal
from mpi_opt.datasets.holding import Holding
from mpi_opt.datasets.libsvm import Rows
from mpi_opt.datasets.naming import check_names
from mpi_opt.datasets.partition import Partition
from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.source import ArrayFiles, TableFiles, resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError, JobError
from mpi_opt.model import Model, load_model
from mpi_opt.network.collectives import Collectives
from mpi_opt.predictor import scorer
from mpi_opt.types import Features, Indices, Vector

Extra: TypeAlias = Literal["refuse", "ignore"]

_BLOCK_BYTES = 1 << 19
_MODULE_HEIGHT = 128
_SPARSE_HEIGHT = 1 << 14
"""Sparse rows worked on at a time: their product adds row by row, so where they are cut plays no part."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What a process has of a set, with the model's margins.

    Attributes
    ----------
    name : str
        The set's.
    rows : int
        Of the whole set.
    margins : ndarray of float64, shape (held,) or (C, held)
        See `predictor.margins`; finite.
    labels : ndarray of float64, shape (held,)
        As in the file; words as their numbers.
    words : tuple of str or None
        What the labels 0, 1, ... stand for, where the set tells; the same on every process.
    notes : tuple of str
        What a user should know about the reading, the same on every process.
    model : str
        What errors call the model.
    """

    name: str
    rows: int
    margins: Vector
    labels: Vector
    words: tuple[str, ...] | None
    notes: tuple[str, ...]
    model: str = "the model"


def open_model(path: Path, collectives: Collectives) -> Model:
    """Load a model on every process; an error on one is an error on all.

    Raises
    ------
    DataError
        See `model.load_model`; or processes see different files.
    """
    model, error = None, None
    try:
        model = load_model(path)
    except DataError as caught:
        error = caught
    collectives.check(error)
    assert model is not None
    if len(set(collectives.gather(model.sha256))) > 1:
        raise DataError(f"{path}: is not the same file on all hosts")
    return model


def reading_of(
    model: Model,
    index_base: int | None = None,
    label: str | int | None = None,
    labelled: bool = True,
    name: str = "the model",
) -> Reading:
    """Return how sets are read for a model: as its job read the training set, columns counted from the same base.

    Labels that are words are those of the model.

    Parameters
    ----------
    model : Model
    index_base : {0, 1}, optional
        Another base.
    label : str or int, optional
        Another label column of tables.
    labelled : bool
        False for tables that have neither labels nor weights.
    name : str, optional
        The model's, for errors.

    Raises
    ------
    DataError
        The job that the model carries cannot be read.
    """
    try:
        data = tomllib.loads(model.job).get("data", {})
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}: the job in it is no TOML: {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"{name}: the job in it has data = {data!r}; allowed is a table")
    words = data.get("labels") if model.words is None else model.words
    return Reading(
        index_base=model.index_base if index_base is None else index_base,
        # a row left out would have no prediction
        nan="zero" if data.get("nan") == "zero" else "refuse",
        label=(data.get("label") if label is None else label) if labelled else None,
        weight=data.get("weight") if labelled else None,
        labels=tuple(words) if words is not None and labelled else None,
        labelled=labelled,
    )


def score(
    model: Model,
    words: Sequence[str],
    search: Sequence[Path],
    reading: Reading,
    extra: Extra,
    collectives: Collectives,
    module: str | None = None,
    name: str = "the model",
) -> Scored:
    """Read a set and return the margins of this process's rows; called by all processes together.

    Process i holds consecutive rows, and process i + 1 those after them.

    Parameters
    ----------
    model : Model
    words, search, reading
        As for `datasets.reading.hold`.
    extra : {"refuse", "ignore"}
        What to do with columns beyond the model's. Columns that a sparse set lacks are zeros.
    collectives : Collectives
    module : str, optional
        The factory of the model's module, where it is none of the package's; see `restoring.load_module`.
    name : str, optional
        The model's, for errors: its file.

    Raises
    ------
    DataError
        On every process: the set cannot be read, has more columns than the model, others by name or in another order,
        or numbers too large for it; or its module puts out something else than margins.
    JobError
        On every process: the model's module cannot be made, or raises on these rows.
    """
    see, error = None, None
    try:
        see = scorer(model, module, name)
    except (DataError, JobError) as wrong:
        error = wrong
    collectives.check(error)
    assert see is not None
    listed = words[0] if len(words) == 1 else tuple(words)
    if not _is_table(listed, search, collectives):
        reading = replace(reading, label=None, weight=None, labels=None)
    held = hold(listed, search, reading, collectives)
    if held.features > model.features:
        if extra == "refuse":
            raise DataError(
                f"{held.name}: has {held.features} features (its last column is "
                f"{held.features - 1 + held.index_base}), {name} has {model.features}; "
                "--extra-features ignore leaves the others out"
            )
        held = _narrowed(held, model.features)
    if held.sparse is None and held.features < model.features:
        raise DataError(
            f"{held.name}: has {held.features} features, {name} has {model.features}; allowed are as many "
            "(predict --no-label takes all columns of a table for features)"
        )
    check_names(held.name, held.names, model.names, name)
    # A shift makes sparse rows dense, and dense products depend on their shape.
    dense = held.sparse is None or model.preparation.shift is not None
    height = max(1, min(256, _BLOCK_BYTES // (8 * max(model.features, 1)))) if dense else 1
    if model.module is not None:
        dense, height = True, _MODULE_HEIGHT
    blocks = -(-held.rows // height)
    cuts = np.minimum(blocks * np.arange(collectives.size + 1) // collectives.size * height, held.rows)
    whole = Partition(np.arange(held.rows, dtype=np.int64), cuts.astype(np.int64))
    owners = np.arange(collectives.size, dtype=np.int64)
    (shard,) = deal(held, held.labels, model.features, whole, owners, [collectives.rank], collectives)
    margins, error = np.empty(0), None
    try:
        margins = _margins(see, model.columns, shard.features, height if dense else _SPARSE_HEIGHT)
    except (DataError, JobError) as wrong:  # of a module that does not take the rows of one process
        error = wrong
    collectives.check(error)
    found = Scored(
        held.name,
        held.rows,
        margins,
        shard.labels,
        held.words,
        held.notes,
        name,
    )
    _refuse_infinite(model, found, shard.rows, collectives)
    return found


def _is_table(words: str | Sequence[str], search: Sequence[Path], collectives: Collectives) -> bool:
    """Return whether the set has the columns that a job names; the training set of another kind may have had them."""
    table, error = False, None
    if collectives.rank == 0:
        try:
            table = isinstance(resolve(words, search), TableFiles | ArrayFiles)
        except DataError as caught:
            error = caught
    collectives.check(error)
    return bool(collectives.broadcast(table))


def _narrowed(held: Holding, features: int) -> Holding:
    """Return a holding without the columns from number ``features`` on."""
    if held.sparse is None:
        assert held.dense is not None
        return replace(held, dense=held.dense[:, :features], features=features)
    rows = held.sparse
    kept = rows.indices < features + held.index_base
    ends = np.append(0, np.cumsum(kept))
    fewer = Rows(ends[rows.indptr], rows.indices[kept], rows.values[kept], rows.labels)
    return replace(held, sparse=fewer, features=features)


def _margins(see: Callable[[Features], Vector], columns: int, features: Features, height: int) -> Vector:
    """Return the margins of all rows, made in blocks of ``height`` rows."""
    rows = features.shape[0]
    out: Vector = np.empty((columns, rows) if columns > 1 else rows)
    for begin in range(0, rows, height):
        out[..., begin : begin + height] = see(features[begin : begin + height])
    return out


def _refuse_infinite(model: Model, found: Scored, numbers: Indices, collectives: Collectives) -> None:
    bad = np.flatnonzero(~np.isfinite(np.atleast_2d(found.margins)).all(axis=0))
    rows = [row for row in collectives.gather(int(numbers[bad[0]]) if bad.size else None) if row is not None]
    if rows:
        what = "the module's output is not finite"
        if model.module is None:
            what = "its numbers times the model's weights are beyond the range of doubles"
        raise DataError(f"{found.name}: row {min(rows) + 1}: {what} ({found.model})")
