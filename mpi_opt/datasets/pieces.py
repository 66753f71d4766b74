"""What readers of tables and arrays yield, and what becomes of values in it that are not finite."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from mpi_opt.datasets.numbers import Mask
from mpi_opt.datasets.rows import Rows, select_rows
from mpi_opt.datasets.spec import NanRule
from mpi_opt.errors import DataError
from mpi_opt.types import Indices, Vector

LABEL, WEIGHT = -2, -1
"""Stand for the label and the weight where a column of features is asked for."""

Place: TypeAlias = Callable[[int, int], str]
"""Row of a piece, and column of features, ``LABEL`` or ``WEIGHT`` -> where that is and what is there, for errors."""


class Piece(NamedTuple):
    """Consecutive rows of a set.

    Attributes
    ----------
    features : ndarray of float64, shape (rows, features), or Rows
        ``Rows`` of a sparse set: columns counted from 0, ascending in a row, with the same ``labels``.
    labels : ndarray of float64, shape (rows,)
    weights : ndarray of float64, shape (rows,), or None
    dropped : int
        Rows left out here, because of values that are not finite.
    zeroed : int
        Values that are not finite and were taken as 0.
    columns : int
        Features of the whole set, where rows do not show it: of a sparse set, else 0.
    """

    features: Vector | Rows
    labels: Vector
    weights: Vector | None
    dropped: int = 0
    zeroed: int = 0
    columns: int = 0


def settle(features: Vector, labels: Vector, weights: Vector | None, rule: NanRule, place: Place) -> Piece:
    """Return dense rows in which every number is finite and no weight negative.

    Parameters
    ----------
    features, labels, weights
        As in ``Piece``; ``features`` may be altered.
    rule : {"refuse", "drop-row", "zero"}
        What to do with values that are not finite. Labels and weights have no zero to be taken.
    place : Place

    Raises
    ------
    DataError
        A value that the rule does not cover, or a negative weight.
    """
    gaps = ~np.isfinite(features)
    rows, columns = np.nonzero(gaps) if gaps.any() else (np.empty(0, dtype=np.int64),) * 2
    keep = _keep(rows, columns, labels, weights, rule, place)
    if keep is not None:
        kept = None if weights is None else weights[keep]
        return Piece(features[keep], labels[keep], kept, int(np.count_nonzero(~keep)))
    if rows.size:
        features[rows, columns] = 0.0
    return Piece(features, labels, weights, zeroed=rows.size)


def settle_sparse(rows: Rows, weights: Vector | None, rule: NanRule, place: Place) -> Piece:
    """Return sparse rows in which every number is finite and no weight negative; see ``settle``."""
    gaps = np.flatnonzero(~np.isfinite(rows.values))
    owners = np.searchsorted(rows.indptr, gaps, side="right") - 1
    keep = _keep(owners, rows.indices[gaps].astype(np.int64), rows.labels, weights, rule, place)
    if keep is not None:
        kept = select_rows(rows, keep)
        return Piece(kept, kept.labels, None if weights is None else weights[keep], int(np.count_nonzero(~keep)))
    if gaps.size:
        values = rows.values.copy()
        values[gaps] = 0.0
        rows = replace(rows, values=values)
    return Piece(rows, rows.labels, weights, zeroed=gaps.size)


def _keep(
    rows: Indices, columns: Indices, labels: Vector, weights: Vector | None, rule: NanRule, place: Place
) -> Mask | None:
    """Return which rows stay, or ``None`` for all of them; ``rows`` and ``columns`` say where features are bad."""
    bad_labels = np.flatnonzero(~np.isfinite(labels))
    bad_weights = np.empty(0, dtype=np.int64)
    if weights is not None:
        bad_weights = np.flatnonzero(~np.isfinite(weights))
        negative = np.flatnonzero(weights < 0.0)
        if negative.size:
            raise DataError(f"{place(int(negative[0]), WEIGHT)} is negative; allowed are weights of 0 or more")
    if not (rows.size or bad_labels.size or bad_weights.size):
        return None
    if rule == "drop-row":
        keep = np.ones(labels.size, dtype=np.bool_)
        for bad in (rows, bad_labels, bad_weights):
            keep[bad] = False
        return keep
    faults = [(int(bad[0]), at) for at, bad in ((LABEL, bad_labels), (WEIGHT, bad_weights)) if bad.size]
    if rule == "refuse" and rows.size:
        faults.append((int(rows[0]), int(columns[0])))
    if not faults:
        return None
    row, column = min(faults)
    remedy = "data.nan = 'drop-row' leaves such rows out"
    if column >= 0:
        remedy += ", 'zero' takes 0 for the value"
    raise DataError(f"{place(row, column)} is missing or not finite; {remedy}")
