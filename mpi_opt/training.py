"""Train: build a job's objects, run them in a world of processes, record, conclude. Also from where a run was left."""

import math
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.beginning import Begin, find_begin
from mpi_opt.build import Built
from mpi_opt.elasticity import Stage
from mpi_opt.ending import finish, pause, take_over, tell_paused
from mpi_opt.errors import EXIT_DONE, EXIT_PAUSED, DivergedError, JobError, MpiOptError, PausedError
from mpi_opt.job import Job, to_toml
from mpi_opt.jobtime import end_of_job
from mpi_opt.metrics.evaluate import Evaluator
from mpi_opt.metrics.files import replace_file
from mpi_opt.metrics.lost import told, write_lost
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.metrics.schema import traffic_values
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives
from mpi_opt.past import Past
from mpi_opt.results import open_recorders
from mpi_opt.run.check import replica_check
from mpi_opt.run.checkpoint import Checkpoints
from mpi_opt.run.claim import Claim
from mpi_opt.run.folder import clear_folder, open_folder, refuse_held
from mpi_opt.run.plan import CONTROL_SYNCS, Plan
from mpi_opt.run.progress import Progress, Silent, progress
from mpi_opt.run.signals import Signals
from mpi_opt.run.stop import StopRules, asked_by, wish
from mpi_opt.run.summary import lines, totals
from mpi_opt.threads import one_thread
from mpi_opt.tuning import keep, prepare_run
from mpi_opt.validation import Course
from mpi_opt.world import World

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
    _check_stop(job, world.nodes)
    out, collectives = Path("runs") / job.name if orders.out is None else orders.out, world.collectives
    # One BLAS thread a node: ranks share a host's cores, and the bits must not depend on their number.
    with one_thread(dense=job.algorithm.name in NEWTON), ExitStack() as stack:
        stack.enter_context(Claim(out.absolute(), collectives))
        refuse_held(out, collectives, overwrite=orders.overwrite)
        watch = stack.enter_context(ExitStack())
        _watch(job, world, out.absolute() / ".alive", watch)
        earlier = None if past is None else past.folder
        built, trial = prepare_run(job, collectives, world.nodes, world.local, world.measure, earlier)
        begin = find_begin(built, collectives, past, anew=anew)
        folder = out.absolute()
        if begin.kept is None:
            open_folder(folder, collectives, overwrite=orders.overwrite, again=begin.again)
        rules = StopRules(**msgspec.structs.asdict(job.stop) | {"seconds": _seconds(job)})
        shown = _open_log(built, folder, world, orders, rules, stack, begin)
        signals = stack.enter_context(Signals(getattr(collectives, "where", None)))
        deadline = _deadline(job, collectives, shown)
        if trial is not None:
            asked = partial(_asked, signals, deadline, collectives)
            course = Course(collectives, world.connect, rules, _control_every(job), shown.say, asked)
            try:
                built = trial.settle(built, course, folder, world.library)
            except PausedError as paused:
                _over(signals, collectives)
                return tell_paused(str(paused), shown, world, folder)
        del trial  # and with it the data as read
        if begin.kept is None:
            keep(built, folder, collectives)
        recorders = open_recorders(built, folder, collectives, world.library, orders.command, stack, begin)
        if begin.kept is not None and collectives.rank == 0:
            write_lost(folder, ())  # all are here again
        firsts = [node == 0 for node in world.local]
        spoilt = set() if begin.kept is None else set(begin.kept.passed)

        def plan(stage: Stage) -> Plan:
            made = _plan(stage.built, stage.network, rules, recorders, stage.shown, begin)
            checkpoints = _checkpoints(built, folder, stage.world, spoilt)
            return replace(made, checkpoints=checkpoints, signals=signals, deadline=deadline)

        stage = Stage(
            world=world,
            built=built,
            network=world.connect(built),
            shown=shown,
            folder=folder,
            auto=job.algorithm.consensus_rate == "auto",
            plan=plan,
            watch=watch,
            guard=partial(_watch, job),
            reopen=lambda: take_over(folder, orders.progress, rules, stack),
            hosts=collectives.gather(socket.gethostname()),
            lost=[],
        )
        outcome = stage.run()
        if outcome.paused or outcome.diverged:
            _over(signals, collectives)
        if outcome.paused:
            stage.finish(lambda: pause(stage, outcome, recorders))
            return EXIT_PAUSED
        reason = "; ".join(filter(None, [outcome.reason, told(stage.lost)]))
        for first, recorder, model in zip(firsts, recorders, outcome.iterates, strict=True):
            word = "diverged: " if outcome.diverged else "done: "
            recorder.final(model, outcome.average if first else None, reason=word + reason)
        sampled = None if job.metrics.nodes == "all" else job.metrics.nodes
        summary = lines(outcome, totals(stage.network, outcome), stage.world.nodes, sampled=sampled)
        for recorder in recorders:
            recorder.close()
        stage.network.close()
        stage.finish(lambda: finish(stage, outcome, summary))
    if outcome.diverged:
        diverged = DivergedError(outcome.reason)
        diverged.everywhere = True
        raise diverged
    return EXIT_DONE


def _over(signals: Signals, collectives: Collectives) -> None:
    """Let no rank that has left have the others ended; a process of its own may go on to other things."""
    if collectives.size > 1:
        signals.over()


def _watch(job: Job, world: World, signs: Path, stack: ExitStack) -> None:
    """Have the other processes watched by their ``signs`` of life, while ``stack`` lasts."""
    error = None
    try:
        if job.network.watchdog != "off":
            stack.enter_context(world.guard(signs, job.network.watchdog))
    except OSError as failed:
        error = JobError(
            f"cannot write to the result folder {signs.parent}: {failed.strerror or failed}; give another --out"
        )
    world.collectives.check(error)


def _asked(signals: Signals, deadline: float | None, collectives: Collectives) -> str:
    """Return who asks the run to pause, agreed on by all."""
    return asked_by(float(collectives.max([wish(signals, deadline)])[0]))


def _checkpoints(built: Built, folder: Path, world: World, spoilt: set[str]) -> Checkpoints:
    table = built.job.checkpoint
    return Checkpoints(
        folder=folder / "checkpoints",
        collectives=world.collectives,
        nodes=world.nodes,
        every=table.every,
        seconds=None if table.minutes == "never" else 60.0 * table.minutes,
        keep=table.keep,
        spoilt=spoilt,
        tensors=None if built.module is None else built.module.tensors,
    )


def _deadline(job: Job, collectives: Collectives, shown: Progress) -> float | None:
    """Return when the run is to pause; where the job leaves that to SLURM and SLURM gives no end, say so."""
    if job.stop.seconds != "slurm":
        return None
    until = end_of_job(os.environ, collectives)
    if until == math.inf:
        shown.say('stop.seconds = "slurm": no end of a SLURM job is known, so the run does not pause by itself')
    return until


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
            shown = progress(orders.progress, rules, log, simulated=job.clock is not None)
            shown.say(f"{job.name}: {job.algorithm.name} on {world.nodes} nodes, {world.library}")
            info = built.loaded.info
            shown.say(f"data {info.name}: {info.rows} rows x {info.features} features")
            for note in (*world.notes, *built.notes, *begin.notes):
                shown.say(note)
        except (OSError, MpiOptError) as failed:
            if begin.kept is None:
                clear_folder(folder, again=begin.again)
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
        x0=built.start if begin.x0 is None else begin.x0,
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
        blocks=bool(recorders and recorders[0].blocks),
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
