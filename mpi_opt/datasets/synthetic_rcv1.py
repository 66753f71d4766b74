"""The stand-in ``rcv1-sim`` for rcv1_train.binary: documents of words, sparse, rows of length 1.

A document of class c has about exp(N(4.06, 0.71^2)) different words, clipped to 10..450: so many are drawn, and as many
more as fall together on average, from probabilities proportional to ``exp(c beta g_r) / (r + 28)`` for the word of
popularity rank r, g_r ~ N(0, 1) for a random 30 % of the words and 0 for the rest, beta = 0.6. A word drawn tf times
has the value ``(1 + log tf) (1 + log(1 / df))``, df its expected share of documents; rows are scaled to length 1 and
the columns are in a random order. Where only sparsity and width matter, a real set such as news20 is better.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mpi_opt.datasets.synthetic import DRAW_ROWS, Block, check, decimals, parameters, row_draws
from mpi_opt.types import Indices, Vector

ROWS, FEATURES = 20_242, 47_236

_POSITIVE = 0.518
_LENGTH = (4.06, 0.71)
_SHORTEST, _LONGEST = 10, 450
_OFFSET = 28.0
_TILTED, _TILT = 0.3, 0.6
_PLACES = 6


class _Words(NamedTuple):
    ends: dict[float, Vector]
    """For each class the running sums of the probabilities, by rank."""
    together: float
    """Chance that two draws are the same word."""
    rarity: Vector
    """1 + log(1 / df), by rank."""
    columns: Indices
    """The column of each rank."""


@dataclass(frozen=True, kw_only=True)
class Rcv1:
    """The recipe of ``rcv1-sim``: ``rows`` documents over ``features`` words by ``seed``."""

    rows: int = ROWS
    features: int = FEATURES
    seed: int = 0

    def __post_init__(self) -> None:
        check("--rows", self.rows, 1, 2**53, "an integer >= 1")
        check("--features", self.features, 1000, 2**31 - 2, "an integer from 1000 to 2^31 - 2")

    @property
    def name(self) -> str:
        """``rcv1-sim``."""
        return "rcv1-sim"

    @property
    def settings(self) -> Mapping[str, str | int | float]:
        """What the rows follow from."""
        return {"seed": self.seed}

    @cached_property
    def _words(self) -> _Words:
        draws, d = parameters(self.seed), self.features
        popular = 1.0 / (np.arange(1, d + 1) + _OFFSET)
        tilt = _TILT * draws.standard_normal(d) * (draws.random(d) < _TILTED)
        share = {c: popular * np.exp(c * tilt) for c in (-1.0, 1.0)}
        share = {c: p / p.sum() for c, p in share.items()}
        mean = _POSITIVE * share[1.0] + (1.0 - _POSITIVE) * share[-1.0]
        together = float((mean**2).sum())
        # the share of documents that hold a word: over the lengths, at evenly spaced quantiles of theirs
        lengths = _drawn(_lengths(np.random.Generator(np.random.PCG64(0)).standard_normal(256)), together)
        missing = np.zeros(d)
        for length in lengths:
            missing += np.exp(length * np.log1p(-mean))
        rarity = 1.0 - np.log(1.0 - missing / lengths.size)
        ends = {c: np.cumsum(p) / p.sum() for c, p in share.items()}
        return _Words(ends, together, rarity, draws.permutation(d))

    def draw(self, block: int) -> Block:
        """Return a block of rows."""
        from scipy.sparse import csr_array

        draws, words = row_draws(self.seed, block), self._words
        labels = np.where(draws.random(DRAW_ROWS) < _POSITIVE, 1.0, -1.0)
        drawn = np.rint(_drawn(_lengths(draws.standard_normal(DRAW_ROWS)), words.together)).astype(np.int64)
        rows = np.repeat(np.arange(DRAW_ROWS), drawn)
        where = draws.random(rows.size)
        ranks = np.empty(rows.size, dtype=np.int64)
        for c, ends in words.ends.items():
            mine = labels[rows] == c
            ranks[mine] = np.minimum(np.searchsorted(ends, where[mine], side="right"), self.features - 1)
        found, times = np.unique(rows * self.features + words.columns[ranks], return_counts=True)
        rows, columns = np.divmod(found, self.features)
        by_column = np.empty(self.features)
        by_column[words.columns] = words.rarity
        values = (1.0 + np.log(times)) * by_column[columns]
        values /= np.sqrt(np.bincount(rows, values**2, DRAW_ROWS))[rows]
        starts = np.searchsorted(rows, np.arange(DRAW_ROWS + 1))
        return Block(csr_array((decimals(values, _PLACES), columns, starts), shape=(DRAW_ROWS, self.features)), labels)


def _lengths(normal: Vector) -> Vector:
    """Return numbers of different words."""
    return np.clip(np.exp(_LENGTH[0] + _LENGTH[1] * normal), _SHORTEST, _LONGEST)


def _drawn(lengths: Vector, together: float) -> Vector:
    """Return how many words are to be drawn for so many different ones, nearly: pairs fall together."""
    return lengths + 0.5 * together * lengths**2
