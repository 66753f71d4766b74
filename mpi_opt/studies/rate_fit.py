"""Slopes and gains out of errors that scatter: every seed gives one, their spread says how far to trust the mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpi_opt.types import Vector

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number found once by each seed.

    Attributes
    ----------
    mean : float
    low, high : float
        Ends of the range that holds the expected value with `CONFIDENCE`, by Student's t; NaN with one seed.
    median, least, most : float
        Over the seeds.
    """

    mean: float
    low: float
    high: float
    median: float
    least: float
    most: float


def estimate(values: Sequence[float] | Vector) -> Estimate:
    """Return what independent ``values``, one a seed, say of their expected value."""
    from scipy.special import stdtrit

    each = np.asarray(values, dtype=np.float64)
    mean, off = float(each.mean()), np.nan
    if each.size > 1:
        reach = float(stdtrit(each.size - 1, 0.5 + CONFIDENCE / 2))
        off = reach * float(each.std(ddof=1)) / np.sqrt(each.size)
    return Estimate(
        mean, float(mean - off), float(mean + off), float(np.median(each)), float(each.min()), float(each.max())
    )


def slope(x: Sequence[float] | Vector, errors: Vector) -> Estimate:
    """Return the slope of ``log errors`` against ``log x``, fitted by least squares for each seed.

    Parameters
    ----------
    x : array_like, shape (m,)
        Positive, not all equal.
    errors : ndarray, shape (seeds, m)
        Positive.
    """
    at = np.log(np.asarray(x, dtype=np.float64))
    at -= at.mean()
    return estimate(np.log(errors) @ at / float(at @ at))


def gain(before: Vector, after: Vector) -> Estimate:
    """Return the factor by which errors fell, ``before / after`` seed by seed, averaged as logarithms.

    Parameters
    ----------
    before, after : ndarray, shape (seeds,)
        Positive; the same seeds.
    """
    logs = estimate(np.log(before) - np.log(after))
    return Estimate(*(float(np.exp(v)) for v in (logs.mean, logs.low, logs.high, logs.median, logs.least, logs.most)))
