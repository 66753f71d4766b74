"""The checks of one rank's arguments; errors are `ValueError` and `TypeError`, as scikit-learn has them."""

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_array

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.types import Features, Vector


def number(name: str, value: Any, fits: Callable[[float], bool], allowed: str) -> None:
    """Refuse a parameter that is no number, or not one that fits: names it, its value and what is allowed."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not fits(float(value)):
        raise ValueError(f"{name} = {value!r}; allowed: a number {allowed}")


def check_stopping(tol: Any, max_iter: Any) -> None:
    """Refuse a tolerance below 0 and fewer than one step."""
    number("tol", tol, lambda value: value >= 0, ">= 0")
    if not isinstance(max_iter, numbers.Integral) or isinstance(max_iter, bool) or max_iter < 1:
        raise ValueError(f"max_iter = {max_iter!r}; allowed: an integer of at least 1")


def check_l2(l2: Any) -> None:
    """Refuse a penalty below 0."""
    if l2 is not None:
        number("l2", l2, lambda value: 0 <= value < math.inf, "finite and >= 0, or None")


def check_solver(solver: str | Algorithm) -> None:
    """Refuse what is no method."""
    if isinstance(solver, str):
        if solver not in NEWTON:
            raise ValueError(
                f"solver = {solver!r}; allowed: {', '.join(NEWTON)}, or a method's object such as mpi_opt.SparqSGD(...)"
            )
    elif not hasattr(solver, "step") or not hasattr(solver, "needs"):
        raise ValueError(f"solver = {solver!r}; allowed: a name, or a method's object such as mpi_opt.SparqSGD(...)")


def row_weights(sample_weight: Any, rows: int) -> Vector:
    """Return the weights of rows, float64, shape ``(rows,)``; ones for ``None``, a number for all rows alike."""
    if sample_weight is None:
        return np.ones(rows)
    weights: Vector = check_array(
        np.full(rows, sample_weight) if isinstance(sample_weight, numbers.Real) else sample_weight,
        ensure_2d=False,
        dtype=np.float64,
        ensure_min_samples=0,
        input_name="sample_weight",
    )
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}; allowed: ({rows},), one a row")
    if (weights < 0).any():
        raise ValueError(f"sample_weight holds {weights.min():g}; allowed: numbers >= 0")
    return weights


def canonical(features: Features) -> Features:
    """Return features whose entries are stored once each, which sums over squares of entries need."""
    if isinstance(features, np.ndarray) or features.has_canonical_format:
        return features
    features = features.copy()  # perhaps the caller's own
    features.sum_duplicates()
    return features
