"""The tables of SPARQ-SGD's comparison in Markdown, and the paper's claim held against what was found."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mpi_opt.report.columns import Record
from mpi_opt.report.comparison import Comparison, Question, records
from mpi_opt.report.course import Course
from mpi_opt.report.grouping import grouped
from mpi_opt.report.measures import Measure
from mpi_opt.run.progress import size
from mpi_opt.studies.claims import held_in_words
from mpi_opt.studies.common import table
from mpi_opt.studies.sparq_rows import SPARQ, Row

LARGE = 10.0
"""A saving is called large from this factor on."""

LOSS = 0.01
"""Difference in test error at the end that is called no loss."""

NEVER = "not reached"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a row.

    Attributes
    ----------
    row : Row
    seed : int
    course : Course
    """

    row: Row
    seed: int
    course: Course

    @property
    def rate(self) -> float:
        """Its consensus rate; NaN where there is none."""
        return float(self.course.attributes["consensus_rate"])


Asked: TypeAlias = Mapping[Row, Record]
"""Of each row, over its seeds: median, and least and most under ``NAME_min`` and ``NAME_max``."""


def ask(runs: Sequence[Run], target: float | None, place: str = "mean") -> Asked:
    """Return what every row spent until the test error at ``place`` was ``target``, or by its last evaluation.

    Raises
    ------
    DataError
        A run has no test error.
    """
    question = Question(measure=Measure("error", {}), place=place, target=target)
    found: dict[Row, Record] = {}
    for row in dict.fromkeys(run.row for run in runs):
        courses = [run.course for run in runs if run.row is row]
        comparison = Comparison(
            question=question, records=tuple(records(courses, question, courses[0])), heading=(), notes=()
        )
        found[row] = grouped(comparison, courses, courses[0], _alike).records[0]
    return found


def _alike(_one: Course, _other: Course, _loosely: bool) -> bool:
    return True  # a row's runs differ by seed and by the rate that each seed found, and by nothing else


def page(runs: Sequence[Run], targets: Sequence[float]) -> str:
    """Return the tables of a page.

    Raises
    ------
    DataError
        A run has no test error.
    """
    last, asked = ask(runs, None), {target: ask(runs, target) for target in targets}
    parts = ["### At the end of the runs", _ends([row for row in last if row.part == "rivals"], runs, last)]
    for target in targets:
        rows = [row for row in last if row.part == "rivals"]
        parts += [f"### Until a test error of {target:g}", _to(rows, asked[target])]
    for part, words in (("k", "Entries kept"), ("rates", "The consensus rate")):
        rows = [row for row in last if row.part == part]
        if rows:
            parts += [f"### {words}", _sweep([row for row in last if row is SPARQ] + rows, runs, last, asked)]
    return "\n\n".join(parts)


def _ends(rows: Sequence[Row], runs: Sequence[Run], last: Asked) -> str:
    head = [*_NAMED, "gamma", "seeds", "fired", "rounds", "sent by all", "a node", "floor"]
    head += [f"error, {words}" for words in _PLACES.values()]
    return table(
        head,
        [
            [
                *_named(row, last[row]),
                _rates(row, runs),
                str(last[row]["runs"]),
                _fired(last[row]),
                spread(last[row], "round", _whole),
                spread(last[row], "sent_bytes", size),
                _a_node(last[row]),
                spread(last[row], "floor_bytes", size),
                *(spread(last[row], f"value_{place}", _error) for place in _PLACES),
            ]
            for row in rows
        ],
    )


def _to(rows: Sequence[Row], asked: Asked) -> str:
    head = [*_NAMED, "reached", "rounds", "messages", "sent by all", "a node", "floor", "x SPARQ's bytes"]
    head += ["best error", "worst node: sent", "averaged model: sent", "x SPARQ's there"]
    ours = asked.get(SPARQ)
    return table(
        head,
        [
            [
                *_named(row, record := asked[row]),
                f"{record['reached']} of {record['runs']}",
                spread(record, "round", _whole),
                spread(record, "messages", _whole) if record["round"] is not None else "–",
                spread(record, "sent_bytes", size),
                _a_node(record),
                spread(record, "floor_bytes", size) if record["round"] is not None else "–",
                in_factor(factor(record, ours, "sent_bytes")),
                spread(record, "best", _error),
                spread(record, "sent_bytes_to_worst", size),
                spread(record, "sent_bytes_to_average", size),
                in_factor(factor(record, ours, "sent_bytes_to_average")),
            ]
            for row in rows
        ],
    )


def _sweep(rows: Sequence[Row], runs: Sequence[Run], last: Asked, asked: Mapping[float, Asked]) -> str:
    head = ["method", "compressor", "gamma", "state", "fired", "sent by all"]
    head += [f"error, {words}" for words in _PLACES.values()]
    head += [f"sent until {target:g}" for target in asked]
    head += [f"averaged model until {target:g}" for target in asked]
    return table(
        head,
        [
            [
                row.name,
                str(last[row]["compressor"]),
                _rates(row, runs),
                str(last[row]["state"]),
                _fired(last[row]),
                spread(last[row], "sent_bytes", size),
                *(spread(last[row], f"value_{place}", _error) for place in _PLACES),
                *(spread(found[row], "sent_bytes", size) for found in asked.values()),
                *(spread(found[row], "sent_bytes_to_average", size) for found in asked.values()),
            ]
            for row in rows
        ],
    )


def claims(runs: Sequence[Run], targets: Sequence[float]) -> str:
    """Return the claim "large savings in bits at no loss of accuracy" against each rival.

    The saving counts at the smallest target that the nodes' own models of SPARQ or of the rival reached in the mean;
    it is large from ``LARGE`` on. Accuracy is that of the nodes' own models at the end, and not lost within ``LOSS``.

    Raises
    ------
    DataError
        A run has no test error.
    """
    ordered = sorted(targets, reverse=True)
    last, asked = ask(runs, None), {target: ask(runs, target) for target in ordered}
    if SPARQ not in last:
        return f"{SPARQ.name} itself was not run."
    head = ["rival", "H", *(f"x fewer bytes to {target:g}" for target in ordered)]
    head += [f"averaged model, to {target:g}" for target in ordered]
    head += ["error at the end: SPARQ, rival", "large saving", "no loss", "held"]
    lines = []
    for row, record in last.items():
        if row.part != "rivals" or row is SPARQ:
            continue
        saved = [factor(found[row], found[SPARQ], "sent_bytes") for found in asked.values()]
        average = [factor(found[row], found[SPARQ], "sent_bytes_to_average") for found in asked.values()]
        met = [k for k, found in enumerate(asked.values()) if any(found[each]["reached"] for each in (row, SPARQ))]
        large = None if not met else saved[met[-1]].least >= LARGE
        ours, theirs = _number(last[SPARQ]["value_mean"]), _number(record["value_mean"])
        lossless = ours - theirs <= LOSS or math.isnan(theirs)
        lines.append(
            [
                row.name,
                _steps(record),
                *map(in_factor, (*saved, *average)),
                f"{_error(ours)}, {_error(theirs)}",
                held_in_words(large),
                held_in_words(lossless),
                held_in_words(None if large is None else large and lossless),
            ]
        )
    return table(head, lines)


@dataclass(frozen=True, slots=True)
class Factor:
    """What a rival spent through what SPARQ spent.

    Attributes
    ----------
    least : float
        NaN where neither got there, 0 where only the rival did.
    bound : bool
        The rival did not get there: the factor is at least this.
    """

    least: float
    bound: bool = False


def factor(rival: Record, ours: Record | None, name: str) -> Factor:
    """Return the factor of medians in a column of bytes; who did not get there has spent at least all it sent."""
    mine, theirs = (math.nan if ours is None else _number(ours[name])), _number(rival[name])
    if mine == 0.0:
        return Factor(math.nan)  # the start itself meets the target
    if math.isnan(mine):
        return Factor(0.0 if ours is not None and not math.isnan(theirs) else math.nan)
    if math.isnan(theirs):
        return Factor(_number(rival["last_sent_bytes"]) / mine, bound=True)
    return Factor(theirs / mine)


def in_factor(found: Factor) -> str:
    """Return it in words."""
    if math.isnan(found.least):
        return "–"
    if found.least == 0.0:
        return "SPARQ not there"
    text = f"{found.least:.2g}" if found.least < 10 else f"{found.least:.0f}"
    return f"at least {text}" if found.bound else text


_NAMED = ("method", "H")
_PLACES = {"mean": "nodes' mean", "worst": "worst node", "average": "averaged model"}


def _named(row: Row, record: Record) -> list[str]:
    return [row.name, _steps(record)]


def _steps(record: Record) -> str:
    return "–" if record["sync_every"] is None else str(record["sync_every"])


def spread(record: Record, name: str, show: Callable[[float], str]) -> str:
    """Return a figure as its median, with least and most over the seeds where they differ; or that it never came."""
    middle, least, most = (_number(record.get(f"{name}{end}")) for end in ("", "_min", "_max"))
    if math.isnan(middle):
        return NEVER
    if least == most or math.isnan(least):
        return show(middle)
    return f"{show(middle)} ({show(least)} to {show(most) if not math.isnan(most) else 'never'})"


def _rates(row: Row, runs: Sequence[Run]) -> str:
    rates = [run.rate for run in runs if run.row is row and not math.isnan(run.rate)]
    if not rates:
        return "–"
    least, most = (f"{rate:.3g}" for rate in (min(rates), max(rates)))
    return least if least == most else f"{least} to {most}"


def _fired(record: Record) -> str:
    fired, syncs = _number(record["fired"]), _number(record["syncs"])
    return "–" if record["compressor"] is None or not syncs > 0 else f"{fired / syncs:.0%}"


def _a_node(record: Record) -> str:
    sent, nodes = _number(record["sent_bytes"]), _number(record["nodes"])
    return "–" if math.isnan(sent) else size(sent / nodes)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _error(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
