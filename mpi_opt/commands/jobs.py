"""``run``, ``simulate``, ``plan``, ``info``: what a job file starts, and where."""

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_job, add_set, count, file, folder, quiet_pipes
from mpi_opt.errors import EXIT_DONE, JobError

if TYPE_CHECKING:
    from mpi_opt.training import Orders


def add_to(commands: Commands) -> None:
    """Add the subcommands of this file."""
    run = commands.add_parser("run", help="run a job, one MPI rank a node: mpiexec -n 8 mpi-opt run JOB")
    add_job(run)
    _add_out(run)
    run.set_defaults(handler=_run)

    simulate = commands.add_parser("simulate", help="run a job on N virtual nodes in this process, without MPI")
    add_job(simulate)
    _add_nodes(simulate)
    simulate.add_argument(
        "--network",
        metavar="NETWORK",
        help="give simulated seconds on this network, as clock.network does: infiniband, 10gbe, wan, "
        "latency=20ms,bandwidth=100Mbit, or a .json of mpi-opt info --network --json",
    )
    _add_out(simulate)
    simulate.set_defaults(handler=_simulate)

    resume = commands.add_parser(
        "resume", help="go on with a run that was stopped or killed: mpiexec -n 8 mpi-opt resume RUN"
    )
    resume.add_argument("run", metavar="RUN", type=folder, help="the run's folder")
    add_set(resume, "override a key of the tables stop, metrics or checkpoint, e.g. stop.steps=500; may be repeated")
    resume.add_argument(
        "--allow-repartition",
        action="store_true",
        help="on another number of ranks, begin anew from the mean of the old nodes' models, in a folder of its own",
    )
    resume.add_argument("--out", type=folder, metavar="DIR", help="that folder (default: RUN-on-N)")
    _add_progress(resume)
    resume.set_defaults(handler=_resume)

    plan = commands.add_parser("plan", help="say what a job needs on N nodes: shards, memory, graph, bytes a round")
    add_job(plan)
    _add_nodes(plan)
    plan.add_argument(
        "--network", metavar="NET", help="predict seconds a step there too: wan, latency=20ms,bandwidth=100Mbit, ..."
    )
    plan.add_argument("--json", action="store_true", help="for programs")
    plan.set_defaults(handler=_plan)

    info = commands.add_parser(
        "info", help="versions, MPI library, launcher, hosts, cores, threads; also under mpiexec"
    )
    info.add_argument(
        "--network", action="store_true", help="measure latency and bandwidth between the ranks instead (mpiexec -n N)"
    )
    info.add_argument("--json", type=file, metavar="FILE", help="with --network: write the measurements there too")
    info.set_defaults(handler=_info)


def _run(options: argparse.Namespace, command: Sequence[str]) -> int:
    from mpi_opt.job import load_job

    job, error = None, None
    try:
        job = load_job(options.job, options.set)
    except JobError as wrong:
        error = wrong
    if error is not None and launch.launcher_size(os.environ) in (None, 1):
        raise error
    # Several ranks agree first: a file that one host does not see must not leave the others waiting.
    launch.start_mpi(os.environ).check(error)
    assert job is not None
    from mpi_opt.execute import run_job

    return run_job(job, _orders(options, command))


def _simulate(options: argparse.Namespace, command: Sequence[str]) -> int:
    launch.check_alone("simulate", os.environ)
    quiet_pipes()
    from mpi_opt.job import load_job

    network = [] if options.network is None else [f"clock.network={json.dumps(_named(options.network))}"]
    job = load_job(options.job, [*options.set, *network])
    from mpi_opt.execute import simulate_job

    return simulate_job(job, _orders(options, command), nodes=options.nodes)


def _named(text: str) -> str:
    """Return a network as a job has it: a file's name on the command line starts from the working directory."""
    return os.path.abspath(text) if text.endswith(".json") else text


def _resume(options: argparse.Namespace, command: Sequence[str]) -> int:
    from mpi_opt.execute import resume_job
    from mpi_opt.training import Orders

    orders = Orders(out=options.out, progress=options.progress, command=command)
    return resume_job(options.run, orders, options.set, repartition=options.allow_repartition)


def _orders(options: argparse.Namespace, command: Sequence[str]) -> "Orders":
    from mpi_opt.training import Orders

    return Orders(out=options.out, overwrite=options.overwrite, progress=options.progress, command=command)


def _plan(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("plan", os.environ)
    quiet_pipes()
    from mpi_opt.job import load_job

    job = load_job(options.job, options.set)
    from mpi_opt.planning import plan_job

    forecast = plan_job(job, nodes=options.nodes, network=options.network)
    print(json.dumps(forecast.values(), indent=2) if options.json else forecast.text())
    return EXIT_DONE


def _info(options: argparse.Namespace, _command: Sequence[str]) -> int:
    if options.network:
        return _network(options)
    if options.json is not None:
        raise JobError("--json writes what --network measures: give both")
    from mpi_opt.info import report

    found = report(os.environ)
    if launch.rank_from_environ(os.environ) in (None, 0):
        print(found.text, flush=True)
    if found.error is not None:
        raise found.error
    return EXIT_DONE


def _network(options: argparse.Namespace) -> int:
    from mpi_opt.info import network
    from mpi_opt.metrics.files import replace_file
    from mpi_opt.scaling.networktext import lines

    collectives, error = launch.start_mpi(os.environ), None
    if collectives.rank == 0 and options.json is not None and not options.json.absolute().parent.is_dir():
        error = JobError(f"cannot write {options.json}: there is no folder {options.json.parent}")
    collectives.check(error)
    found = network(os.environ)
    if collectives.rank == 0:
        print("\n".join(lines(found)), flush=True)
        try:
            if options.json is not None:
                replace_file(options.json, (json.dumps(found.values(), indent=2) + "\n").encode())
        except JobError as wrong:
            error = wrong
    collectives.check(error)
    return EXIT_DONE


def _add_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=count, required=True, metavar="N", help="number of nodes")


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=folder, metavar="DIR", help="the run's folder (default: runs/NAME)")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run in that folder")
    _add_progress(parser)


def _add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        choices=("auto", "bar", "lines", "none"),
        default="auto",
        help="how progress is shown; auto: a bar on a terminal, else lines (under mpiexec a bar must be asked for)",
    )
