"""Figures of predictions over all processes: counts of classes, the area under the ROC curve, errors of regression.

Counts and the area are exact, whatever the number of processes; sums of floating-point numbers are folded in rank order
and agree to rounding. A figure that the data do not define is NaN.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector

MOST_CONFUSED = 1000
"""Classes up to which every pair is counted."""

_QUANTILES = 64
"""Values each process names to find where scores are cut into ranges."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by true and predicted class.

    Attributes
    ----------
    rows, predicted, right : ndarray of int64, shape (C,)
        Rows of each class, rows predicted as it, and rows of it predicted so.
    confusion : ndarray of int64, shape (C, C), or None
        ``confusion[a, b]``: rows of class a predicted as b; ``None`` for more than `MOST_CONFUSED` classes.
    """

    rows: Indices
    predicted: Indices
    right: Indices
    confusion: Indices | None

    @property
    def accuracy(self) -> float:
        """Share of rows predicted rightly."""
        return float(_ratio(self.right.sum(), self.rows.sum()))

    @property
    def recall(self) -> Vector:
        """Share of each class's rows predicted as it; NaN for a class without rows."""
        return _ratio(self.right, self.rows)

    @property
    def precision(self) -> Vector:
        """Share of the rows predicted as each class that are of it; NaN for a class never predicted."""
        return _ratio(self.right, self.predicted)

    @property
    def f1(self) -> Vector:
        """``2 right / (rows + predicted)`` of each class; NaN for one neither there nor predicted."""
        return _ratio(2 * self.right, self.rows + self.predicted)

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall over the classes that have rows."""
        return _mean(self.recall)

    @property
    def macro_f1(self) -> float:
        """Mean F1 over the classes that are there or predicted."""
        return _mean(self.f1)


def count_classes(truth: Indices, predicted: Indices, classes: int, collectives: Collectives) -> Counts:
    """Count rows by class; called by all processes together.

    Parameters
    ----------
    truth, predicted : ndarray of int64, shape (rows,)
        Class numbers, 0..classes-1, of this process's rows.
    classes : int
        C.
    collectives : Collectives
    """
    right = truth[truth == predicted]
    counted = np.stack([np.bincount(part, minlength=classes) for part in (truth, predicted, right)])
    rows, decided, hits = collectives.sum(counted.astype(np.int64))
    confusion = None
    if classes <= MOST_CONFUSED:
        cells = np.bincount(truth * classes + predicted, minlength=classes * classes).astype(np.int64)
        confusion = collectives.sum(cells).reshape(classes, classes)
    return Counts(rows, decided, hits, confusion)


def roc_auc(scores: Vector, positive: npt.NDArray[np.bool_], collectives: Collectives) -> float:
    """Return the area under the ROC curve: the share of pairs of a positive and a negative row in the right order.

    Pairs of equal scores count half. Exact: each process sorts its scores and counts rows by distinct value; the values
    go, by ranges that all agree on, to the processes (equal values to the same one), and the pairs are counted there.
    What travels and is held is three numbers a distinct value, spread over the processes.

    Parameters
    ----------
    scores : ndarray of float64, shape (rows,)
        Finite; of this process's rows.
    positive : ndarray of bool, shape (rows,)
    collectives : Collectives
        Called by all processes together.

    Returns
    -------
    float
        The exact area, rounded once; NaN where there are no positive or no negative rows. Up to 4e9 rows in all.
    """
    values, place = np.unique(scores, return_inverse=True)
    counts = [np.bincount(place[rows], minlength=values.size).astype(np.int64) for rows in (positive, ~positive)]
    sample = values[:: max(1, values.size // _QUANTILES)]
    marks = np.sort(np.concatenate(collectives.gather(sample)))
    if marks.size == 0:
        return float("nan")
    cuts = marks[marks.size * np.arange(1, collectives.size) // collectives.size]
    edges = [0, *np.searchsorted(values, cuts, side="left"), values.size]

    def spread(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        pieces = [array[begin:end] for begin, end in pairwise(edges)]
        return np.concatenate(collectives.all_to_all(pieces))

    values, place = np.unique(spread(values), return_inverse=True)
    ones, zeros = np.zeros((2, values.size), dtype=np.int64)
    np.add.at(ones, place, spread(counts[0]))
    np.add.at(zeros, place, spread(counts[1]))
    below = np.cumsum(zeros) - zeros
    found = collectives.gather((int(ones.sum()), int(zeros.sum()), int(ones @ (2 * below + zeros))))
    halves = before = total = 0
    for many, few, inside in found:
        halves += inside + 2 * many * before
        before += few
        total += many
    return halves / (2 * total * before) if total and before else float("nan")


@dataclass(frozen=True, slots=True)
class Errors:
    """How far predicted numbers are from true ones: means of squares and distances, and the share explained."""

    mse: float
    mae: float
    r2: float

    @property
    def rmse(self) -> float:
        """Square root of the mean square."""
        return float(np.sqrt(self.mse))


def count_errors(truth: Vector, predicted: Vector, collectives: Collectives) -> Errors:
    """Return the errors of regression; called by all processes together, with at least one row among them.

    ``r2`` is ``1 - sum (y - z)^2 / sum (y - mean)^2``; NaN where all true values are equal.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = truth - predicted
        sums = np.array([truth.size, truth.sum(), gaps @ gaps, np.abs(gaps).sum()])
        rows, total, squares, distances = collectives.sum(sums)
        spread = truth - total / rows
        around = float(collectives.sum(np.array([spread @ spread]))[0])
        ends = collectives.max([truth.max(initial=-np.inf), (-truth).max(initial=-np.inf)])
        constant = bool(ends[0] == -ends[1])
        explained = float("nan") if constant else float(1 - squares / around)
        return Errors(float(squares / rows), float(distances / rows), explained)


def mean(values: Vector, collectives: Collectives) -> float:
    """Return the mean over all processes' numbers; NaN where there are none."""
    total, count = collectives.sum(np.array([values.sum(), values.size]))
    return float(_ratio(total, count))


def _ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Vector:
    """Return ``part / whole``, NaN where the whole is 0."""
    part, whole = np.asarray(part), np.asarray(whole)
    return np.where(whole == 0, np.nan, part / np.where(whole == 0, 1, whole))


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
