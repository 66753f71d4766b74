"""From the job's word on preparation to the figures of the training set, and to prepared shards."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from mpi_opt.datasets.column_figures import Range, column_range, moments
from mpi_opt.datasets.load import Loaded
from mpi_opt.datasets.memory import check_dense
from mpi_opt.datasets.preparation import ColumnRule, Preparation, RowRule
from mpi_opt.datasets.shard import DataInfo, Shard
from mpi_opt.errors import DataError, JobError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Features, Vector

CENTRED: tuple[ColumnRule, ...] = ("standard", "min-max")
"""Rules that shift columns, where centring is not off."""


class Rules(NamedTuple):
    """What a job says about preparation.

    Attributes
    ----------
    columns : {"none", "standard", "min-max", "max-abs"}
        "standard": mean 0, standard deviation 1; "min-max": from 0 to 1; "max-abs": largest magnitude 1.
    center : "auto" or bool
        Whether columns are shifted; "auto" shifts dense ones only.
    rows : {"none", "l1", "l2", "max"}
        The norm that each row is divided by.
    """

    columns: ColumnRule = "none"
    center: Literal["auto"] | bool = "auto"
    rows: RowRule = "none"


def fit(rules: Rules, parts: Sequence[Features], info: DataInfo, collectives: Collectives) -> Preparation:
    """Find the figures of the training set; called by all processes together.

    Parameters
    ----------
    rules : Rules
        ``center`` is not "auto" any more.
    parts : sequence of ndarray or csr_array, each shape (rows, features)
        The training rows of this process's nodes.
    info : DataInfo
        Of the training set.
    collectives : Collectives

    Returns
    -------
    Preparation
        The same bits on every process, and for every number of nodes. Columns that hold one value keep the factor 1,
        rounding apart. Without centring "min-max" divides by the range alone, so that zeros stay.

    Raises
    ------
    DataError
        On every process: a column's figures do not fit a float64.
    """
    if rules.columns == "none":
        return Preparation(rows=rules.rows)
    within = column_range(parts, info.features, collectives)
    shift: Vector | None = None
    with np.errstate(over="ignore", divide="ignore"):
        if rules.columns == "standard":
            shift, width = moments(parts, within, collectives)
        elif rules.columns == "min-max":
            shift, width = within.least, within.largest - within.least
        else:
            width = within.size
        alone = within.constant if rules.columns != "max-abs" else width == 0.0
        factor: Vector = 1.0 / np.where(alone, 1.0, width)
    _check_finite(rules.columns, within, [factor] if shift is None else [shift, factor], info)
    return Preparation(rules.columns, shift if rules.center else None, factor, rules.rows)


def prepare(rules: Rules, loaded: Loaded, collectives: Collectives) -> tuple[Loaded, Preparation, tuple[str, ...]]:
    """Prepare all shards by the figures of the training rows; called by all processes together.

    Parameters
    ----------
    rules : Rules
    loaded : Loaded
        Its features are replaced shard by shard: where nobody else keeps it, raw and prepared ones are never held
        twice.
    collectives : Collectives

    Returns
    -------
    loaded : Loaded
        Prepared; test rows by the figures of the training rows.
    preparation : Preparation
        What was done.
    notes : tuple of str
        What a user should know about it, the same on every process.

    Raises
    ------
    JobError
        Centring is asked of rules that have none.
    DataError
        On every process: see `fit`; or dense rows that do not fit in memory.
    """
    info, notes, center = loaded.info, [], rules.center
    if center is True and rules.columns not in CENTRED:
        raise JobError(f'prepare.center = true: has no meaning for columns = "{rules.columns}"')
    if center == "auto":
        center = not info.sparse
        if info.sparse and rules.columns in CENTRED:
            notes.append(
                f"prepare: the data are sparse and stay so: columns are scaled ({rules.columns}) but not centred; "
                "prepare.center = true would centre and store them dense"
            )
    center = center and rules.columns in CENTRED
    train, test = list(loaded.train), None if loaded.test is None else list(loaded.test)
    loaded = replace(loaded, train=(), test=None)
    if center and info.sparse:
        rows = sum(shard.rows.size for shard in (*train, *(test or ())))
        nbytes = check_dense(info.name, rows, info.features, collectives)
        notes.append(f"prepare: centred sparse data are stored dense: {nbytes / 1e6:.3g} MB on the fullest machine")
        loaded = replace(loaded, info=_dense(info), test_info=None if test is None else _dense(loaded.test_info))
    ready = fit(rules._replace(center=center), [shard.features for shard in train], info, collectives)
    for shards in (train, test or []):
        _apply(ready, shards)
    return replace(loaded, train=tuple(train), test=None if test is None else tuple(test)), ready, tuple(notes)


def _apply(ready: Preparation, shards: list[Shard]) -> None:
    """Replace every shard of the list by a prepared one."""
    for at in range(len(shards)):
        shards[at] = replace(shards[at], features=ready.apply(shards[at].features))


def _dense(info: DataInfo | None) -> DataInfo:
    assert info is not None
    return replace(info, sparse=False, nonzeros=info.rows * info.features)


def _check_finite(rule: ColumnRule, within: Range, figures: Sequence[Vector], info: DataInfo) -> None:
    """Refuse columns whose figures overflow; figures are the same everywhere, so is the error."""
    bad = np.flatnonzero(~np.logical_and.reduce([np.isfinite(part) for part in figures]))
    if bad.size:
        c = int(bad[0])
        raise DataError(
            f"{info.name}: column {c + info.index_base} reaches from {within.least[c]:g} to {within.largest[c]:g}, "
            f'whose figures do not fit a float64; prepare.columns = "{rule}" needs other units'
        )
