"""What a run needs to go on: everything that the loop, the network and the recorders know beside their set-up.

What is left out follows from the job and the step number: data, graph, random draws, schedules. Times go on from where
they were; nothing else of a resumed run differs from one that was never interrupted.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np

from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import Control, Watch
from mpi_opt.types import Vector


class Running(Protocol):
    """What the loop shows of itself (``loop.Run``)."""

    plan: Plan
    states: list[Any]
    t: int
    syncs: list[int]
    fired: list[int]
    blocks: list[float]
    clock: float
    began: float
    watch: Watch
    control: Control
    controlled: bool
    answer: Vector | None
    inspected: int


def take(run: Running) -> list[dict[str, Any]]:
    """Return for each local node what `checkpoint.Checkpoints.write` is given; called by all processes together.

    The exchange in flight is completed and the recorders write what waits. Arrays are those of the run, not copies.
    """
    plan = run.plan
    inboxes, clock = plan.network.hold(), plan.network.clock
    simulated = [None] * len(run.states) if clock is None else clock.hold()
    return [
        {
            "state": state,
            "inbox": inboxes[index],
            "traffic": plan.network.traffic[index],
            "phases": plan.phases[index] if plan.phases else None,
            "recorded": plan.recorders[index].position() if plan.recorders else (0, 0),
            "write_seconds": plan.recorders[index].seconds if plan.recorders else 0.0,
            "t": run.t,
            "syncs": run.syncs[index],
            "fired": run.fired[index],
            "blocks": run.blocks[index],
            "clock": run.clock,
            "simulated": simulated[index],
            "wall": time.perf_counter() - run.began,
            "least": float(run.watch.least),
            "waited": run.watch.waited,
            "controlled": run.controlled,
            "answer": run.answer,
            "diverged": float(run.control.flags[2]),
            "inspected": run.inspected,
        }
        for index, state in enumerate(run.states)
    ]


def restore(run: Running, pieces: Sequence[Mapping[str, Any]]) -> None:
    """Set ``run`` to where `take` found an earlier one."""
    plan, first = run.plan, pieces[0]
    run.states[:] = [piece["state"] for piece in pieces]
    run.syncs[:] = [piece["syncs"] for piece in pieces]
    run.fired[:] = [piece["fired"] for piece in pieces]
    run.blocks[:] = [piece.get("blocks", 0.0) for piece in pieces]  # checkpoints of earlier releases lack them
    plan.network.give([piece["inbox"] for piece in pieces])
    for index, piece in enumerate(pieces):
        _copy(piece["traffic"], plan.network.traffic[index])
        if plan.phases and piece["phases"] is not None:
            _copy(piece["phases"], plan.phases[index])
    if plan.network.clock is not None:
        plan.network.clock.give([piece["simulated"] for piece in pieces])
    run.t = first["t"]
    run.clock = first["clock"]
    run.began = time.perf_counter() - first["wall"]
    run.watch.least, run.watch.waited = first["least"], first["waited"]
    run.controlled, run.inspected = first["controlled"], first["inspected"]
    run.control.flags[2] = first["diverged"]
    if first["answer"] is not None:
        run.answer = np.array(first["answer"])
        run.answer[3] = 0.0  # the wish to pause has been granted


def _copy(source: Any, target: Any) -> None:
    """Set all fields of ``target``, which others hold on to, to those of ``source``."""
    for field in fields(source):
        setattr(target, field.name, getattr(source, field.name))
