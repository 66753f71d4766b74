"""What all figures look like: colours that the colour-blind can tell apart, markers and dashes for black and white.

No figure goes through ``pyplot``: it keeps a global list and may look for a display. Matplotlib is loaded by the first
call, so that no other command needs it. Colours: Okabe and Ito, "Color Universal Design" (2008), without its yellow,
which is lost on white paper.
"""

import math
import re
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import JobError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers: TypeAlias = npt.ArrayLike

INK = "#1b1b1b"
"""Lines and words; on the page it becomes the reader's text colour."""
RULE = "#c8c8c8"
"""The grid; on the page it becomes the reader's own."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    (0, (5.0, 1.6)),
    (0, (1.2, 1.4)),
    (0, (6.0, 1.5, 1.2, 1.5)),
    (0, (3.0, 1.2, 1.0, 1.2, 1.0, 1.2)),
)
FORMATS = ("png", "pdf", "svg")
"""What `save` writes."""

MODEL_DASHES = (0, (2.0, 2.0))
"""Of lines that were not measured but computed by a model."""

_SMALL, _PLAIN = 8.0, 9.0
_MARKS_A_LINE = 14
_SETTINGS = {"svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}
"""Words stay words: they can be searched and read out; journals refuse the fonts that matplotlib makes of its own."""
_lock = threading.Lock()


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
    *, width: float = 6.4, height: float = 3.6, rows: int = 1, columns: int = 1, share_x: bool = False
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

    Raises
    ------
    JobError
        Matplotlib is not installed.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False, sharex="col" if share_x else "none")
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
        axes.set_title(title, fontsize=_PLAIN, color=INK, loc="left")


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
    count = np.asarray(x).size
    axes.plot(
        x,
        y,
        color=look.colour,
        marker=look.marker,
        linestyle=MODEL_DASHES if model else look.dashes,
        linewidth=1.0 if model else 1.5,
        markersize=4.5,
        markerfacecolor="none" if model else look.colour,
        markevery=max(1, math.ceil(count / _MARKS_A_LINE)),
        label=name or "_nolegend_",
    )
    if band is not None:
        axes.fill_between(x, band[0], band[1], color=look.colour, alpha=0.18, linewidth=0)


def legend(figure: "Figure", axes: "Axes", *, columns: int = 3) -> None:
    """Put the names of what ``axes`` shows above the figure, where they hide nothing."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            names,
            loc="outside upper left",
            ncols=min(columns, len(names)),
            fontsize=_SMALL,
            frameon=False,
            labelcolor=INK,
            handlelength=3.6,
        )


def note(axes: "Axes", text: str) -> None:
    """Say in the middle of empty axes why nothing is shown."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=_PLAIN, color=INK, wrap=True)


def log_axis(axes: "Axes", which: str, values: Numbers) -> bool:
    """Make an axis logarithmic if all that it shows can stand on one; return whether it is.

    Parameters
    ----------
    axes : Axes
    which : {"x", "y"}
    values : array_like
        What it shows; NaN and infinities are passed over. A zero beside positive values (the start of a run, at which
        nothing was sent) gets its own place at the end, and what is below the least positive value is linear.
    """
    finite = np.asarray(values, dtype=np.float64).ravel()
    finite = finite[np.isfinite(finite)]
    positive = finite[finite > 0]
    if not positive.size or (finite < 0).any():
        return False
    axis = axes.xaxis if which == "x" else axes.yaxis
    scale = axes.set_xscale if which == "x" else axes.set_yscale
    least, most = float(positive.min()), float(positive.max())
    if positive.size == finite.size:
        scale("log")
        _ticks(axis, _decades(least, most))
    else:
        from matplotlib.ticker import NullLocator

        scale("symlog", linthresh=least, linscale=0.35)
        _ticks(axis, [0.0, *(tick for tick in _decades(least, most) if tick >= least)])
        axis.set_minor_locator(NullLocator())
        (axes.set_xlim if which == "x" else axes.set_ylim)(0.0, most * 1.15)
    return True


def _decades(least: float, most: float) -> list[float]:
    """Return powers of ten round the values, thinned out, or rounder numbers where there is hardly one."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    inside = [power for power in range(low, high + 1) if least <= 10.0**power <= most]
    if len(inside) < 2:
        return [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
    step = max(1, math.ceil((high - low) / 8))
    return [10.0**power for power in range(low, high + 1, step)]


def _ticks(axis: object, values: Sequence[float]) -> None:
    from matplotlib.axis import Axis
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    axis = cast("Axis", axis)
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_major_formatter(FuncFormatter(lambda value, _position: power_text(value)))
    axis.set_minor_formatter(NullFormatter())


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_text(value: float) -> str:
    """Return a tick's number: ``0.1``, ``20``, ``10⁻⁶``, ``5·10⁴``."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ""
    power = math.floor(math.log10(abs(value)) + 1e-9)
    if -2 <= power <= 3:
        return f"{value:.6g}"
    digits = f"{value / 10.0**power:.3g}"
    raised = f"10{str(power).translate(_RAISED)}"
    return raised if digits == "1" else f"{digits}·{raised}"


def save(figure: "Figure", folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Write a figure as ``folder/name.format``, for each of ``formats`` (of `FORMATS`); return the files.

    The same figure gives the same bytes: no date goes in.

    Raises
    ------
    JobError
        A file cannot be written.
    """
    from mpi_opt.metrics.files import replace_file

    made = []
    for kind in formats:
        path = folder / f"{name}.{kind}"
        replace_file(path, _image(figure, kind, name), durable=False)
        made.append(path)
    return made


_UNDATED: dict[str, dict[str, object]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "mpi_opt"},
    "svg": {"Date": None, "Creator": "mpi_opt"},
}


def _image(figure: "Figure", kind: str, name: str) -> bytes:
    import io

    data = io.BytesIO()
    with _settings():
        if figure.get_layout_engine() is not None:
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once: a second time would move things by a hair
        figure.savefig(data, format=kind, dpi=200, metadata=_UNDATED[kind])
    return _numbered(data.getvalue().decode(), name).encode() if kind == "svg" else data.getvalue()


def inline_svg(figure: "Figure", name: str, title: str, description: str) -> str:
    """Return a figure for an HTML page: no file, no script, readable on light and dark ground and by a screen reader.

    Parameters
    ----------
    figure : Figure
    name : str
        Begins every identifier in it; to be its own on the page.
    title, description : str
        What a screen reader says.
    """
    from html import escape

    text = _image(figure, "svg", name)
    svg = text.decode()[text.decode().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, count=1, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None  # matplotlib always writes one
    width = float(box.group(1).split()[2])
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="{box.group(1)}" style="width:100%;max-width:{width / 72 * 1.35:.2f}in;height:auto" '
        f'aria-labelledby="{name}-title {name}-words">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-words">{escape(description)}</desc>'
    )
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    # The paper is the page's own; words and rules take its colours.
    svg = re.sub(r'(<g id="[^"]*">\s*<path d="[^"]*"\s*style=")fill: #ffffff', r"\1fill: none", svg, count=1)
    return svg.replace(INK, "currentColor").replace(RULE, "var(--rule)")


def _numbered(svg: str, name: str) -> str:
    """Return an SVG whose identifiers are its own and the same every time: ``name-1``, ``name-2``, ..."""
    order: dict[str, str] = {}
    for found in re.findall(r'\bid="([^"]+)"', svg):
        order.setdefault(found, f"{name}-{len(order) + 1}")
    svg = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{order[m.group(1)]}"', svg)
    return re.sub(r'(url\(#|href="#)([^")]+)', lambda m: m.group(1) + order.get(m.group(2), m.group(2)), svg)


@contextmanager
def _settings() -> Iterator[None]:
    """Set what matplotlib only takes for the whole process; one figure at a time, and put back what was there."""
    import matplotlib

    parameters = cast("MutableMapping[str, object]", matplotlib.rcParams)
    with _lock:
        before = {key: parameters[key] for key in _SETTINGS}
        try:
            parameters.update(_SETTINGS)
            yield
        finally:
            parameters.update(before)
