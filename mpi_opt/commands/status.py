"""``mpi-opt status``: how runs are doing, by SLURM's word and their own files."""

import argparse
import os
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, folder, quiet_pipes
from mpi_opt.errors import EXIT_DONE


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    status = commands.add_parser("status", help="how runs are doing: state, step, objective, checkpoint, time left")
    status.add_argument("runs", metavar="RUN", type=folder, nargs="+", help="a run's folder, or a sweep's")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(handler=_status)


def _status(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("status", os.environ)
    quiet_pipes()
    from mpi_opt.status import as_json, as_text, status_of

    found = status_of(options.runs)
    print(as_json(found) if options.json else as_text(found))
    return EXIT_DONE
