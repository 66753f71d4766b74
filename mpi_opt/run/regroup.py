"""A run goes on without the ranks that died: which step the survivors go on from, and what of each stays.

Neighbours may be a round apart when a death is noticed, others more. The rule: every survivor keeps its own model,
abandons the round in flight, and goes on from the largest number of steps that any survivor has taken. Whoever had
taken fewer does not make up for them. Its metrics do: a synchronisation that it did not complete is recorded as a
silent one without figures, an evaluation that it did not complete as a row without figures, so that row r is the same
step on all nodes.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from mpi_opt.run.loop import Run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import Control, Watch


class Position(NamedTuple):
    """Where a survivor is.

    Attributes
    ----------
    steps : int
        Local steps taken, one whose exchange was cut off among them.
    rows, last : int
        Rows recorded, and the step of the last one (-1: none).
    """

    steps: int
    rows: int
    last: int


def position(run: Run) -> Position:
    """Return where this process's node is; its recorder writes what waits."""
    rows = run.plan.recorders[0].position()[0] if run.plan.recorders else 0
    return Position(run.t + run.moving, rows, int(run.rows[0]["step"]) if run.rows else -1)


def regroup(run: Run, plan: Plan, positions: Sequence[Position]) -> None:
    """Set ``run``, left by an error in the middle of anything, to where the survivors go on together.

    Parameters
    ----------
    run : Run
        Of one local node.
    plan : Plan
        Of the survivors; with the recorders of before.
    positions : sequence of Position
        Of all survivors.
    """
    old, step = run.plan, max(each.steps for each in positions)
    mine, most = position(run), max(positions, key=lambda each: each.rows)
    for recorder in old.recorders:
        for _ in range(most.rows - mine.rows):
            run.rows = [{**run.row(0, {}), "step": most.last}]
            recorder.row(run.rows[0])
        for t in range(run.t, step):
            if (t + 1) % _sync_every(plan) == 0:
                recorder.sync(t, False, math.nan, math.nan, 0)
    missed = step // _sync_every(plan) - run.t // _sync_every(plan)
    run.epochs, run.epochs_at = run.epochs + (step - run.epochs_at) / old.steps_per_epoch, step
    run.syncs[0] += missed
    traffic = plan.network.traffic[0]
    for field in fields(traffic):
        setattr(traffic, field.name, getattr(old.network.traffic[0], field.name))
    traffic.rounds, run.output_rounds = run.syncs[0], 0  # one exchange at each synchronisation
    rejoin: Any = plan.algorithm
    run.states[:] = [rejoin.rejoin(state, step) for state in run.states]
    if getattr(plan.algorithm, "overlap", False) and step // _sync_every(plan):
        plan.network.give([()])  # nothing is in flight where the method expects something
    run.plan, run.t, run.moving = plan, step, False
    plan.network.where.step = step
    # Another objective from here on: what was reached before says nothing.
    run.watch, run.control = Watch(plan.rules), Control(plan.rules, plan.network.nodes)
    run.controlled, run.answer, run.asked = False, None, ""
    run.inspected, run.due, run.since = -1, 0.0, time.perf_counter()


def _sync_every(plan: Plan) -> int:
    return int(plan.algorithm.sync_every)  # type: ignore[attr-defined]
