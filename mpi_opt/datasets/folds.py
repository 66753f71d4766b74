"""Folds of the training rows: by row number from the seed, whatever the nodes and the partition."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.load import Loaded
from mpi_opt.datasets.shard import DataInfo, Shard
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector
from mpi_opt.words import number_text


def deal_folds(loaded: Loaded, folds: int, seed: int, collectives: Collectives) -> Indices:
    """Return the fold of every row, the same on every process; called by all processes together.

    A permutation of the rows is drawn from ``Key(seed, 0, VALIDATION, 0)``, sorted by label (stably; not for
    regression) and dealt out one by one: folds differ by one row at most, and so do each class's parts of them.

    Parameters
    ----------
    loaded : Loaded
    folds : int
        At least 2.
    seed : int
    collectives : Collectives

    Returns
    -------
    ndarray of int64
        By row number in the set, -1 for rows that are not trained on.

    Raises
    ------
    DataError
        On every process: fewer rows than folds, a class that some fold would have no row left to learn from, or a fold
        that would hold one class only.
    """
    rows = _everyone(np.concatenate([shard.rows for shard in loaded.train]), collectives)
    labels: Vector = _everyone(np.concatenate([shard.labels for shard in loaded.train]), collectives)
    count, name = rows.size, loaded.info.name
    if count < folds:
        raise DataError(f"{name}: validation.folds = {folds}, but there are {count} rows; allowed: at most {count}")
    ascending = np.argsort(rows)
    rows, labels = rows[ascending], labels[ascending]
    order = Key(seed, 0, Purpose.VALIDATION, 0).generator().permutation(count)
    if loaded.info.labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(count, dtype=np.int64)
    fold[order] = np.arange(count) % folds
    if loaded.info.labels is not None:
        _check_classes(labels, fold, folds, loaded.info)
    result = np.full(rows[-1] + 1, -1, dtype=np.int64)
    result[rows] = fold
    return result


def without_fold(loaded: Loaded, fold_of: Indices, fold: int, collectives: Collectives) -> Loaded:
    """Return the rows of all other folds to train on and those of ``fold`` to test on, each on its node.

    Parameters
    ----------
    loaded : Loaded
    fold_of : ndarray of int64
        As `deal_folds` returns it.
    fold : int
    collectives : Collectives
    """
    inside = [fold_of[shard.rows] == fold for shard in loaded.train]
    train = tuple(_rows(shard, ~mask) for shard, mask in zip(loaded.train, inside, strict=True))
    test = tuple(_rows(shard, mask) for shard, mask in zip(loaded.train, inside, strict=True))
    return Loaded(train, test, _info(loaded.info, train, collectives), _info(loaded.info, test, collectives), ())


def _everyone(mine: npt.NDArray[Any], collectives: Collectives) -> npt.NDArray[Any]:
    """Return the numbers of all processes, in rank order."""
    return np.concatenate(collectives.all_to_all([mine] * collectives.size))


def _check_classes(labels: Vector, fold: Indices, folds: int, info: DataInfo) -> None:
    """Refuse folds from which nothing can be learned, or nothing seen."""
    assert info.labels is not None
    called = {used: label for label, used in info.labels.items()}
    distinct, members = np.unique(labels, return_inverse=True)
    held = np.bincount(members * folds + fold, minlength=distinct.size * folds).reshape(distinct.size, folds)
    counts = held.sum(axis=1)
    rare = int(counts.argmin())
    word = f"label {number_text(called[float(distinct[rare])])} has {counts[rare]} of {labels.size} training rows"
    if distinct.size < 2:
        raise DataError(f"{info.name}: all training rows have one label; cross-validation needs two")
    if (held == counts[:, np.newaxis]).any():
        raise DataError(f"{info.name}: {word}: the fold that holds it leaves none to train on; allowed: at least 2")
    if ((held > 0).sum(axis=0) < 2).any():
        raise DataError(
            f"{info.name}: validation.folds = {folds}, but {word}: some folds would hold one label only; allowed: at "
            f"most {counts[rare]} folds, or more rows"
        )


def _rows(shard: Shard, mask: Indices) -> Shard:
    weights = None if shard.weights is None else shard.weights[mask]
    return replace(
        shard, features=shard.features[mask], labels=shard.labels[mask], rows=shard.rows[mask], weights=weights
    )


def _info(info: DataInfo, shards: Sequence[Shard], collectives: Collectives) -> DataInfo:
    rows = sum(shard.rows.size for shard in shards)
    entries = sum(shard.features.nnz if info.sparse else shard.features.size for shard in shards)
    total = collectives.sum(np.array([rows, entries]))
    return replace(info, rows=int(total[0]), nonzeros=int(total[1]))
