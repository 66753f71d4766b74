"""Runs of one job under several seeds as one line of a comparison: median, least, most."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from mpi_opt.report.columns import SPREAD, Record, Value
from mpi_opt.report.comparison import Comparison, number
from mpi_opt.report.course import Course


def grouped(
    comparison: Comparison, courses: Sequence[Course], same: Callable[[Course, Course, bool], bool]
) -> Comparison:
    """Return the comparison with runs that only differ by seed as one record: median, least and most.

    A run that did not meet the target counts as one that never does, so the median is there if more than half did.

    Parameters
    ----------
    comparison : Comparison
        With one record for each of ``courses``.
    courses : sequence of Course
    same : callable
        Whether two runs are of one job; the last argument allows other consensus rates, which "auto" finds anew for
        every seed.
    """
    groups: list[list[int]] = []
    notes = list(comparison.notes)
    for index, course in enumerate(courses):
        for loosely in (False, True):
            fits = (group for group in groups if same(courses[group[0]], course, loosely))
            if loosely:  # every seed once: rates that were set by hand stay apart
                seed = course.attributes["seed"]
                fits = (group for group in fits if all(courses[k].attributes["seed"] != seed for k in group))
            group = next(fits, None)
            if group is not None:
                group.append(index)
                break
        else:
            groups.append([index])
    for group in groups:
        rates = sorted({float(courses[k].attributes["consensus_rate"]) for k in group} - {math.nan})
        if len(rates) > 1 and not math.isnan(rates[0]):
            shown = ", ".join(f"{rate:g}" for rate in rates)
            notes.append(f"the group of {courses[group[0]].label} has consensus rates {shown}, as found for each seed")
    made = tuple(_group([comparison.records[index] for index in group]) for group in groups)
    return replace(comparison, records=made, notes=tuple(notes))


def _group(members: Sequence[Record]) -> Record:
    first = members[0]
    record: dict[str, Value] = {**first, "runs": len(members), "seed": " ".join(str(each["seed"]) for each in members)}
    states = list(dict.fromkeys(str(each["state"]) for each in members))
    record["state"] = ", ".join(states)
    if first["reached"] is not None:
        record["reached"] = sum(each["reached"] == 1 for each in members)
    record["ratio_is_bound"] = any(bool(each["ratio_is_bound"]) for each in members)
    for name in SPREAD:
        middle, least, most = _spread([each[name] for each in members])
        record |= {name: middle, f"{name}_min": least, f"{name}_max": most}
    return record


def _spread(values: Sequence[Value]) -> tuple[Value, Value, Value]:
    """Return median, least and most; ``None`` among them stands for infinitely much, and is ``None`` again."""
    numbers = [float(value) if isinstance(value, int | float) else math.inf for value in values]
    if all(isinstance(value, int) for value in values) and len(set(values)) == 1:
        return values[0], values[0], values[0]
    middle = median(numbers)
    return number(middle), number(min(numbers)), number(max(numbers))
