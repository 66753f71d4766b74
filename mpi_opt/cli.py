"""The command ``mpi-opt``: arguments in, exit code out, and how every error ends.

Wiring only. Nothing heavy is imported at the top: help, version and job errors cost neither NumPy nor MPI.

How an error ends (codes: ``docs/exit-codes.md``):

- one that all ranks found alike is told once, and every rank returns its code;
- one that a single rank has is told by that rank, which then ends all ranks;
- anything but a `MpiOptError` is told with rank and traceback, and ends all ranks.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from mpi_opt import __version__, launch
from mpi_opt.commands import (
    compare,
    data,
    evaluate,
    jobs,
    metrics,
    model,
    predict,
    report,
    scale,
    status,
    submit,
    verify,
    watch,
)
from mpi_opt.commands.arguments import Handler, Parser
from mpi_opt.errors import JobError, MpiOptError, RankFailedError
from mpi_opt.run.signals import hold

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
    if argv is None:
        hold()  # in a process of its own: what waits there is nobody else's
    return launch.leave(_run(list(sys.argv[1:] if argv is None else argv)))


def _run(arguments: list[str]) -> int:
    launch.limit_threads(os.environ)
    try:
        options = _parser().parse_args(arguments)
        handler: Handler = options.handler
        return handler(options, ["mpi-opt", *arguments])
    except MpiOptError as error:
        return _told(error)
    except KeyboardInterrupt:
        _say("mpi-opt: interrupted\n")
        return _end_all(EXIT_INTERRUPTED)
    except Exception as failure:
        if _output_failed(failure):
            return _told(JobError(f"cannot write to standard output: {failure}"))
        comm = launch.running_world()
        who = "" if comm is None else f" on rank {comm.rank} of {comm.size}"
        _say(f"mpi-opt: error: unexpected failure{who}\n{traceback.format_exc()}")
        return _end_all(RankFailedError.exit_code)


def _output_failed(failure: Exception) -> bool:
    """Return whether it is standard output that failed, and if so let go of what it could not take.

    Commands write nothing else themselves: what they call is in other modules, and files have names.
    """
    last = failure.__traceback__
    if not isinstance(failure, OSError) or failure.filename is not None or sys.stdout is None or last is None:
        return False
    while last.tb_next is not None:
        last = last.tb_next
    if not str(last.tb_frame.f_globals.get("__name__")).startswith("mpi_opt.commands."):
        return False
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
    return True


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


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="mpi-opt",
        description="Train over many machines when the network is the bottleneck.",
        epilog="Exit codes: 0 done, 2 job or usage, 3 data, 4 launch or MPI, 5 diverged, 6 a rank failed, 75 paused.",
    )
    parser.add_argument("--version", action="version", version=f"mpi-opt {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (jobs, verify, submit, status, watch, metrics, compare, report, scale, predict, evaluate, model, data):
        group.add_to(commands)
    return parser
