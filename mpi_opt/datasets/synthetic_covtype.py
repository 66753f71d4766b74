"""The stand-in ``covtype-sim`` for covtype.binary: a smoothed bootstrap of a real subset, class by class.

A row: its class is drawn, then a real row of that class; normal noise of a tenth of each column's standard deviation is
added to the ten numeric columns, on the integer grid of the UCI data, clipped to their range and scaled to 0..1; the
four wilderness and forty soil columns stay as they are. There is no more information in it than in the real subset, so
nothing follows from it about generalisation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mpi_opt.datasets.source import TextFiles, resolve
from mpi_opt.datasets.synthetic import DRAW_ROWS, Block, check, decimals, row_draws
from mpi_opt.datasets.textfiles import read_whole
from mpi_opt.errors import DataError
from mpi_opt.types import Vector

BASE = "covtype.binary-subset/covtype.libsvm.binary.scale.random11955"
"""The word that the real subset is looked for by."""

ROWS, FEATURES = 581_012, 54

_SECOND = 0.4876
"""Share of the rows of class 2."""

_SMOOTH = 0.1

_LOWEST = np.array([1859.0, 0, 0, 0, -173, 0, 0, 0, 0, 0])
_HIGHEST = np.array([3858.0, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173])
"""Range of the numeric columns in the whole UCI set: elevation, aspect, slope, two distances to water, distance to
roads, hillshade at 9, 12 and 15 h, distance to fire points."""

_NUMERIC = _LOWEST.size
_PLACES = 6
_OFF_GRID = 0.005
"""Six digits of a scaled value miss the integer by no more."""


@dataclass(frozen=True, kw_only=True)
class Covtype:
    """The recipe of ``covtype-sim``.

    Parameters
    ----------
    rows, seed : int
    table : ndarray, shape (base rows, 54)
        Real rows: the numeric columns as UCI integers, then 0 or 1.
    labels : ndarray, shape (base rows,)
        1 or 2 each, both there.
    """

    rows: int = ROWS
    seed: int = 0
    table: Vector = field(repr=False)
    labels: Vector = field(repr=False)

    def __post_init__(self) -> None:
        check("--rows", self.rows, 1, 2**53, "an integer >= 1")

    @property
    def name(self) -> str:
        """``covtype-sim``."""
        return "covtype-sim"

    @property
    def features(self) -> int:
        """54."""
        return FEATURES

    @property
    def settings(self) -> Mapping[str, str | int | float]:
        """What the rows follow from."""
        return {"seed": self.seed, "base_rows": self.labels.size}

    def draw(self, block: int) -> Block:
        """Return a block of rows."""
        from scipy.sparse import csr_array

        draws = row_draws(self.seed, block)
        second, which = draws.random(DRAW_ROWS) < _SECOND, draws.random(DRAW_ROWS)
        noise = draws.standard_normal((DRAW_ROWS, _NUMERIC)) * (_SMOOTH * self.table[:, :_NUMERIC].std(axis=0))
        rows = np.empty(DRAW_ROWS, dtype=np.int64)
        for label, mine in ((1.0, ~second), (2.0, second)):
            real = np.flatnonzero(self.labels == label)
            rows[mine] = real[(which[mine] * real.size).astype(np.int64)]
        table = self.table[rows]
        numeric = np.clip(np.rint(table[:, :_NUMERIC] + noise), _LOWEST, _HIGHEST)
        table[:, :_NUMERIC] = decimals((numeric - _LOWEST) / (_HIGHEST - _LOWEST), _PLACES)
        return Block(csr_array(table), np.where(second, 2.0, 1.0))


def read_base(word: str, search: Sequence[Path]) -> tuple[Vector, Vector]:
    """Return the table and labels of a real part of covtype.binary (LIBSVM text in its scaled form).

    Raises
    ------
    DataError
        It is not found, or is something else: names it and says what is needed.
    """
    needed = "covtype-sim is made from real rows of covtype.binary, scaled; name a file of them with --base FILE"
    try:
        source = resolve(word, search)
    except DataError as error:
        raise DataError(f"{str(error).rstrip(chr(46))}. {needed}") from None
    if not isinstance(source, TextFiles):
        raise DataError(f"{word}: is not LIBSVM text. {needed}")
    rows = read_whole(source, 1)
    table = np.zeros((rows.labels.size, FEATURES))
    if rows.indices.size and rows.indices.max() > FEATURES:
        raise DataError(f"{source.name}: has column {rows.indices.max()}, covtype.binary has {FEATURES}. {needed}")
    table[np.repeat(np.arange(rows.labels.size), np.diff(rows.indptr)), rows.indices - 1] = rows.values
    if not np.array_equal(np.unique(rows.labels), [1.0, 2.0]):
        raise DataError(f"{source.name}: its labels are not 1 and 2. {needed}")
    numeric = table[:, :_NUMERIC] * (_HIGHEST - _LOWEST) + _LOWEST
    grid = np.rint(numeric)
    fits = (np.abs(numeric - grid) <= _OFF_GRID) & (grid >= _LOWEST) & (grid <= _HIGHEST)
    ones = table[:, _NUMERIC:]
    good = fits.all(axis=1) & ((ones == 0) | (ones == 1)).all(axis=1)
    good &= (ones[:, :4].sum(axis=1) == 1) & (ones[:, 4:].sum(axis=1) == 1)
    if not good.all():
        raise DataError(f"{source.name}: row {int(good.argmin()) + 1} is no scaled row of covtype.binary. {needed}")
    table[:, :_NUMERIC] = grid
    return table, rows.labels
