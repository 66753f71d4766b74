"""What was reached against rounds, bytes and seconds: a line for each run, or for the seeds of one job."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mpi_opt.job import METHODS
from mpi_opt.report.course import Array, Course
from mpi_opt.report.figures.picture import Picture, words_instead
from mpi_opt.report.figures.style import label, legend, legend_columns, line, linear_axis, log_axis, new_figure
from mpi_opt.report.measures import IN_WORDS, Measure
from mpi_opt.report.strands import Strand, finite, measured, unshown
from mpi_opt.run.progress import size
from mpi_opt.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    "gap": "Objective above the optimum, F − F*",
    "objective": "Objective F",
    "gradient-norm": "Norm of the gradient of F",
    "error": "Test error (share of rows)",
    "accuracy": "Test accuracy (share of rows)",
}
"""Of the axis of each measure."""
BRIEF = {
    "gap": "F − F*",
    "objective": "Objective F",
    "gradient-norm": "Gradient norm",
    "error": "Test error (share)",
    "accuracy": "Test accuracy (share)",
}
"""Where there is more to say."""

_DECADE = 10.0
_NARROW = 3.0
"""Largest value through least up to which a linear axis shows more than a logarithmic one."""


def rounds(course: Course) -> Array:
    """Return the communication rounds at every evaluation."""
    return course.shared["round"]


def sent(course: Course) -> Array:
    """Return the bytes that all nodes had sent at every evaluation."""
    return np.asarray(course.sent.sum(axis=0))


def seconds(course: Course) -> Array:
    """Return the run clock of the slowest node at every evaluation."""
    return course.most("seconds")


def clock_words(courses: Sequence[Course]) -> str:
    """Return what the seconds of runs are."""
    kinds = {"simulated seconds" if c.clock else "one process" if c.lockstep else "seconds" for c in courses}
    if len(kinds) > 1:
        return "Run clock (s; not alike, see notes)"
    return {
        "simulated seconds": "Simulated seconds",
        "one process": "Run clock (s, nodes in turn)",
        "seconds": "Run clock (s)",
    }[kinds.pop()]


def curves(
    strands: Sequence[Strand], measure: Measure, place: str, *, name: str, title: str, target: float | None = None
) -> Picture:
    """Return the picture of a measure against rounds, bytes and seconds.

    Parameters
    ----------
    strands : sequence of Strand
    measure : Measure
    place : {"average", "mean", "worst"}
        The model that is measured.
    name, title : str
        Of the picture.
    target : float, optional
        Drawn as a line across.
    """
    read = measured(measure, place)
    if not any(np.isfinite(read(course)).any() for strand in strands for course in strand.courses):
        return words_instead(
            name, title, f"No run has recorded its {measure.name.replace('-', ' ')} ({IN_WORDS[place]})."
        )
    courses = [course for strand in strands for course in strand.courses]
    xs: tuple[tuple[Callable[[Course], Array], str, Callable[[float], str] | None], ...] = (
        (rounds, "Communication rounds", None),
        (sent, "Sent by all nodes (bytes)", size),
        (seconds, clock_words(courses), None),
    )
    names = [strand.label for strand in strands]
    width = 10.2
    height = 3.1 + 0.19 * math.ceil(len(names) / legend_columns(names, width))
    figure, panels = new_figure(width=width, height=height, columns=len(xs))
    logarithmic = False
    for axes, (along, words, text) in zip(panels, xs, strict=True):
        shown = [strand.series(along).middle for strand in strands]
        for strand, x in zip(strands, shown, strict=True):
            draw(axes, strand, x, read)
        label(axes, x=words, y=NAMES[measure.name] if axes is panels[0] else "")
        along_axis(axes, np.concatenate(shown), text)
        logarithmic = height_axis(axes, strands, measure, place)
        if target is not None:
            axes.axhline(target, color="#777777", linewidth=0.9, linestyle=(0, (1, 2)))
    if target is not None:
        panels[0].annotate(
            f"target {target:g}",
            (0.02, target),
            xycoords=("axes fraction", "data"),
            fontsize=7,
            color="#777777",
            va="bottom",
        )
    legend(figure, panels[0])
    return Picture(
        name=name,
        title=title,
        figure=figure,
        alt=_alt(strands, measure, place),
        caption=caption(strands, measure, place, logarithmic=logarithmic),
    )


def draw(axes: "Axes", strand: Strand, x: Vector, read: Callable[[Course], Vector]) -> None:
    """Draw one strand: the median, and where there are several seeds a shade from least to most."""
    spread = strand.series(read)
    band = (finite(spread.least), finite(spread.most)) if len(strand.courses) > 1 else None
    line(axes, x, finite(spread.middle), strand.look, strand.label, band=band)


def along_axis(axes: "Axes", values: Vector, text: Callable[[float], str] | None = None) -> None:
    """Make the x axis logarithmic, or linear from 0 where values are within a decade; ``text`` as `log_axis`."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size or positive.max() <= _DECADE * positive.min() or not log_axis(axes, "x", values, text):
        linear_axis(axes, "x", text)


def height_axis(axes: "Axes", strands: Sequence[Strand], measure: Measure, place: str) -> bool:
    """Make the y axis logarithmic where that shows more, and return whether it is; what is not positive falls out."""
    values = np.concatenate([strand.series(measured(measure, place)).middle for strand in strands])
    positive = values[np.isfinite(values) & (values > 0)]
    if measure.name == "accuracy" or not positive.size:
        return False
    if measure.name not in ("gap", "gradient-norm") and positive.max() < _NARROW * positive.min():
        return False
    if measure.name == "objective" and (values[np.isfinite(values)] <= 0).any():
        return False
    return log_axis(axes, "y", positive)


def caption(strands: Sequence[Strand], measure: Measure, place: str, *, logarithmic: bool) -> str:
    """Return how the lines are to be read, and what of them is not there."""
    parts = [f"At {IN_WORDS[place]}, at each evaluation; a mark stands on every one or every few of them."]
    if any(len(strand.courses) > 1 for strand in strands):
        parts.append("Of several seeds: medians of both axes at each evaluation, and a shade from least to most.")
    parts += hidden(strands, measure, place, logarithmic=logarithmic)
    puts_out = [
        strand.label
        for strand in strands
        for job in [strand.courses[0].job]
        if job is not None and "output" in METHODS[job.algorithm.name].keys and job.algorithm.output != "local"
    ]
    if puts_out:
        parts.append(f"The last evaluation's bytes include the closing average of all models ({', '.join(puts_out)}).")
    single = [strand.label for strand in strands if len(strand.rows[0]) == 1]
    if single:
        parts.append(f"One evaluation only: {', '.join(single)}.")
    return " ".join(parts)


def hidden(strands: Sequence[Strand], measure: Measure, place: str, *, logarithmic: bool) -> list[str]:
    """Return a sentence on the evaluations that have no place on an axis; empty where all have."""
    told = [text for strand in strands if (text := unshown(strand, measure, place, logarithmic=logarithmic))]
    return [f"Evaluations that are not shown: {'; '.join(told)}."] if told else []


def _alt(strands: Sequence[Strand], measure: Measure, place: str) -> str:
    told = []
    for strand in strands:
        values = strand.series(measured(measure, place)).middle
        known = values[np.isfinite(values)]
        spent = f"{strand.series(rounds).middle[-1]:.0f} rounds, {size(strand.series(sent).middle[-1])}"
        course = f"from {known[0]:.3g} to {known[-1]:.3g} in {spent}" if known.size else "no value"
        told.append(f"{strand.label}: {course}")
    return f"Lines of {NAMES[measure.name]} against rounds, bytes and seconds. {'; '.join(told)}."
