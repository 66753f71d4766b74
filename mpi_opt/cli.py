"""The command ``mpi-opt``: arguments in, exit code out, and how every error ends.

Wiring only. Nothing heavy is imported at the top: help, version and job errors cost neither NumPy nor MPI.

How an error ends (codes: ``docs/exit-codes.md``):

- one that all ranks found alike is told once, and every rank returns its code;
- one that a single rank has is told by that rank, which then ends all ranks;
- anything but a `MpiOptError` is told with rank and traceback, and ends all ranks.
"""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mpi_opt import __version__, launch
from mpi_opt.errors import EXIT_DONE, JobError, MpiOptError, RankFailedError

if TYPE_CHECKING:
    from mpi_opt.execute import Orders

EXIT_INTERRUPTED = 130
_PATIENCE = 1.0
"""Seconds that a rank with an error waits for the others to come with the same."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the command's name; by default the process's own.
    """
    launch.limit_threads(os.environ)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parser().parse_args(arguments)
        handler: Callable[[argparse.Namespace, Sequence[str]], int] = options.handler
        return handler(options, ["mpi-opt", *arguments])
    except MpiOptError as error:
        return _told(error)
    except KeyboardInterrupt:
        _say("mpi-opt: interrupted\n")
        return _end_all(EXIT_INTERRUPTED)
    except Exception:
        comm = launch.running_world()
        who = "" if comm is None else f" on rank {comm.rank} of {comm.size}"
        _say(f"mpi-opt: error: unexpected failure{who}\n{traceback.format_exc()}")
        return _end_all(RankFailedError.exit_code)


def _told(error: MpiOptError) -> int:
    """Tell ``error`` once, and return its code on every rank or end all ranks with it."""
    comm = launch.running_world()
    if comm is None:
        if launch.rank_from_environ(os.environ) in (None, 0):
            _say(f"mpi-opt: error: {error}\n")
        return error.exit_code
    if error.everywhere or launch.all_arrive(comm, _PATIENCE):
        if comm.rank == 0:
            _say(f"mpi-opt: error: {error}\n")
        return error.exit_code
    _say(f"mpi-opt: error: rank {comm.rank} of {comm.size}: {error}\n")
    return _end_all(error.exit_code)


def _end_all(code: int) -> int:
    """End all ranks with ``code`` where there are several; else return it."""
    if launch.running_world() is not None:
        from mpi_opt.network.mpi import abort

        abort(code)
    return code


def _say(text: str) -> None:
    # One write: lines of several ranks do not mix.
    sys.stderr.write(text)
    sys.stderr.flush()


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
    _quiet_pipes()
    from mpi_opt.job import load_job

    job = load_job(options.job, options.set)
    from mpi_opt.execute import simulate_job

    return simulate_job(job, _orders(options, command), nodes=options.nodes)


def _quiet_pipes() -> None:
    """End silently where the reader of our output is gone, as commands do (``mpi-opt plan ... | head``)."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _orders(options: argparse.Namespace, command: Sequence[str]) -> "Orders":
    from mpi_opt.execute import Orders

    return Orders(out=options.out, overwrite=options.overwrite, progress=options.progress, command=command)


def _plan(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("plan", os.environ)
    _quiet_pipes()
    from mpi_opt.job import load_job

    job = load_job(options.job, options.set)
    from mpi_opt.planning import plan_job

    print(plan_job(job, nodes=options.nodes))
    return EXIT_DONE


def _info(_options: argparse.Namespace, _command: Sequence[str]) -> int:
    from mpi_opt.info import report

    found = report(os.environ)
    if launch.rank_from_environ(os.environ) in (None, 0):
        print(found.text, flush=True)
    if found.error is not None:
        raise found.error
    return EXIT_DONE


class _Parser(argparse.ArgumentParser):
    """A parser whose errors end like any other wrong input: one line, told once."""

    def error(self, message: str) -> NoReturn:
        raise JobError(f"{message} (see '{self.prog} --help')")


def _nodes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: an integer >= 1")
    return int(text)


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("is empty; allowed: the name of a folder")
    return Path(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mpi-opt",
        description="Train over many machines when the network is the bottleneck.",
        epilog="Exit codes: 0 done, 2 job or usage, 3 data, 4 launch or MPI, 5 diverged, 6 a rank failed.",
    )
    parser.add_argument("--version", action="version", version=f"mpi-opt {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a job, one MPI rank a node: mpiexec -n 8 mpi-opt run JOB")
    _add_job(run)
    _add_out(run)
    run.set_defaults(handler=_run)

    simulate = commands.add_parser("simulate", help="run a job on N virtual nodes in this process, without MPI")
    _add_job(simulate)
    _add_nodes(simulate)
    _add_out(simulate)
    simulate.set_defaults(handler=_simulate)

    plan = commands.add_parser("plan", help="say what a job needs on N nodes: shards, memory, graph, bytes a round")
    _add_job(plan)
    _add_nodes(plan)
    plan.set_defaults(handler=_plan)

    info = commands.add_parser(
        "info", help="versions, MPI library, launcher, hosts, cores, threads; also under mpiexec"
    )
    info.set_defaults(handler=_info)
    return parser


def _add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", type=Path, help="the job file (TOML)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a key of the job, e.g. algorithm.sync_every=10; an empty value removes it; may be repeated",
    )


def _add_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=_nodes, required=True, metavar="N", help="number of nodes")


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=_folder, metavar="DIR", help="the run's folder (default: runs/NAME)")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run in that folder")
    parser.add_argument(
        "--progress",
        choices=("auto", "bar", "lines", "none"),
        default="auto",
        help="how progress is shown; auto: a bar on a terminal, else lines (under mpiexec a bar must be asked for)",
    )
