"""``mpi-opt compare``: what runs spent until they met a target, beside each other."""

import argparse
import os
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_runs, add_target, file, quiet_pipes
from mpi_opt.errors import EXIT_DONE


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "compare", help="what runs spent until they met a target: rounds, messages, bytes, seconds, beside each other"
    )
    add_runs(parser)
    add_target(
        parser,
        "gap is F - F* (default with a target); error and accuracy are shares of the test rows",
    )
    parser.add_argument(
        "--reference",
        default="compute",
        metavar="F|RUN|compute",
        help="F*: a number, the least objective of a run, or computed from the data by Newton's method (default)",
    )
    parser.add_argument("--baseline", metavar="RUN", help="the run that ratios are against (default: the first)")
    parser.add_argument(
        "--interpolate",
        choices=("none", "log"),
        default="none",
        help="log: estimate what was spent between the last evaluation above the target and the first that meets it",
    )
    parser.add_argument(
        "--group-seeds",
        action="store_true",
        help="runs of one job that differ by seed become one line: median and range",
    )
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")
    parser.add_argument("--out", type=file, metavar="FILE", help="write there instead of to the terminal")
    parser.set_defaults(handler=_compare)


def _compare(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("compare", os.environ)
    quiet_pipes()
    from mpi_opt.comparing import Request, compare
    from mpi_opt.metrics.files import replace_file
    from mpi_opt.report import formats

    answer = compare(
        Request(
            runs=options.runs,
            measure=options.measure,
            place=options.at,
            target=options.target,
            reference=options.reference,
            baseline=options.baseline,
            interpolate=options.interpolate == "log",
            group_seeds=options.group_seeds,
        )
    )
    write = {
        "table": formats.as_text,
        "csv": formats.as_csv,
        "json": formats.as_json,
        "markdown": formats.as_markdown,
    }[options.format]
    text = write(answer)
    if options.out is None:
        print(text, end="", flush=True)
    else:
        replace_file(options.out, text.encode(), durable=False)
    return EXIT_DONE
