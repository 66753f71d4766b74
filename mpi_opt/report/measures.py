"""What a run is measured by, and the first evaluation at which it meets a target. Rows are what was measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from mpi_opt.errors import JobError
from mpi_opt.report.course import Course
from mpi_opt.types import Vector

PLACES = ("average", "mean", "worst")
"""At the averaged model; over the nodes' own models: their mean, the worst."""

IN_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "average": "the averaged model",
        "mean": "the nodes' own models, their mean",
        "worst": "the worst node's own model",
    }
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of merit.

    Attributes
    ----------
    name : {"gap", "objective", "gradient-norm", "error", "accuracy"}
        F - F*, F, |grad F|, share of test rows wrong, or right.
    optima : mapping of Path to float
        F* of each run, by the run's ``path``; only ``gap`` needs it.
    """

    name: str
    optima: Mapping[object, float]

    @property
    def places(self) -> tuple[str, ...]:
        """Where it is known."""
        return ("average",) if self.name == "gradient-norm" else PLACES

    @property
    def of_objective(self) -> bool:
        """Whether it is only comparable between runs that minimise the same function."""
        return self.name in ("gap", "objective", "gradient-norm")

    def values(self, course: Course, place: str) -> Vector:
        """Return the measure at every row, shape (rows,); NaN where unknown or without meaning."""
        shared = course.shared
        if self.name == "gradient-norm":
            return shared["gradient_norm"]
        if self.name in ("error", "accuracy"):
            wrong = shared[f"test_error_{place}"]
            return wrong if self.name == "error" else 1.0 - wrong
        objective = shared[f"objective_{place}"]
        if self.name == "objective":
            return objective
        gap: Vector = objective - self.optima[course.path]
        # Once nodes are lost, F is over the rows that are left, and F* is not its optimum.
        return np.where(shared["nodes_alive"] < course.nodes, np.nan, gap)

    def meets(self, values: Vector, target: float) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
        """Return which values meet the target, equality included; NaN never does."""
        return values >= target if self.name == "accuracy" else values <= target

    def best(self, values: Vector) -> int | None:
        """Return the first row of the best value; ``None`` where none is known."""
        if not np.isfinite(values).any():
            return None
        finite = np.where(np.isfinite(values), values, np.nan)
        return int(np.nanargmax(finite) if self.name == "accuracy" else np.nanargmin(finite))

    def first(self, values: Vector, target: float) -> int | None:
        """Return the first row that meets the target, or ``None``."""
        met = np.flatnonzero(self.meets(values, target))
        return int(met[0]) if met.size else None

    def check_target(self, target: float) -> None:
        """Refuse a target that means nothing.

        Raises
        ------
        JobError
            Names the target and what is allowed.
        """
        allowed = {
            "gap": ("a number > 0", target > 0),
            "gradient-norm": ("a number > 0", target > 0),
            "objective": ("a number", True),
            "error": ("a share from 0 to 1", 0 <= target <= 1),
            "accuracy": ("a share from 0 to 1", 0 <= target <= 1),
        }
        words, fine = allowed[self.name]
        if not math.isfinite(target) or not fine:
            raise JobError(f"--target {target:g}: allowed for the measure {self.name}: {words}")

    def check_place(self, place: str) -> None:
        """Refuse a place where the measure is not known.

        Raises
        ------
        JobError
            Names both and what is allowed.
        """
        if place not in self.places:
            raise JobError(f"--at {place}: not recorded for the measure {self.name}; allowed: {', '.join(self.places)}")


def between(before: float, after: float, target: float) -> float:
    """Return how far from one row to the next (0 to 1) the target lies, on a logarithmic scale where that is possible.

    Both ends are measured, what lies between is not: this is an estimate.
    """
    if min(before, after, target) > 0:
        before, after, target = math.log(before), math.log(after), math.log(target)
    if not math.isfinite(before - after) or before == after:
        return 1.0
    return min(1.0, max(0.0, (target - before) / (after - before)))
