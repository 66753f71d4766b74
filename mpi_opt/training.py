"""Train: build a job's objects, run them in a world of processes, record, conclude. Also from where a run was left."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.beginning import Begin, find_begin
from mpi_opt.build import Built
from mpi_opt.errors import EXIT_DONE, EXIT_PAUSED, DivergedError, JobError, MpiOptError, PausedError
from mpi_opt.job import Job, to_toml
from mpi_opt.jobtime import end_of_job
from mpi_opt.metrics.evaluate import Evaluator
from mpi_opt.metrics.files import replace_file
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.metrics.schema import traffic_values
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives
from mpi_opt.results import conclude, open_recorders
from mpi_opt.resuming import Past
from mpi_opt.run.check import replica_check
from mpi_opt.run.checkpoint import Checkpoints
from mpi_opt.run.claim import Claim
from mpi_opt.run.folder import clear_folder, open_folder, refuse_held
from mpi_opt.run.loop import run
from mpi_opt.run.plan import CONTROL_SYNCS, Outcome, Plan
from mpi_opt.run.progress import Progress, Silent, progress
from mpi_opt.run.signals import Signals
from mpi_opt.run.stop import StopRules, asked_by, wish
from mpi_opt.run.summary import lines, totals
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.tuning import keep, prepare_run
from mpi_opt.validation import Course

_CLOCKED_STEPS = 100
"""Most steps between two looks at the clock, and at signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the command line adds to a job.

    Attributes
    ----------
    out : Path or None
        Result folder; ``runs/NAME`` by default.
    overwrite : bool
        Replace an earlier run in that folder.
    progress : {"auto", "bar", "lines", "none"}
        How progress is shown.
    command : sequence of str
        The command line, kept with the results.
    """

    out: Path | None = None
    overwrite: bool = False
    progress: str = "auto"
    command: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where a job runs.

    Attributes
    ----------
    collectives : Collectives
        Among the processes.
    nodes : int
        n.
    local : tuple of int
        Nodes that this process carries.
    connect : callable
        Makes the network.
    measure : callable or None
        Measures the network.
    library : str
        What carries the messages.
    guard : callable
        Given a folder and seconds of silence, returns a context in which the other processes are watched.
    notes : sequence of str
        What a person should know of it.
    """

    collectives: Collectives
    nodes: int
    local: tuple[int, ...]
    connect: Callable[[Built], Network]
    measure: Callable[[], NetworkProfile] | None
    library: str
    guard: Callable[[Path, float], AbstractContextManager[object]]
    notes: Sequence[str] = ()


def train(job: Job, world: World, orders: Orders, past: Past | None = None, *, anew: bool = False) -> int:
    """Run ``job`` in ``world`` and return the exit code; called by all processes together.

    Parameters
    ----------
    job : Job
    world : World
    orders : Orders
    past : Past, optional
        The run to go on with.
    anew : bool, optional
        Begin from the mean of its nodes' models instead of from where each was.
    """
    import threadpoolctl

    _check_stop(job, world.nodes)
    out, collectives = Path("runs") / job.name if orders.out is None else orders.out, world.collectives
    with threadpoolctl.threadpool_limits(1), ExitStack() as stack:
        stack.enter_context(Claim(out.absolute(), collectives))
        refuse_held(out, collectives, overwrite=orders.overwrite)
        _watch(job, world, out.absolute(), stack)
        # One BLAS thread a node: ranks share a host's cores, and the bits must not depend on their number.
        earlier = None if past is None else past.folder
        built, trial = prepare_run(job, collectives, world.nodes, world.local, world.measure, earlier)
        begin = find_begin(built, collectives, past, anew=anew)
        folder = open_folder(out, collectives, overwrite=orders.overwrite) if begin.kept is None else out.absolute()
        rules = StopRules(**msgspec.structs.asdict(job.stop) | {"seconds": _seconds(job)})
        shown = _open_log(built, folder, world, orders, rules, stack, begin)
        signals = stack.enter_context(Signals())
        deadline = end_of_job(os.environ, collectives) if job.stop.seconds == "slurm" else None
        if trial is not None:
            asked = partial(_asked, signals, deadline, collectives)
            course = Course(collectives, world.connect, rules, _control_every(job), shown.say, asked)
            try:
                built = trial.settle(built, course, folder, world.library)
            except PausedError as paused:
                return _left(str(paused), shown, folder)
        del trial  # and with it the data as read
        if begin.kept is None:
            keep(built, folder, collectives)
        recorders = open_recorders(built, folder, collectives, world.library, orders.command, stack, begin.kept)
        network = world.connect(built)
        plan = _plan(built, network, rules, recorders, shown, begin)
        outcome = run(replace(plan, checkpoints=_checkpoints(job, folder, world), signals=signals, deadline=deadline))
        if outcome.paused:
            return _leave(outcome, recorders, network, shown, folder)
        reason = ("diverged: " if outcome.diverged else "done: ") + outcome.reason
        for node, recorder, model in zip(world.local, recorders, outcome.iterates, strict=True):
            recorder.final(model, outcome.average if node == 0 else None, reason=reason)
        summary = lines(outcome, totals(network, outcome), world.nodes)
        for recorder in recorders:
            recorder.close()
        collectives.check(None)  # all files are closed from here on: the joined view may be made
        network.close()
        error = conclude(built, outcome, folder, world.library) if collectives.rank == 0 else None
        try:
            for line in (*summary, f"results in {os.path.relpath(folder)}"):
                shown.say(line)
        except MpiOptError as failed:
            error = error or failed
        collectives.check(error)
    if outcome.diverged:
        diverged = DivergedError(outcome.reason)
        diverged.everywhere = True
        raise diverged
    return EXIT_DONE


def _watch(job: Job, world: World, out: Path, stack: ExitStack) -> None:
    """Have the other processes watched, while ``stack`` lasts."""
    error = None
    try:
        if job.network.watchdog != "off":
            stack.enter_context(world.guard(out / ".alive", job.network.watchdog))
    except OSError as failed:
        error = JobError(f"cannot write to the result folder {out}: {failed.strerror or failed}; give another --out")
    world.collectives.check(error)


def _leave(outcome: Outcome, recorders: Sequence[Recorder], network: Network, shown: Progress, folder: Path) -> int:
    """Close what is open and say how to go on."""
    for recorder in recorders:
        recorder.close(f"paused: {outcome.reason} after {outcome.steps} steps; mpi-opt resume goes on")
    network.close()
    return _left(f"{outcome.reason}; a checkpoint holds all up to step {outcome.steps}", shown, folder)


def _left(what: str, shown: Progress, folder: Path) -> int:
    shown.say(f"paused: {what}")
    shown.say(f"go on with: mpi-opt resume {os.path.relpath(folder)}")
    return EXIT_PAUSED


def _asked(signals: Signals, deadline: float | None, collectives: Collectives) -> str:
    """Return who asks the run to pause, agreed on by all."""
    return asked_by(float(collectives.max([wish(signals, deadline)])[0]))


def _checkpoints(job: Job, folder: Path, world: World) -> Checkpoints:
    table = job.checkpoint
    return Checkpoints(
        folder=folder / "checkpoints",
        collectives=world.collectives,
        nodes=world.nodes,
        every=table.every,
        seconds=None if table.minutes == "never" else 60.0 * table.minutes,
        keep=table.keep,
    )


def _seconds(job: Job) -> float | None:
    return None if job.stop.seconds == "slurm" else job.stop.seconds


def _open_log(
    built: Built, folder: Path, world: World, orders: Orders, rules: StopRules, stack: ExitStack, begin: Begin
) -> Progress:
    """Write the resolved job, open the log, and say what is about to run; all agree that it worked."""
    shown: Progress = Silent()
    error: Exception | None = None
    if world.collectives.rank == 0:
        job = built.job
        try:
            replace_file(folder / "job.toml", to_toml(job).encode())
            place = folder / "log.txt"
            log = stack.enter_context(
                place.open("w", encoding="utf-8") if begin.kept is None else place.open("a", encoding="utf-8")
            )
            shown = progress(orders.progress, rules, log)
            shown.say(f"{job.name}: {job.algorithm.name} on {world.nodes} nodes, {world.library}")
            info = built.loaded.info
            shown.say(f"data {info.name}: {info.rows} rows x {info.features} features")
            for note in (*world.notes, *built.notes, *begin.notes):
                shown.say(note)
        except (OSError, MpiOptError) as failed:
            if begin.kept is None:
                clear_folder(folder)
            reason = failed.strerror if isinstance(failed, OSError) else failed
            error = JobError(f"cannot write to {folder}: {reason}; give another --out")
    world.collectives.check(error)
    return shown


def _plan(
    built: Built,
    network: Network,
    rules: StopRules,
    recorders: Sequence[Recorder],
    shown: Progress,
    begin: Begin,
) -> Plan:
    job = built.job
    return Plan(
        network=network,
        algorithm=built.algorithm,
        nodes=built.nodes,
        problems=built.timed,
        x0=np.zeros(built.problems[0].dim) if begin.x0 is None else begin.x0,
        begin=begin.step if begin.kept is None else 0,
        resumed=None if begin.kept is None else begin.kept.pieces,
        rules=rules,
        evaluator=Evaluator(
            network,
            built.problems,
            built.tests,
            classification=built.loaded.info.labels is not None,
            seed=job.seed,
            nodes=job.metrics.nodes,
        ),
        recorders=recorders,
        phases=built.phases,
        progress=shown,
        evaluate_every=job.metrics.every,
        control_every=_control_every(job),
        steps_per_epoch=built.steps_per_epoch,
        average_output=built.averages,
        values=lambda index: traffic_values(network.traffic[index]),
        inspect=replica_check(network) if job.network.check and built.mixing is not None else None,
    )


def _check_stop(job: Job, nodes: int) -> None:
    """Refuse a run that could never end: one node hands nothing to MPI."""
    given = [name for name, value in msgspec.structs.asdict(job.stop).items() if value is not None]
    if nodes == 1 and given == ["megabytes"]:
        raise JobError("stop.megabytes alone on 1 node, which sends nothing; allowed: another rule beside it")


def _control_every(job: Job) -> int:
    """Return the steps between control reductions: of syncs, but few, and one where a step is a round of passes."""
    if job.algorithm.name in NEWTON:
        return 1
    return min(CONTROL_SYNCS * job.algorithm.sync_every, _CLOCKED_STEPS)
