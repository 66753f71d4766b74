"""What all figures look like: colours that the colour-blind can tell apart, markers and dashes for black and white.

No figure goes through ``pyplot``: it keeps a global list and may look for a display. Matplotlib is loaded by the first
call, so that no other command needs it. Colours: Okabe and Ito, "Color Universal Design" (2008), without its yellow,
which is lost on white paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from mpi_opt.errors import JobError
from mpi_opt.report.figures.output import FORMATS, INK, RULE, inline_svg, save
from mpi_opt.report.figures.ticks import Numbers, linear_axis, log_axis, power_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FORMATS",
    "INK",
    "RULE",
    "Mark",
    "Numbers",
    "inline_svg",
    "label",
    "legend",
    "line",
    "linear_axis",
    "log_axis",
    "mark",
    "need_matplotlib",
    "new_figure",
    "note",
    "power_text",
    "save",
    "shown",
]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    (0, (5.0, 1.6)),
    (0, (1.2, 1.4)),
    (0, (6.0, 1.5, 1.2, 1.5)),
    (0, (3.0, 1.2, 1.0, 1.2, 1.0, 1.2)),
)
MODEL_DASHES = (0, (2.0, 2.0))
"""Of lines that were not measured but computed by a model."""

_SMALL, _PLAIN = 8.0, 9.0
_MARKS_A_LINE = 12
_BETWEEN_MARKS = 0.075
"""Of the diagonal of the axes, where a line has more points than marks."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How one run (or method) looks in every figure of a report.

    Attributes
    ----------
    colour : str
    marker : str
    dashes : str or tuple
        Matplotlib's line style.
    """

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[float, ...]]


def mark(index: int) -> Mark:
    """Return the look of the run ``index``, counted from 0; the first 280 are all different, 7 of them in colour."""
    return Mark(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], DASHES[index % len(DASHES)])


def need_matplotlib() -> None:
    """Refuse to go on where figures cannot be drawn.

    Raises
    ------
    JobError
        Matplotlib is not installed: names the extra.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise JobError(
            "figures need matplotlib, which is not installed: pip install 'mpi_opt[report]'; "
            "mpi-opt compare has the same numbers as text"
        ) from None


def new_figure(
    *,
    width: float = 6.4,
    height: float = 3.6,
    rows: int = 1,
    columns: int = 1,
    share_x: bool = False,
    heights: Sequence[float] | None = None,
) -> "tuple[Figure, list[Axes]]":
    """Return an empty figure and its axes, row by row.

    Parameters
    ----------
    width, height : float
        Inches, of the whole figure.
    rows, columns : int
        Of axes.
    share_x : bool
        All axes of a column have one x axis.
    heights : sequence of float, optional
        Of the rows, relative to each other.

    Raises
    ------
    JobError
        Matplotlib is not installed.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False, sharex="col" if share_x else "none", height_ratios=heights)
    axes = [cast("Axes", each) for each in np.asarray(grid).ravel()]
    for each in axes:
        _dress(each)
    return figure, axes


def _dress(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
        axes.spines[side].set_linewidth(0.8)
    axes.set_facecolor("none")
    axes.grid(visible=True, which="major", color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=INK, labelsize=_SMALL, width=0.8)


def label(axes: "Axes", *, x: str, y: str, title: str = "") -> None:
    """Name the axes, with units, and what they show."""
    axes.set_xlabel(x, fontsize=_PLAIN, color=INK)
    axes.set_ylabel(y, fontsize=_PLAIN, color=INK)
    if title:
        axes.set_title(shown(title), fontsize=_PLAIN, color=INK, loc="left")


def line(
    axes: "Axes",
    x: Numbers,
    y: Numbers,
    look: Mark,
    name: str,
    *,
    band: tuple[Numbers, Numbers] | None = None,
    model: bool = False,
) -> None:
    """Draw one run.

    Parameters
    ----------
    axes : Axes
    x, y : array_like, shape (rows,)
        NaN leaves a gap.
    look : Mark
    name : str
        In the legend; empty for none.
    band : (array_like, array_like), optional
        Least and most at each x, as a shade.
    model : bool, optional
        Not measured but computed: thin, dotted, with hollow marks.
    """
    seen = np.isfinite(np.asarray(x, dtype=np.float64)) & np.isfinite(np.asarray(y, dtype=np.float64))
    axes.plot(
        x,
        y,
        color=look.colour,
        marker=look.marker,
        linestyle=MODEL_DASHES if model else look.dashes,
        linewidth=1.0 if model else 1.5,
        markersize=4.5,
        markerfacecolor="none" if model else look.colour,
        markevery=1 if np.count_nonzero(seen) <= _MARKS_A_LINE else _BETWEEN_MARKS,
        label=shown(name) or "_nolegend_",
    )
    if band is not None:
        axes.fill_between(x, band[0], band[1], color=look.colour, alpha=0.18, linewidth=0)


def shown(name: str) -> str:
    """Return a name as matplotlib is to be given it: no formula between dollars, a first ``_`` kept."""
    name = name.replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{name}" if name.startswith("_") else name


def legend_columns(names: Sequence[str], width: float) -> int:
    """Return how many of ``names`` fit beside each other above a figure of ``width`` inches."""
    longest = max(map(len, names), default=1)
    return max(1, min(len(names), int(width / (0.75 + 0.068 * longest))))


def legend(figure: "Figure", axes: "Axes", *, columns: int | None = None) -> None:
    """Put the names of what ``axes`` shows above the figure, where they hide nothing; as many a row as fit."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            names,
            loc="outside upper left",
            ncols=columns or legend_columns(names, float(figure.get_figwidth())),
            fontsize=_SMALL,
            frameon=False,
            labelcolor=INK,
            handlelength=3.6,
        )


def note(axes: "Axes", text: str) -> None:
    """Say in the middle of empty axes why nothing is shown."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=_PLAIN, color=INK, wrap=True)
