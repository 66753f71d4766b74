"""``verify``: the self-test of an installation."""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, folder, quiet_pipes, seconds


def add_to(commands: Commands) -> None:
    """Add the subcommand of this file."""
    verify = commands.add_parser(
        "verify",
        help="check this installation, in a minute: methods, messages, bytes, checkpoints, files; under mpiexec all of "
        "it: mpiexec -n 4 mpi-opt verify",
    )
    verify.add_argument(
        "--dir",
        type=folder,
        default=Path("."),
        metavar="DIR",
        help="where a temporary folder is made, on a file system that all ranks see (default: the current folder)",
    )
    verify.add_argument(
        "--timeout", type=seconds, default=120.0, metavar="SECONDS", help="longest time of one check (default: 120)"
    )
    verify.add_argument("--json", action="store_true", help="for programs")
    verify.set_defaults(handler=_verify)


def _verify(options: argparse.Namespace, _command: Sequence[str]) -> int:
    if launch.rank_from_environ(os.environ) is None:
        quiet_pipes()
    from mpi_opt.verify.checks import verify

    report = verify(os.environ, options.dir, seconds=options.timeout, show=_nothing if options.json else _line)
    if options.json and launch.rank_from_environ(os.environ) in (None, 0):
        print(json.dumps(report.values(), indent=2), flush=True)
    return report.exit_code


def _line(text: str) -> None:
    print(text, flush=True)


def _nothing(_text: str) -> None:
    pass
