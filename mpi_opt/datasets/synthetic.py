"""Sets made by a recipe and a seed: what a recipe is, and its rows in blocks.

Rows are drawn in blocks of `DRAW_ROWS`, each from a key of its own, so they depend neither on how many are written at
a time nor on how many there are in all: the first m rows of a longer set are the set of m rows (but for ``linear`` with
several nodes, whose boundaries move). Sums over columns are folded in column order and values are rounded to decimals,
so that a seed gives the same file on every machine.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError
from mpi_opt.types import Features, Vector

DRAW_ROWS = 1024
"""Rows drawn from one key."""


class Block(NamedTuple):
    """Consecutive rows: features (ndarray or csr_array) and labels as the file has them."""

    features: Features
    labels: Vector


class Recipe(Protocol):
    """How the rows of a set are drawn. Everything is a pure function of the recipe's fields."""

    @property
    def name(self) -> str:
        """What the set is called, in its file and in results."""
        ...

    @property
    def rows(self) -> int:
        """Rows of the set."""
        ...

    @property
    def features(self) -> int:
        """Columns of the set."""
        ...

    @property
    def settings(self) -> Mapping[str, str | int | float]:
        """What the rows follow from beside name, rows and features; the seed first."""
        ...

    def draw(self, block: int) -> Block:
        """Return rows ``block * DRAW_ROWS`` and the `DRAW_ROWS` - 1 after it, also where the set ends before."""
        ...


def blocks(recipe: Recipe) -> Iterator[Block]:
    """Yield a set's rows in order, at most `DRAW_ROWS` at a time."""
    for block in range(-(-recipe.rows // DRAW_ROWS)):
        features, labels = recipe.draw(block)
        left = min(DRAW_ROWS, recipe.rows - block * DRAW_ROWS)
        yield Block(features[:left], labels[:left])


def mark(recipe: Recipe) -> str:
    """Return the line that says in a file what the set is: ``synthetic: NAME key=value ...``."""
    facts = {"rows": recipe.rows, "features": recipe.features, **recipe.settings}
    return f"synthetic: {recipe.name} " + " ".join(f"{key}={value}" for key, value in facts.items())


def parameters(seed: int, node: int = 0) -> np.random.Generator:
    """Return the draws of what a set's rows share: of all of them (node 0), or of what node ``node - 1`` has alone."""
    return Key(seed, node, Purpose.SYNTHETIC, 0).generator()


def row_draws(seed: int, block: int) -> np.random.Generator:
    """Return the draws of one block of rows."""
    return Key(seed, 0, Purpose.SYNTHETIC, 1 + block).generator()


def fold(columns: Vector, weights: Vector) -> Vector:
    """Return ``sum_j weights[j] columns[j]``, added in the order of j whatever the machine.

    Parameters
    ----------
    columns : ndarray, shape (features, rows)
        C-ordered.
    weights : ndarray, shape (features,)

    Returns
    -------
    ndarray, shape (rows,)
    """
    return np.asarray(np.add.reduce(columns * weights[:, None], axis=0))


def decimals(values: Vector, places: int) -> Vector:
    """Return the nearest doubles to ``values`` rounded to decimal places; -0.0 becomes 0.0."""
    return np.asarray(np.round(values, places) + 0.0)


def check(option: str, value: float, low: float, high: float, allowed: str) -> None:
    """Refuse an option's value outside ``low`` to ``high``.

    Raises
    ------
    JobError
        Names the option, the value and what is allowed.
    """
    if not low <= value <= high:
        raise JobError(f"{option} {value:g}: allowed: {allowed}")
