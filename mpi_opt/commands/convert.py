"""``mpi-opt data convert``: any data set to one file that any number of processes reads by row slices."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, column, count, file
from mpi_opt.errors import EXIT_DONE

if TYPE_CHECKING:
    from mpi_opt.datasets.converting import Converted


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "convert", help="turn a data set into one .h5 file for fast reading; also under mpiexec"
    )
    parser.add_argument(
        "input",
        nargs="+",
        metavar="INPUT",
        help="as data.train of a job: LIBSVM text, .csv, .npy, .npz, IDX, or .h5 files made by this command; "
        "several are one set, in this order",
    )
    parser.add_argument("--out", type=file, required=True, metavar="X.h5", help="the file to write")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of features (float64)")
    layout = parser.add_mutually_exclusive_group()
    layout.add_argument("--dense", action="store_const", const="dense", dest="layout", help="store a dense table")
    layout.add_argument(
        "--sparse", action="store_const", const="csr", dest="layout", help="store CSR (default: as the source is read)"
    )
    parser.add_argument(
        "--index-base", choices=("0", "1", "auto"), default="1", help="what columns of text count from (1)"
    )
    parser.add_argument(
        "--nan", choices=("refuse", "drop-row", "zero"), default="refuse", help="values that are not finite (refuse)"
    )
    parser.add_argument("--label", type=column, metavar="COL", help="label column of a table: name, or number from 0")
    parser.add_argument("--weight", type=column, metavar="COL", help="column of row weights: name, or number from 0")
    parser.add_argument(
        "--labels", type=_words, metavar="A,B", help="labels that are words, in the order of their numbers 0, 1, ..."
    )
    parser.add_argument("--features", type=count, metavar="N", help="number of columns (default: as many as occur)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    parser.set_defaults(handler=_convert)


def _convert(options: argparse.Namespace, command: Sequence[str]) -> int:
    collectives = launch.processes(os.environ)
    from mpi_opt.datasets.converting import Wanted, convert
    from mpi_opt.datasets.source import search_paths
    from mpi_opt.datasets.spec import Reading

    base = None if options.index_base == "auto" else int(options.index_base)
    reading = Reading(base, options.nan, options.label, options.weight, options.labels)
    wanted = Wanted(
        options.out,
        options.layout,
        single=options.dtype == "float32",
        features=options.features,
        overwrite=options.overwrite,
        command=command,
    )
    began = time.perf_counter()
    made = convert(options.input, search_paths(), reading, wanted, collectives)
    if collectives.rank == 0:
        print("\n".join(_lines(options.out, made, time.perf_counter() - began)), flush=True)
    return EXIT_DONE


def _lines(path: Path, made: "Converted", seconds: float) -> list[str]:
    from mpi_opt.datasets.describing import summary

    read = sum(int(source["bytes"]) for source in made.facts.provenance["sources"])
    return [
        *(f"note: {note}" for note in made.notes),
        f"{path}: {summary(made.facts)}, {made.nbytes} bytes (from {read}), {seconds:.1f} s",
    ]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))
