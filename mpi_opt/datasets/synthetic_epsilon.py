"""The stand-in ``epsilon-sim`` for epsilon: dense, one strong common factor, rows of length 1.

Before its row is scaled to length 1, column j is ``l_j z + sqrt(1 - l_j^2) e_j`` with e_j ~ N(0, 1), one z a row, which
has two humps, and loadings |l_j| ~ Beta(0.5, 0.75), positive with probability 0.56; one column in twenty is nearly a
copy of another one. With w_j ~ N(0, 1) / sqrt(1 + 20 r_j / d), r_j a random order of the columns, and m = x.w less its
median and in units of its standard deviation (both of `_PILOT` blocks of rows that are not in the set), the label is +1
with probability ``1 / (1 + exp(-8 m))``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mpi_opt.datasets.synthetic import DRAW_ROWS, Block, check, decimals, fold, parameters, row_draws
from mpi_opt.draws import Key, Purpose
from mpi_opt.types import Indices, Vector

ROWS, FEATURES = 20_000, 2_000
"""Of the stand-in; epsilon itself has 400,000 + 100,000 rows of 2,000."""

_COPIES = 0.05
_LIKENESS = (0.9, 0.997)
"""Range of the correlations of near copies."""

_HUMPS = (-0.9, 0.9)
_SPREADS = (0.2, 0.49)
"""Means and standard deviations of z's two humps, before it is scaled to unit variance: of the quantiles 1, 25, 50, 75
and 99 %, -1.3 -0.9 -0.2 0.9 1.9 in epsilon, they give -1.3 -0.9 -0.2 0.9 2.0."""

_STEEPNESS = 8.0
_PILOT = 4
_PLACES = 7


class _Columns(NamedTuple):
    loadings: Vector
    rest: Vector
    copies: Indices
    parents: Indices
    likeness: Vector
    weights: Vector


@dataclass(frozen=True, kw_only=True)
class Epsilon:
    """The recipe of ``epsilon-sim``: ``rows`` rows of ``features`` columns by ``seed``."""

    rows: int = ROWS
    features: int = FEATURES
    seed: int = 0

    def __post_init__(self) -> None:
        check("--rows", self.rows, 1, 2**53, "an integer >= 1")
        check("--features", self.features, 2, 1_000_000, "an integer from 2 to 1000000")

    @property
    def name(self) -> str:
        """``epsilon-sim``."""
        return "epsilon-sim"

    @property
    def settings(self) -> Mapping[str, str | int | float]:
        """What the rows follow from."""
        return {"seed": self.seed}

    @cached_property
    def _columns(self) -> _Columns:
        draws, d = parameters(self.seed), self.features
        loadings = draws.beta(0.5, 0.75, d) * np.where(draws.random(d) < 0.56, 1.0, -1.0)
        order = draws.permutation(d)
        copies, originals = np.split(order, [round(_COPIES * d)])
        parents = originals[draws.integers(originals.size, size=copies.size)]
        likeness = draws.uniform(*_LIKENESS, copies.size)
        weights = draws.standard_normal(d) / np.sqrt(1.0 + 20.0 * draws.permutation(d) / d)
        return _Columns(loadings, np.sqrt(1.0 - loadings**2), copies, parents, likeness, weights)

    @cached_property
    def _standard(self) -> tuple[float, float]:
        """The median and the standard deviation of x.w."""
        pilots = (Key(self.seed, 1, Purpose.SYNTHETIC, k).generator() for k in range(_PILOT))
        scores = np.concatenate([fold(self._rows(draws), self._columns.weights) for draws in pilots])
        return float(np.median(scores)), float(scores.std())

    def draw(self, block: int) -> Block:
        """Return a block of rows."""
        draws = row_draws(self.seed, block)
        rows = self._rows(draws)
        middle, unit = self._standard
        scores = (fold(rows, self._columns.weights) - middle) / unit
        positive = draws.random(DRAW_ROWS) < 1.0 / (1.0 + np.exp(-_STEEPNESS * scores))
        return Block(decimals(np.ascontiguousarray(rows.T), _PLACES), np.where(positive, 1.0, -1.0))

    def _rows(self, draws: np.random.Generator) -> Vector:
        """Return a block's features, shape (features, rows), each row of length 1."""
        of = self._columns
        hump = (draws.random(DRAW_ROWS) < 0.5).astype(np.int64)
        z = np.take(_HUMPS, hump) + np.take(_SPREADS, hump) * draws.standard_normal(DRAW_ROWS)
        z -= np.mean(_HUMPS)
        z /= np.sqrt(np.var(_HUMPS) + np.mean(np.square(_SPREADS)))
        rows = draws.standard_normal((self.features, DRAW_ROWS))
        noise = rows[of.copies]
        rows *= of.rest[:, None]
        rows += of.loadings[:, None] * z
        rows[of.copies] = of.likeness[:, None] * rows[of.parents] + np.sqrt(1.0 - of.likeness**2)[:, None] * noise
        rows /= np.sqrt(np.add.reduce(rows * rows, axis=0))
        return rows
