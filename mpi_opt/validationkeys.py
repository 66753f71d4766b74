"""The keys of ``[validation]``, and its short form of a grid written out."""

from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta

from mpi_opt import jobtext
from mpi_opt.keytypes import Positive, Table, says


class Validation(Table, frozen=True, kw_only=True):
    """``[validation]``: k-fold cross-validation over l2. ``l2`` holds the numbers, largest first."""

    folds: Annotated[int, says("an integer >= 2", ge=2)] = 5
    l2: Annotated[
        list[Annotated[float, Meta(ge=0)]],
        says("a list of numbers >= 0, or { from = 1e-6, to = 1e-2, count = 9 }", min_length=1),
    ]
    choose: Annotated[Literal["loss", "error"], says("loss, error")] = "loss"
    rule: Annotated[Literal["best", "one-standard-error"], says("best, one-standard-error")] = "best"

    def __post_init__(self) -> None:
        if any(later >= earlier for earlier, later in pairwise(self.l2)):
            raise ValueError(
                f"validation.l2 = {jobtext.show(self.l2)}: a number is there twice, or they do not descend"
            )


class _Grid(Table, frozen=True, kw_only=True, rename={"first": "from", "last": "to"}):
    """``{ from = 1e-6, to = 1e-2, count = 9 }``: numbers at equal ratios."""

    first: Positive
    last: Positive
    count: Annotated[int, says("an integer >= 2", ge=2)]


class _Short(Table, frozen=True, kw_only=True):
    l2: _Grid


class _Raw(Table, frozen=True, kw_only=True):
    validation: _Short


def write_out_grid(validation: jobtext.Plain) -> None:
    """Write out ``l2 = { from, to, count }`` in place, and sort the numbers, largest first.

    Raises
    ------
    JobError
        A key or value of the grid is wrong.
    """
    given = validation.get("l2")
    if isinstance(given, dict):
        grid = jobtext.convert({"validation": {"l2": given}}, _Raw).validation.l2
        ratio, gaps = grid.last / grid.first, grid.count - 1
        # both ends are those given, to the last digit; between them 1e-4 is to be called that
        inner = (float(f"{grid.first * ratio ** (k / gaps):.12g}") for k in range(1, gaps))
        given = [grid.first, *inner, grid.last]
        validation["l2"] = given
    if isinstance(given, list) and all(isinstance(each, int | float) for each in given):
        validation["l2"] = sorted(given, reverse=True)
