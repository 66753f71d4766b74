"""Run a job: over MPI with one rank a node, or in lockstep with all nodes in this process; record and sum up."""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from mpi_opt import launch
from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.build import Built, build
from mpi_opt.errors import EXIT_DONE, DivergedError, JobError, MpiOptError
from mpi_opt.info import Place, warnings
from mpi_opt.job import Job, to_toml
from mpi_opt.metrics.evaluate import Evaluator
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.metrics.schema import traffic_values
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives, Solo
from mpi_opt.results import HELD_FILES, conclude, open_recorders
from mpi_opt.run.check import replica_check
from mpi_opt.run.folder import clear_folder, open_folder, refuse_held
from mpi_opt.run.loop import run
from mpi_opt.run.plan import CONTROL_SYNCS, Plan
from mpi_opt.run.progress import Progress, Silent, progress
from mpi_opt.run.stop import StopRules
from mpi_opt.run.summary import lines, totals
from mpi_opt.scaling.cost import NetworkProfile

_CLOCKED_STEPS = 100
"""Most steps between two looks at the clock where a job is to end by it."""

_OTHER_FILES = 32
"""Room for what a process has open besides its nodes' metrics files: data, logs, libraries being loaded."""


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
class _World:
    """Where a job runs: the processes, the nodes that this one carries, and how they are connected."""

    collectives: Collectives
    nodes: int
    local: tuple[int, ...]
    connect: Callable[[Built], Network]
    measure: Callable[[], NetworkProfile] | None
    library: str
    notes: Sequence[str] = ()


def run_job(job: Job, orders: Orders) -> int:
    """Run ``job`` on the ranks of MPI's world, one node each, and return the exit code."""
    collectives = launch.start_mpi(os.environ)
    from mpi_opt.network import mpi

    comm = mpi.world()

    def connect(built: Built) -> Network:
        mine = built.neighbours()[comm.rank]
        return mpi.MpiNetwork(comm, mine, built.codec, ordered=job.network.reductions == "ordered")

    world = _World(
        collectives=collectives,
        nodes=comm.size,
        local=(comm.rank,),
        connect=connect,
        measure=lambda: NetworkProfile(*mpi.probe_world()),
        library=mpi.library(),
        notes=[
            *_alone(job, comm.size),
            *warnings(collectives.gather(Place(socket.gethostname(), launch.own_cores(), 1))),
        ],
    )
    return _train(job, world, orders)


def simulate_job(job: Job, orders: Orders, *, nodes: int) -> int:
    """Run ``job`` on ``nodes`` virtual nodes in this process and return the exit code."""
    from mpi_opt.network.lockstep import Lockstep

    _allow_open_files(nodes)
    world = _World(
        collectives=Solo(),
        nodes=nodes,
        local=tuple(range(nodes)),
        connect=lambda built: Lockstep(built.neighbours(), built.codec),
        measure=None,
        library="lockstep",
    )
    return _train(job, world, orders)


def _train(job: Job, world: _World, orders: Orders) -> int:
    import threadpoolctl

    _check_stop(job, world.nodes)
    out, collectives = Path("runs") / job.name if orders.out is None else orders.out, world.collectives
    refuse_held(out, collectives, overwrite=orders.overwrite)
    with threadpoolctl.threadpool_limits(1), ExitStack() as stack:
        # One BLAS thread a node: ranks share a host's cores, and the bits must not depend on their number.
        built = build(job, collectives, world.nodes, world.local, world.measure)
        folder = open_folder(out, collectives, overwrite=orders.overwrite)
        rules = StopRules(**msgspec.structs.asdict(job.stop))
        shown = _open_log(built, folder, world, orders, rules, stack)
        recorders = open_recorders(built, folder, collectives, world.library, orders.command, stack)
        network = world.connect(built)
        outcome = run(_plan(built, network, rules, recorders, shown))
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


def _open_log(
    built: Built, folder: Path, world: _World, orders: Orders, rules: StopRules, stack: ExitStack
) -> Progress:
    """Write the resolved job, open the log, and say what is about to run; all agree that it worked."""
    shown: Progress = Silent()
    error: Exception | None = None
    if world.collectives.rank == 0:
        job = built.job
        try:
            (folder / "job.toml").write_text(to_toml(job), encoding="utf-8")
            log = stack.enter_context((folder / "log.txt").open("w", encoding="utf-8"))
            shown = progress(orders.progress, rules, log)
            shown.say(f"{job.name}: {job.algorithm.name} on {world.nodes} nodes, {world.library}")
            for note in (*world.notes, *built.notes):
                shown.say(note)
        except (OSError, MpiOptError) as failed:
            clear_folder(folder)
            reason = failed.strerror if isinstance(failed, OSError) else failed
            error = JobError(f"cannot write to {folder}: {reason}; give another --out")
    world.collectives.check(error)
    return shown


def _plan(built: Built, network: Network, rules: StopRules, recorders: Sequence[Recorder], shown: Progress) -> Plan:
    job = built.job
    return Plan(
        network=network,
        algorithm=built.algorithm,
        nodes=built.nodes,
        problems=built.timed,
        x0=np.zeros(built.problems[0].dim),
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


def _alone(job: Job, nodes: int) -> Sequence[str]:
    """Return a word of warning where a method of neighbours runs without any."""
    if nodes > 1 or job.algorithm.name not in EXCHANGES:
        return ()
    return ("1 node has no neighbours: this is plain SGD; start more with mpiexec -n N mpi-opt run ...",)


def _check_stop(job: Job, nodes: int) -> None:
    """Refuse a run that could never end: one node hands nothing to MPI."""
    given = [name for name, value in msgspec.structs.asdict(job.stop).items() if value is not None]
    if nodes == 1 and given == ["megabytes"]:
        raise JobError("stop.megabytes alone on 1 node, which sends nothing; allowed: another rule beside it")


def _control_every(job: Job) -> int:
    """Return the steps between control reductions: of syncs, but soon enough where a run is to end by the clock."""
    steps = CONTROL_SYNCS * job.algorithm.sync_every
    return steps if job.stop.seconds is None else min(steps, _CLOCKED_STEPS)


def _allow_open_files(nodes: int) -> None:
    """Raise the process's limit on open files to what one that carries ``nodes`` nodes needs.

    Raises
    ------
    JobError
        The hard limit is lower than that: names nodes, limit and remedy.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(nodes, HELD_FILES) + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise JobError(
            f"{nodes} nodes in one process need {wanted} open files, the limit (ulimit -n) is {hard}: raise it, or "
            f"simulate fewer nodes"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
