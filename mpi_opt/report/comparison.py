"""Runs beside each other: what each spent until it met a target, in the columns of ``columns.py``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import Job, spec
from mpi_opt.report.columns import NAMES, SCHEMA, Record, Value
from mpi_opt.report.course import BLOCKS, Course
from mpi_opt.report.measures import PLACES, Measure, between
from mpi_opt.types import Vector

_MEANS = ("compute_seconds", "compress_seconds", "communicate_seconds", "wait_seconds")
_RATIOS = {"rounds_ratio": "round", "bytes_ratio": "sent_bytes", "seconds_ratio": "seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of every run.

    Attributes
    ----------
    measure : Measure
    place : {"average", "mean", "worst"}
        The model that is held against the target.
    target : float or None
        ``None`` compares the last evaluations.
    interpolate : bool
        Estimate what was spent between the row before and the first that meets the target.
    """

    measure: Measure
    place: str = "average"
    target: float | None = None
    interpolate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answer.

    Attributes
    ----------
    question : Question
    records : tuple of mapping
        One for each run or group.
    heading : tuple of str
        What was asked, in words, and how the reference was found.
    notes : tuple of str
        What is not alike between the runs, and what else a reader should know.
    """

    question: Question
    records: tuple[Record, ...]
    heading: tuple[str, ...]
    notes: tuple[str, ...]


def records(courses: Sequence[Course], question: Question, baseline: Course) -> list[Record]:
    """Return the record of each run, with its ratios against ``baseline``.

    Every run has at least one evaluation.

    Raises
    ------
    DataError
        A run has nothing of the measure (no test set).
    """
    base = _record(baseline, question)
    return [with_ratios(_record(course, question), base) for course in courses]


def _record(course: Course, question: Question) -> Record:
    measure, target = question.measure, question.target
    values = {place: measure.values(course, place) for place in measure.places}
    at = values[question.place]
    if measure.name in ("error", "accuracy") and np.isnan(at).all():
        raise DataError(f"{course.path}: the run has no test rows with classes, so no {measure.name} to compare")
    met = course.rows - 1 if target is None else measure.first(at, target)
    best = measure.best(at)
    last = course.rows - 1
    record: dict[str, Value] = dict.fromkeys(NAMES)
    record |= _described(course)
    record |= {
        "measure": measure.name,
        "at": question.place,
        "target": target,
        "reference": measure.optima[course.path] if measure.name == "gap" else None,
        "evaluations": course.rows,
        "reached": None if target is None else int(met is not None),
        "best": None if best is None else float(at[best]),
        "best_round": None if best is None else int(course.shared["round"][best]),
        "last_round": int(course.shared["round"][last]),
        "last_sent_bytes": int(course.sent[:, last].sum()),
        "last_seconds": float(course.most("seconds")[last]),
        "ratio_is_bound": False,
    }
    if met is not None:
        record |= _spent(course, met, _share(at, met, question))
        record |= {f"value_{place}": number(values[place][met]) for place in values}
    for place in values if target is not None else ():
        row = measure.first(values[place], target if target is not None else math.nan)
        if row is not None:
            there = _spent(course, row, _share(values[place], row, question))
            record[f"round_to_{place}"] = there["round"]
            record[f"sent_bytes_to_{place}"] = there["sent_bytes"]
    return record


def _share(values: Vector, row: int, question: Question) -> float:
    """Return how far between the row before and ``row`` the counts are taken: 1 is at ``row``."""
    if not question.interpolate or question.target is None or row == 0:
        return 1.0
    return between(float(values[row - 1]), float(values[row]), question.target)


def _spent(course: Course, row: int, share: float) -> dict[str, Value]:
    """Return the counts at a row, or a share of the way to it from the row before."""
    spent = _counts(course, row)
    if row:
        spent["round_before"] = int(course.shared["round"][row - 1])
    if share < 1.0:
        before = _counts(course, row - 1)
        for name, value in before.items():
            after = spent[name]
            if name != "row" and isinstance(value, int | float) and isinstance(after, int | float):
                spent[name] = value + share * (after - value)
    return spent


def _counts(course: Course, row: int) -> dict[str, Value]:
    shared, totals = course.shared, course.own
    counts: dict[str, Value] = {"row": row}
    for name in ("step", "round", "short_rounds"):
        counts[name] = int(shared[name][row])
    for name in ("syncs", "fired", "messages", "silences", "payload_bytes", "header_bytes", "control_bytes"):
        counts[name] = int(totals[name][:, row].sum())
    for name in _MEANS:
        counts[name] = number(totals[name][:, row].mean())
    for name in ("seconds", "wall_seconds"):
        counts[name] = number(totals[name][:, row].max())
    sent, syncs = course.sent[:, row], counts["syncs"]
    return counts | {
        "blocks_fired": number(totals[BLOCKS][:, row].sum() / syncs) if syncs and BLOCKS in totals else None,
        "epoch": number(shared["epoch"][row]),
        "sent_bytes": int(sent.sum()),
        "busiest_bytes": int(sent.max()),
        "floor_bytes": number(totals["floor_bits"][:, row].sum() / 8.0),
        "consensus_distance": number(shared["consensus_distance"][row]),
    }


def number(value: float) -> float | None:
    """Return a figure as it goes into CSV and JSON, which have no NaN."""
    return float(value) if math.isfinite(value) else None


def _described(course: Course) -> dict[str, Value]:
    job = course.job
    return {
        "run": course.label,
        "runs": 1,
        "method": None if job is None else job.algorithm.name,
        "nodes": course.nodes,
        "sync_every": None if job is None else sync_every(job),
        "compressor": None if job is None else compressor(job),
        "seed": str(course.attributes["seed"]),
        "state": course.word,
    }


def sync_every(job: Job) -> int | None:
    """Return H; ``None`` for methods whose step is a round of whole passes."""
    return None if job.algorithm.step_size is None else job.algorithm.sync_every


def compressor(job: Job) -> str | None:
    """Return the compressor in words, such as ``"sign-top-k k=5%"``; ``None`` where none has a meaning."""
    if job.algorithm.name not in EXCHANGES:
        return None
    table = spec(job.algorithm.compressor)
    return " ".join([table.pop("name"), *(f"{key}={value}" for key, value in table.items() if key != "value_bits")])


def with_ratios(record: Record, base: Record) -> Record:
    """Return the record with what the baseline spent through what it spent itself.

    A baseline that did not meet the target has spent at least all it did: then the ratio is a bound.
    """
    bound = base["round"] is None
    ratios: dict[str, Value] = {}
    for name, column in _RATIOS.items():
        ours, theirs = record[column], base[f"last_{column}" if bound else column]
        if isinstance(ours, int | float) and isinstance(theirs, int | float) and ours > 0:
            ratios[name] = theirs / ours
    return {**record, **ratios, "ratio_is_bound": bound and bool(ratios)}


def choose_baseline(courses: Sequence[Course], name: str | None) -> Course:
    """Return the run that ratios are against: the first, or the one called ``name``.

    Raises
    ------
    JobError
        No run, or several, are called so.
    """
    if name is None:
        return courses[0]
    found = [course for course in courses if name in (course.label, str(course.path))]
    if len(found) != 1:
        known = ", ".join(course.label for course in courses)
        raise JobError(f"--baseline {name}: {'several runs are' if found else 'no run is'} called so; allowed: {known}")
    return found[0]


def places_of(comparison: Comparison) -> tuple[str, ...]:
    """Return where the measure is known."""
    return tuple(place for place in PLACES if place in comparison.question.measure.places)


def as_mapping(comparison: Comparison) -> Mapping[str, object]:
    """Return the comparison as JSON's values."""
    return {
        "schema": SCHEMA,
        "question": list(comparison.heading),
        "runs": [dict(record) for record in comparison.records],
        "notes": list(comparison.notes),
    }
