"""``mpi-opt watch``: a run looked at while it goes on."""

import argparse
import os
import sys
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, folder, quiet_pipes
from mpi_opt.errors import EXIT_DONE

_EXIT_INTERRUPTED = 130


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    watch = commands.add_parser("watch", help="look at runs while they go on, by their files alone; ends when they do")
    watch.add_argument("runs", metavar="RUN", type=folder, nargs="+", help="a run's folder, or a sweep's")
    watch.add_argument(
        "--interval", metavar="SECONDS", type=_seconds, default=2.0, help="time between two looks (default 2)"
    )
    watch.add_argument("--once", action="store_true", help="look once and end")
    watch.set_defaults(handler=_watch)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: seconds between 0.05 and 86400")
    return value


def _watch(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("watch", os.environ)
    quiet_pipes()
    try:
        from mpi_opt.watch.live import show_once, watch

        if options.once:
            show_once(options.runs, sys.stdout)
        else:
            watch(options.runs, sys.stdout, os.environ, interval=options.interval)
    except KeyboardInterrupt:  # the usual way to leave a run that goes on: nothing to be told
        return _EXIT_INTERRUPTED
    return EXIT_DONE
