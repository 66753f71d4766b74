"""``mpi-opt data check``: look through LIBSVM text for faults."""

import argparse
import os
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, quiet_pipes
from mpi_opt.errors import EXIT_DONE, DataError

_BASES = {"auto": None, "0": 0, "1": 1}


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    check = commands.add_parser(
        "check", help="look through LIBSVM text for every fault, and say what it holds; also under mpiexec"
    )
    check.add_argument(
        "files", metavar="FILE", nargs="+", help="files, globs or names of data sets, all taken together as one set"
    )
    check.add_argument("--json", action="store_true", help="print one JSON document")
    check.add_argument(
        "--nan",
        choices=("refuse", "drop-row", "zero"),
        default="refuse",
        help="what a job would do with values that are not finite (data.nan); refuse: they are faults",
    )
    check.add_argument(
        "--index-base",
        choices=tuple(_BASES),
        default="auto",
        help="what indices count from (data.index_base); auto: 0 if any index is 0, which then must hold for all files",
    )
    check.set_defaults(handler=_check)


def _check(options: argparse.Namespace, _command: Sequence[str]) -> int:
    if launch.launcher_size(os.environ) in (None, 1):
        quiet_pipes()
    collectives = launch.processes(os.environ)
    from mpi_opt.datasets.checking import check_text
    from mpi_opt.datasets.checkreport import as_json, as_text
    from mpi_opt.datasets.source import search_paths
    from mpi_opt.datasets.spec import Reading

    reading = Reading(index_base=_BASES[options.index_base], nan=options.nan)
    report = check_text(options.files, search_paths(), reading, collectives)
    if collectives.rank == 0:
        print((as_json if options.json else as_text)(report, options.nan), flush=True)
    return DataError.exit_code if report.faults else EXIT_DONE
