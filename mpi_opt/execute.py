"""Run, simulate or resume a job: in which world of processes it is trained, and from where on."""

import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from mpi_opt import launch
from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.build import Built
from mpi_opt.errors import EXIT_DONE, JobError, MpiOptError, RankFailedError
from mpi_opt.info import Place, warnings
from mpi_opt.job import Job, load_job, to_toml
from mpi_opt.metrics.joined import join
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives, Solo
from mpi_opt.network.elastic import Crew
from mpi_opt.network.processes import Processes
from mpi_opt.past import changed, check_size, look
from mpi_opt.results import HELD_FILES
from mpi_opt.run.watchdog import Watchdog, end_in_time
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.simulating import IGNORED, clock_of, in_words, network_of, without_clock
from mpi_opt.training import Orders, train
from mpi_opt.world import World

_LEAVE_SECONDS = 2.0
"""Time for MPI to end all ranks, before a rank that watched another stop leaves by itself."""

_OTHER_FILES = 32
"""Room for what a process has open besides its nodes' metrics files: data, logs, libraries being loaded."""


def run_job(job: Job, orders: Orders) -> int:
    """Run ``job`` on the ranks of MPI's world, one node each, and return the exit code."""
    return train(without_clock(job), _over_mpi(job), orders)


def simulate_job(job: Job, orders: Orders, *, nodes: int) -> int:
    """Run ``job`` on ``nodes`` virtual nodes in this process and return the exit code."""
    return train(job, _virtual(job, nodes), orders)


def resume_job(folder: Path, orders: Orders, settings: Sequence[str], *, repartition: bool) -> int:
    """Go on with the run in ``folder``, on as many nodes as it had, and return the exit code.

    Parameters
    ----------
    folder : Path
    orders : Orders
        ``out`` is only for another number of nodes.
    settings : sequence of str
        Overrides of the job's tables ``stop``, ``metrics`` and ``checkpoint``.
    repartition : bool
        Allow another number of nodes: see `resuming`.

    Raises
    ------
    JobError, DataError, LaunchError
        There is no run, its checkpoints are damaged, or the number of ranks is another one.
    """
    collectives = launch.processes(os.environ)
    past, job, error = None, None, None
    if collectives.rank == 0:
        try:
            past = look(folder)
            job = load_job(past.job, changed(settings))
        except MpiOptError as wrong:
            error = wrong
    collectives.check(error)
    past, text = collectives.broadcast((past, None if job is None else to_toml(job)))
    job = load_job(text)
    if past.finished:
        _tell_end(folder, collectives)
        return EXIT_DONE
    size = collectives.size
    wanted = past.nodes or size
    anew = repartition and (size != wanted or past.left is not None) and not (past.lockstep and size == 1)
    if anew and orders.out is None:
        orders = replace(orders, out=folder.with_name(f"{folder.name}-on-{size}"))
    if not anew:
        check_size(past, size)
        orders = replace(orders, out=folder, overwrite=True)
    virtual = past.lockstep and not anew
    world = _virtual(job, wanted) if virtual else _over_mpi(job)
    job = job if virtual else without_clock(job)
    return train(job, world, orders, past, anew=anew)


def _tell_end(folder: Path, collectives: Collectives) -> None:
    """Say that there is nothing to do, after joining the metrics where the run was killed just before it did."""
    error = None
    if collectives.rank == 0:
        try:
            if not (folder / "metrics.h5").exists():
                join(folder)
            sys.stdout.write(f"{folder}: the run has ended, there is nothing to resume\n")
        except MpiOptError as wrong:
            error = wrong
    collectives.check(error)


def _over_mpi(job: Job) -> World:
    collectives = launch.start_mpi(os.environ)
    from mpi_opt.network import mpi

    crew, words = None, list(_alone(job, collectives.size))
    if job.clock is not None:
        words.append(IGNORED)
    if job.network.elastic:
        missing = launch.without_ulfm(mpi.library(), os.environ)
        if missing:
            words.append(f"network.elastic is off: {missing}. A rank that dies ends the run")
        elif collectives.size > 1:
            crew = mpi.take_crew()
            collectives = mpi.collectives_of(crew.comm, collectives.where)
            words.append("network.elastic is on: the run goes on without ranks that die once training has begun")
    places = collectives.gather(Place(socket.gethostname(), launch.own_cores(), 1))
    return _of_ranks(job, collectives, crew, (*words, *warnings(places)))


def _of_ranks(job: Job, collectives: Processes, crew: Crew | None, notes: Sequence[str] = ()) -> World:
    """Return the world of the ranks that live."""
    from mpi_opt.network import mpi

    comm, where = mpi.world(), collectives.where

    def connect(built: Built) -> Network:
        network = mpi.MpiNetwork(
            comm,
            built.neighbours()[comm.rank],
            built.codec,
            ordered=job.network.reductions == "ordered",
            where=where,
            patient=crew is not None,
        )
        if crew is not None:
            crew.watch(network.abandon)
        return network

    def end(text: str) -> None:
        sys.stderr.write(f"mpi-opt: error: {text}\n")
        # Under a launcher that ends the ranks already, MPI's own way may not come back.
        leave = threading.Timer(_LEAVE_SECONDS, os._exit, (RankFailedError.exit_code,))
        leave.daemon = True
        leave.start()
        mpi.abort(RankFailedError.exit_code)

    def guard(folder: Path, seconds: float) -> Watchdog:
        end_in_time(0)  # which an earlier run in this process may have set
        return Watchdog(folder, comm.rank, comm.size, where, seconds, end, end_in_time)

    def measure() -> NetworkProfile:
        with where.wait_in("other ranks, in measuring the network"):
            return NetworkProfile(*mpi.probe_world())

    def again() -> World:
        return _of_ranks(job, mpi.collectives_of(mpi.world(), where), crew)

    return World(
        collectives=collectives,
        nodes=comm.size,
        local=(comm.rank,),
        connect=connect,
        measure=measure,
        library=mpi.library(),
        guard=guard,
        notes=notes,
        crew=crew,
        again=None if crew is None else again,
    )


def _virtual(job: Job, nodes: int) -> World:
    from mpi_opt.network.lockstep import Lockstep

    _allow_open_files(nodes)
    return World(
        collectives=Solo(),
        nodes=nodes,
        local=tuple(range(nodes)),
        connect=lambda built: Lockstep(built.neighbours(), built.codec, clock_of(built)),
        measure=None if job.clock is None else lambda: network_of(job),
        library="lockstep",
        guard=lambda *_: nullcontext(),
        notes=() if job.clock is None else (in_words(job),),
    )


def _alone(job: Job, nodes: int) -> Sequence[str]:
    """Return a word of warning where a method of neighbours runs without any."""
    if nodes > 1 or job.algorithm.name not in EXCHANGES:
        return ()
    return ("1 node has no neighbours: this is plain SGD; start more with mpiexec -n N mpi-opt run ...",)


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
