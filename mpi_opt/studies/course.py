"""One method's way to the optimum in lockstep: F after every round, and what it had cost by then.

Rounds, messages and bytes are exact. Seconds are those of a virtual clock: computing counted by operations, messages by
the formulas of a network (`network.clock`, `run.counting`). A method's computing does not depend on the network, so one
run is timed on several.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpi_opt.build import Built
from mpi_opt.network.clock import Clock
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.base import Problem
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.types import Vector


class Point(NamedTuple):
    """Where a method stands after a step."""

    objective: float
    """F at the nodes' common model."""
    rounds: int
    """Reductions of a vector of d numbers or more so far."""
    short: int
    """Reductions of a few numbers: line searches and set-up."""
    sent: int
    """Bytes handed over by all nodes together, payload and headers."""
    seconds: tuple[float, ...]
    """Simulated, on each network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a method is given up.

    Parameters
    ----------
    rounds : int
        Rounds taken at most; a step that ends later does not count.
    objective : float
        F at which no more is asked for.
    every : int
        Steps between two looks at F: of methods that speak at every so many steps.
    """

    rounds: int
    objective: float = -np.inf
    every: int = 1


class Clocks(Clock):
    """A clock that moves those of the other networks along.

    Parameters
    ----------
    built : Built
        Of a job whose computing is counted; its methods reduce over all nodes.
    profiles : sequence of NetworkProfile
        At least one.
    """

    def __init__(self, built: Built, profiles: Sequence[NetworkProfile]) -> None:
        phases, neighbours = built.phases, built.neighbours()

        def meter() -> tuple[Vector, Vector]:
            return np.array([each.compute for each in phases]), np.array([each.compress for each in phases])

        super().__init__(neighbours, profiles[0], meter=meter)
        self._others = [Clock(neighbours, profile, meter=meter) for profile in profiles[1:]]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Time of the node that is last, on each network."""
        return (self.latest, *(clock.latest for clock in self._others))

    def begin(self, step: int) -> None:
        """See `Clock`."""
        super().begin(step)
        for clock in self._others:
            clock.begin(step)

    def computed(self) -> None:
        """See `Clock`."""
        super().computed()
        for clock in self._others:
            clock.computed()

    def reduce(self, nbytes: float) -> None:
        """See `Clock`."""
        super().reduce(nbytes)
        for clock in self._others:
            clock.reduce(nbytes)


class _Watcher:
    """Evaluates F at the first node's model, and keeps what had been spent by then."""

    def __init__(self, problems: Sequence[Problem], network: Lockstep, clocks: Clocks) -> None:
        self._problems, self._network, self._clocks = problems, network, clocks
        self._rows = sum(problem.rows for problem in problems)
        self.points: list[Point] = []

    def evaluate(self, models: Sequence[Vector], step: int) -> list[dict[str, float]]:  # noqa: ARG002 (the contract's)
        """Return one row for each node with the objective at the nodes' common model."""
        model = models[0]
        loss = sum(problem.figures(model).loss for problem in self._problems)
        objective = float(loss / self._rows + self._problems[0].penalty(model))
        traffic = self._network.traffic
        sent = sum(each.payload_bytes + each.header_bytes for each in traffic)
        point = Point(objective, traffic[0].rounds, traffic[0].short_rounds, sent, self._clocks.seconds)
        if not self.points or self.points[-1] != point:
            self.points.append(point)
        unknown = dict.fromkeys(("objective_mean", "objective_worst", "test_error_average", "test_error_worst"), np.nan)
        return [{"objective_average": objective, "gradient_norm": np.inf, **unknown} for _ in models]


def follow(built: Built, profiles: Sequence[NetworkProfile], limits: Limits) -> list[Point]:
    """Run a job whose nodes hold one model between steps, from zero, and return where it stood after each look.

    Parameters
    ----------
    built : Built
        All nodes in this process; ``job.clock.compute`` is ``"counted"``.
    profiles : sequence of NetworkProfile
        Networks that it is timed on, at least one.
    limits : Limits
    """
    clocks = Clocks(built, profiles)
    network = Lockstep(built.neighbours(), built.codec, clock=clocks)
    watcher = _Watcher(built.problems, network, clocks)
    run(
        Plan(
            network=network,
            algorithm=built.algorithm,
            nodes=built.nodes,
            problems=built.timed,
            x0=built.start,
            rules=StopRules(rounds=limits.rounds, objective=limits.objective),
            evaluator=watcher,
            evaluate_every=limits.every,
            average_output=False,
        )
    )
    return [point for point in watcher.points if point.rounds <= limits.rounds]


def reach(points: Iterable[Point], bound: float) -> Point | None:
    """Return the first point with F at most ``bound``; ``None`` where there is none."""
    return next((point for point in points if point.objective <= bound), None)


def least(points: Iterable[Point]) -> float:
    """Return the least finite F of the points; infinite where there is none."""
    return min((point.objective for point in points if np.isfinite(point.objective)), default=float(np.inf))
