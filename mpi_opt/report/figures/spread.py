"""How far the nodes are apart: each node's own model beside the average of all."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mpi_opt.report.course import Course
from mpi_opt.report.figures.curves import BRIEF, NAMES, along_axis, draw, height_axis, hidden, rounds
from mpi_opt.report.figures.picture import Picture, words_instead
from mpi_opt.report.figures.style import INK, Mark, label, legend, legend_columns, line, log_axis, new_figure, note
from mpi_opt.report.measures import Measure
from mpi_opt.report.strands import Strand, finite, measured

_AVERAGE = Mark("#0072b2", "o", "-")
_MEAN = Mark("#009e73", "^", (0, (5.0, 1.6)))
_WORST = Mark("#d55e00", "s", (0, (1.2, 1.4)))
_DISTANCE = Mark(INK, "D", "-")
_PLACES = {"average": "averaged model", "mean": "nodes' own, mean", "worst": "worst node's own"}
_CONSENSUS = "Consensus distance (mean square)"


def apart(strands: Sequence[Strand], measure: Measure, name: str) -> Picture:
    """Return the picture of all runs: the worst node's own model, and the consensus distance."""
    title = "The worst node, and how far the nodes are apart"
    if all(course.nodes == 1 for strand in strands for course in strand.courses):
        return words_instead(name, title, "Every run has one node: there is nothing to be apart from.")
    if "worst" not in measure.places:
        measure = Measure("objective", {})
    names = [strand.label for strand in strands]
    width = 10.2
    height = 3.1 + 0.19 * math.ceil(len(names) / legend_columns(names, width))
    figure, (left, right) = new_figure(width=width, height=height, columns=2)
    xs = [strand.series(rounds).middle for strand in strands]
    for strand, x in zip(strands, xs, strict=True):
        draw(left, strand, x, measured(measure, "worst"))
        draw(right, strand, x, lambda course: _positive(course.shared["consensus_distance"]))
    told = hidden(strands, measure, "worst", logarithmic=height_axis(left, strands, measure, "worst"))
    distances = np.concatenate([strand.series(lambda c: c.shared["consensus_distance"]).middle for strand in strands])
    log_axis(right, "y", distances[distances > 0])
    for axes, words in ((left, f"{BRIEF[measure.name]} at the worst node"), (right, _CONSENSUS)):
        along_axis(axes, np.concatenate(xs))
        label(axes, x="Communication rounds", y=words)
    if not np.any(distances > 0):
        note(right, "all models are the same at every evaluation")
    legend(figure, left)
    return Picture(
        name=name,
        title=title,
        figure=figure,
        alt="Lines of the worst node's own measure and of the consensus distance against rounds, one for each run.",
        caption=" ".join(
            [
                "Left the worst node's own model, right the mean over the nodes of the squared distance to the "
                "averaged model. A distance of 0 (the common start; methods in which all nodes hold one model) is not "
                "shown.",
                *told,
            ]
        ),
    )


def spread(course: Course, measure: Measure, name: str) -> Picture:
    """Return the picture of one run: its nodes' own models from least to most, their mean and worst, the average."""
    title = "Spread of the nodes"
    if course.nodes == 1:
        return words_instead(name, title, "The run has one node: its model is the average.")
    if "worst" not in measure.places:
        measure = Measure("objective", {})
    x = course.shared["round"]
    figure, (left, right) = new_figure(width=10.2, height=3.3, columns=2)
    values = {place: finite(measure.values(course, place)) for place in _PLACES}
    for place, look in zip(_PLACES, (_AVERAGE, _MEAN, _WORST), strict=True):
        line(left, x, values[place], look, _PLACES[place])
    every = np.concatenate(list(values.values()))
    own = _own(course, measure)
    if own is not None:
        known = np.isfinite(own).any(axis=0)
        low = np.full(course.rows, math.nan)
        high = low.copy()
        low[known], high[known] = np.nanmin(own[:, known], axis=0), np.nanmax(own[:, known], axis=0)
        left.fill_between(x, low, high, color=_MEAN.colour, alpha=0.15, linewidth=0, label="nodes' own, least to most")
        every = np.concatenate([every, low])
    strand = Strand(label=course.label, courses=(course,), look=_AVERAGE, rows=(np.arange(course.rows),))
    logarithmic = height_axis(left, [strand], measure, "worst")
    if logarithmic:
        log_axis(left, "y", every[every > 0])
    told = [
        text
        for place, words in _PLACES.items()
        for text in hidden([replace(strand, label=words)], measure, place, logarithmic=logarithmic)
    ]
    distance = _positive(course.shared["consensus_distance"])
    line(right, x, distance, _DISTANCE, "")
    if not log_axis(right, "y", distance):
        note(right, "all models are the same at every evaluation")
    for axes, words in ((left, NAMES[measure.name]), (right, _CONSENSUS)):
        along_axis(axes, x.astype(np.float64))
        label(axes, x="Communication rounds", y=words)
    legend(figure, left)
    last = {place: series[-1] for place, series in values.items()}
    return Picture(
        name=name,
        title=title,
        figure=figure,
        alt=(
            f"Lines against rounds; at the end averaged model {last['average']:.4g}, mean of the nodes' own "
            f"{last['mean']:.4g}, worst {last['worst']:.4g}, consensus distance "
            f"{course.shared['consensus_distance'][-1]:.3g}."
        ),
        caption=" ".join(
            [
                f"{_sampled(course)} Where they are apart, the averaged model alone flatters. Right, how far they are "
                "from their average; a distance of 0 is not shown.",
                *told,
            ]
        ),
    )


def _positive(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return values with NaN where a logarithmic axis has no place for them."""
    return np.where(np.isfinite(values) & (values > 0), values, math.nan)


def _own(course: Course, measure: Measure) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    """Return the measure at each node's own model, shape (nodes, rows), where it is recorded."""
    if measure.name in ("error", "accuracy"):
        wrong = course.own["test_error"]
        return finite(wrong if measure.name == "error" else 1.0 - wrong)
    if measure.name == "gradient-norm":
        return None
    own = finite(course.own["objective_local"])
    if measure.name == "gap":
        own = np.where(course.shared["nodes_alive"] < course.nodes, math.nan, own - measure.optima[course.path])
    return own


def _sampled(course: Course) -> str:
    known = int(np.isfinite(course.own["objective_local"][:, -1]).sum())
    if known in (0, course.nodes):
        return f"Own models of all {course.nodes} nodes." if known else "Own models of the nodes."
    return f"Own models of {known} of {course.nodes} nodes were evaluated at the end."
