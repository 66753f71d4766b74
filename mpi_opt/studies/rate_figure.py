"""The figure of the rate page: a row a function, errors against T on the left and against n on the right."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mpi_opt.report.figures.style import INK, label, legend, line, log_axis, mark, new_figure, save
from mpi_opt.studies.rate_points import Measured, Series
from mpi_opt.studies.rate_runs import METHODS
from mpi_opt.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "rates"
_DOTS = (0, (1.0, 1.6))
_WORDS = {1.0: "F - F*", 0.5: "mean |grad F|^2"}


def write_figure(series: Sequence[Series], measured: Measured, folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG into ``folder``; return the files.

    Raises
    ------
    JobError
        Matplotlib is not installed, or a file cannot be written.
    """
    return save(rate_figure(series, measured), folder, NAME, ("png", "svg"))


def rate_figure(series: Sequence[Series], measured: Measured) -> "Figure":
    """Return the figure: medians over seeds, shades from least to most, the theorem's slope dotted.

    Series of one node are left out.

    Raises
    ------
    JobError
        Matplotlib is not installed.
    """
    shown = [each for each in series if each.nodes[-1] > 1]
    figure, axes = new_figure(width=7.4, height=2.6 * len(shown), rows=len(shown), columns=2)
    for row, each in enumerate(shown):
        against_T, against_n = axes[2 * row : 2 * row + 2]
        n = max(n for n in each.nodes if len(each.horizons_of(n)) > 1)
        _panel(against_T, each, measured, [(n, T) for T in each.horizons])
        label(against_T, x="steps T", y=_WORDS[each.rate], title=f"{each.ground}, n = {n}")
        if len(each.nodes) > 1:
            _panel(against_n, each, measured, [(m, each.horizons[-1]) for m in each.nodes], by_nodes=True)
            label(against_n, x="nodes n", y=_WORDS[each.rate], title=f"T = {each.horizons[-1]}")
        else:
            _panel(against_n, each, measured, [(n, T) for T in each.horizons], own=True)
            label(against_n, x="steps T", y=_WORDS[each.rate], title=f"a node's own model, n = {n}")
    legend(figure, axes[0])
    return figure


def _panel(
    axes: "Axes",
    series: Series,
    measured: Measured,
    places: Sequence[tuple[int, int]],
    *,
    by_nodes: bool = False,
    own: bool = False,
) -> None:
    x = np.array([place[0] if by_nodes else place[1] for place in places], dtype=np.float64)
    seen: list[Vector] = []
    for method in series.methods:
        errors = np.stack([measured.errors(series, method, n, T, own=own) for n, T in places], axis=1)
        middle = np.median(errors, axis=0)
        look = mark(METHODS.index(method))
        line(axes, x, middle, look, method, band=(errors.min(axis=0), errors.max(axis=0)))
        seen += [errors.ravel()]
    # The theorem's line starts where the plain method does: only its slope is claimed.
    first = float(np.median(measured.errors(series, series.methods[0], *places[0], own=own)))
    expected = first * (x / x[0]) ** -series.rate
    axes.plot(x, expected, color=INK, linewidth=0.9, linestyle=_DOTS, label="the theorem's slope")
    axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{value:.0f}" for value in x])
    axes.minorticks_off()
    shown = np.concatenate([*seen, expected])
    log_axis(axes, "y", shown)
    axes.set_ylim(_round(float(shown.min()), down=True), _round(float(shown.max()), down=False))


def _round(value: float, *, down: bool) -> float:
    """Return the next of 1, 2, 5, 10, 20, ... so that at least two ticks have numbers."""
    power = 10.0 ** np.floor(np.log10(value))
    digits = [digit for digit in (1.0, 2.0, 5.0, 10.0) if (digit * power <= value if down else digit * power >= value)]
    return float((digits[-1] if down else digits[0]) * power)
