"""``mpi-opt report``: a page and figures out of runs."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_runs, add_target, folder, quiet_pipes
from mpi_opt.errors import EXIT_DONE

_FORMATS = ("png", "pdf", "svg")


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "report", help="one HTML page and figures out of runs: what was reached, sent and waited for, node by node"
    )
    add_runs(parser)
    parser.add_argument(
        "--out", type=folder, default=Path("report"), metavar="DIR", help="where to write (default: report)"
    )
    parser.add_argument(
        "--format",
        type=_formats,
        default=("png", "pdf"),
        metavar="LIST",
        help="of the figures' own files: some of png,pdf,svg, or none for the page alone (default: png,pdf)",
    )
    add_target(
        parser,
        "gap is F - F* (default where F* is known, else objective); error and accuracy are of the test rows",
    )
    parser.add_argument(
        "--reference",
        metavar="F|RUN|compute|none",
        help="F*: a number, the least objective of a run, computed from the data, or none "
        "(default: computed where that can be done)",
    )
    parser.set_defaults(handler=_report)


def _report(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("report", os.environ)
    quiet_pipes()
    from mpi_opt.reporting import Request, make_report, write

    made = make_report(
        Request(
            runs=options.runs,
            measure=options.measure,
            place=options.at,
            target=options.target,
            reference=options.reference,
        )
    )
    files = write(made, options.out, options.format)
    print(f"{files[0]}" + (f" and {len(files) - 1} figure files beside it" if len(files) > 1 else ""), flush=True)
    return EXIT_DONE


def _formats(text: str) -> tuple[str, ...]:
    if text == "none":
        return ()
    chosen = tuple(dict.fromkeys(text.split(",")))
    unknown = [word for word in chosen if word not in _FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} in {text!r}: allowed: {', '.join(_FORMATS)}, several joined by commas, or none"
        )
    return chosen
