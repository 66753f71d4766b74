"""Runs of one job under several seeds as one line of a comparison: median, least, most."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from mpi_opt.report.columns import SPREAD, Record, Value
from mpi_opt.report.comparison import Comparison, number, with_ratios
from mpi_opt.report.course import Course


def seed_groups(courses: Sequence[Course], same: Callable[[Course, Course, bool], bool]) -> list[list[int]]:
    """Return the numbers of the runs that belong together, in the order of their first runs; ``same`` as `grouped`."""
    groups: list[list[int]] = []
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
    return groups


def grouped(
    comparison: Comparison,
    courses: Sequence[Course],
    baseline: Course,
    same: Callable[[Course, Course, bool], bool],
) -> Comparison:
    """Return the comparison with runs that only differ by seed as one record: median, least and most.

    A run that did not meet the target counts as one that never does, so the median is there if more than half did.

    Parameters
    ----------
    comparison : Comparison
        With one record for each of ``courses``.
    courses : sequence of Course
    baseline : Course
        One of them: ratios are against the medians of its group.
    same : callable
        Whether two runs are of one job; the last argument allows other consensus rates, which "auto" finds anew for
        every seed.
    """
    groups = seed_groups(courses, same)
    notes = list(comparison.notes)
    for group in groups:
        rates = sorted({float(courses[k].attributes["consensus_rate"]) for k in group} - {math.nan})
        if len(rates) > 1 and not math.isnan(rates[0]):
            shown = ", ".join(f"{rate:g}" for rate in rates)
            notes.append(f"the group of {courses[group[0]].label} has consensus rates {shown}, as found for each seed")
    made = [_group([comparison.records[index] for index in group]) for group in groups]
    base = next(record for record, group in zip(made, groups, strict=True) if courses.index(baseline) in group)
    return replace(comparison, records=tuple(with_ratios(each, base) for each in made), notes=tuple(notes))


def _group(members: Sequence[Record]) -> Record:
    first = members[0]
    record: dict[str, Value] = {**first, "runs": len(members), "seed": " ".join(str(each["seed"]) for each in members)}
    record["state"] = ", ".join(dict.fromkeys(str(each["state"]) for each in members))
    if first["reached"] is not None:
        record["reached"] = sum(each["reached"] == 1 for each in members)
    for name in SPREAD:
        middle, least, most = _spread([_amount(each, name) for each in members])
        record |= {name: middle, f"{name}_min": least, f"{name}_max": most}
    return record


def _amount(record: Record, name: str) -> float | None:
    """Return a number of a run; infinitely much where it did not get there, ``None`` where there is none to be had."""
    value = record[name]
    if isinstance(value, int | float):
        return value
    if name.startswith(("value_", "consensus_")):
        return None  # of those that got there
    never = record["reached"] == 0 or (record["target"] is not None and "_to_" in name)
    return math.inf if never else None


def _spread(values: Sequence[float | None]) -> tuple[Value, Value, Value]:
    """Return median, least and most of what there is; ``None`` for infinitely much."""
    known = [value for value in values if value is not None]
    if not known:
        return None, None, None
    if len(set(known)) == 1:
        only = known[0] if isinstance(known[0], int) else number(known[0])
        return only, only, only
    return number(median(known)), number(min(known)), number(max(known))
