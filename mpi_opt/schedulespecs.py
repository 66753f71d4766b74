"""Schedules from what a job says: a number, or a table ``{ schedule = NAME, ... }``."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from mpi_opt.errors import JobError
from mpi_opt.schedules import (
    Constant,
    Cosine,
    FiringRate,
    Inverse,
    Polynomial,
    Step,
    StepSize,
    Stepwise,
    Threshold,
    WarmUp,
    is_number,
    positive,
)
from mpi_opt.words import nearest

_STEP_SIZES: dict[str, type[Constant | Inverse | Step | Cosine]] = {
    "constant": Constant,
    "inverse": Inverse,
    "step": Step,
    "cosine": Cosine,
}
_THRESHOLDS: dict[str, type[Threshold]] = {
    "constant": Constant,
    "polynomial": Polynomial,
    "stepwise": Stepwise,
    "firing-rate": FiringRate,
}
_Made = TypeVar("_Made")


def make_step_size(spec: float | Mapping[str, Any], key: str = "step_size") -> StepSize:
    """Return the step size that a job's value stands for.

    Parameters
    ----------
    spec : float or mapping
        A number > 0, or ``{schedule = "constant" | "inverse" | "step" | "cosine", ...}`` with the fields of that
        schedule and, for any of them, ``warm_up`` (steps).
    key : str
        The job key, for messages.

    Raises
    ------
    JobError
        Unknown name or key (the nearest valid one is named), a missing key, or a value out of range.
    """
    warm_up: int | None = None
    if isinstance(spec, Mapping) and "warm_up" in spec:
        warm_up = spec["warm_up"]
        spec = {word: value for word, value in spec.items() if word != "warm_up"}
    made = _make(spec, key, _STEP_SIZES, ("warm_up",))
    try:
        if isinstance(made, Constant):
            positive("value", made.value)
        return made if warm_up is None else WarmUp(made, warm_up)
    except JobError as error:
        raise JobError(f"{key}.{error}") from None


def make_threshold(spec: float | Mapping[str, Any], key: str = "threshold") -> Threshold:
    """Return the threshold that a job's value stands for.

    Like `make_step_size`: a number >= 0, or ``{schedule = NAME, ...}`` with NAME one of "constant", "polynomial",
    "stepwise", "firing-rate".

    Raises
    ------
    JobError
        See `make_step_size`.
    """
    return _make(spec, key, _THRESHOLDS, ())


def _make(spec: float | Mapping[str, Any], key: str, table: Mapping[str, type[_Made]], extra: tuple[str, ...]) -> _Made:
    """Build one of ``table`` from a number (its "constant") or a mapping."""
    if not isinstance(spec, Mapping):
        if not is_number(spec):
            raise JobError(f"{key} = {spec!r} is not allowed; allowed: a number, or {{ schedule = ..., ... }}")
        spec = {"schedule": "constant", "value": spec}
    given = dict(spec)
    name = given.pop("schedule", None)
    kind: Any = table.get(name) if isinstance(name, str) else None
    if kind is None:
        raise JobError(f"{key}.schedule = {name!r} is unknown{nearest(name, table)}; allowed: {', '.join(table)}")
    required = {field.name: field.default is MISSING for field in fields(kind)}
    allowed = [*required, *extra]
    for word in given:
        if word not in required:
            hint = f"{nearest(word, allowed)}; allowed: {', '.join(allowed)}"
            raise JobError(f"{key}.{word} is unknown for schedule {name!r}{hint}")
    lacking = [word for word, needed in required.items() if needed and word not in given]
    if lacking:
        raise JobError(f"{key} with schedule {name!r} lacks {', '.join(lacking)}; its keys: {', '.join(allowed)}")
    if isinstance(given.get("milestones"), list):
        given["milestones"] = tuple(given["milestones"])
    try:
        made: _Made = kind(**given)
    except JobError as error:
        raise JobError(f"{key}.{error}") from None
    return made
