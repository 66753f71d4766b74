"""``mpi-opt data info``: what a data file says about itself, and whether it is whole."""

import argparse
import json
import os
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, quiet_pipes
from mpi_opt.errors import EXIT_DONE


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser("info", help="tell what a data set is, without reading all of it")
    parser.add_argument("input", nargs="+", metavar="INPUT", help="as data.train of a job: files, a bare name, a glob")
    parser.add_argument("--verify", action="store_true", help="read all of .h5 files and check every checksum")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_info)


def _info(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("data info", os.environ)
    quiet_pipes()
    from mpi_opt.datasets.describing import describe, lines
    from mpi_opt.datasets.source import resolve, search_paths

    told = describe(resolve(options.input, search_paths()), verified=options.verify)
    print(json.dumps(told, indent=2) if options.json else "\n".join(lines(told)))
    return EXIT_DONE
