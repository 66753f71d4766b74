"""How a run ends, done or paused, and what another process does for it where the first one died."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from mpi_opt.elasticity import Stage
from mpi_opt.errors import EXIT_PAUSED, JobError, MpiOptError
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.network.collectives import Solo
from mpi_opt.results import conclude
from mpi_opt.run.claim import Claim
from mpi_opt.run.plan import Outcome
from mpi_opt.run.progress import Progress, progress
from mpi_opt.run.stop import StopRules
from mpi_opt.world import World


def finish(stage: Stage, outcome: Outcome, summary: Sequence[str]) -> None:
    """Write what stands for all nodes, and say how it went."""
    collectives, folder, error = stage.world.collectives, stage.folder, None
    collectives.check(None)  # all files are closed from here on: the joined view may be made
    if collectives.rank == 0:
        error = conclude(stage.built, outcome, folder, stage.world.library)
    try:
        for line in (*summary, f"results in {os.path.relpath(folder)}"):
            stage.shown.say(line)
    except MpiOptError as failed:
        error = error or failed
    collectives.check(error)


def take_over(folder: Path, style: str, rules: StopRules, stack: ExitStack) -> Progress:
    """Do what the first process did that died: hold the folder, go on with the log."""
    with suppress(JobError):
        stack.enter_context(Claim(folder, Solo(), heir=True))
    try:
        log = stack.enter_context((folder / "log.txt").open("a", encoding="utf-8"))
    except OSError:
        log = None
    return progress(style, rules, log)


def pause(stage: Stage, outcome: Outcome, recorders: Sequence[Recorder]) -> None:
    """Close what is open and say how to go on."""
    for recorder in recorders:
        recorder.close(f"paused: {outcome.reason} after {outcome.steps} steps; mpi-opt resume goes on")
    stage.network.close()
    what = f"{outcome.reason}; a checkpoint holds all up to step {outcome.steps}"
    tell_paused(what, stage.shown, stage.world, stage.folder)


def tell_paused(what: str, shown: Progress, world: World, folder: Path) -> int:
    """Say why the run pauses and how it is gone on with; return the exit code when all processes have come so far."""
    shown.say(f"paused: {what}")
    size = world.collectives.size
    launcher = f"mpiexec -n {size} " if size > 1 else ""
    shown.say(f"go on with: {launcher}mpi-opt resume {os.path.relpath(folder)}")
    world.collectives.check(None)
    return EXIT_PAUSED
