"""``predict``: what a model says of each row of a set; alone or under mpiexec."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, column, file, quiet_pipes
from mpi_opt.errors import EXIT_DONE, JobError


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "predict", help="predict with a model, one line a row, in the rows' order; also under mpiexec"
    )
    add_model_and_data(parser)
    parser.add_argument(
        "--what",
        choices=("label", "probability", "score"),
        default="label",
        help="a label or value for each row; probabilities of all classes; or margins (default: label)",
    )
    parser.add_argument("--out", type=file, metavar="FILE", help="where predictions go (default: standard output)")
    parser.add_argument(
        "--no-label",
        action="store_true",
        help="the table or array has neither labels nor weights: all its columns are features",
    )
    parser.add_argument("--numbers", action="store_true", help="labels as numbers, also where they stand for words")
    parser.set_defaults(handler=_predict)


def add_model_and_data(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, DATA and how data are read for a model."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="the model file, runs/NAME/model.h5")
    parser.add_argument("data", metavar="DATA", nargs="+", help="a data set as in a job: files, globs, builtin:NAME")
    parser.add_argument(
        "--module",
        metavar="FACTORY",
        help="what makes the model's module, where the job named package.module:factory or file.py:factory: such code "
        "is run only where it is named here",
    )
    parser.add_argument(
        "--extra-features",
        choices=("refuse", "ignore"),
        default="refuse",
        help="what to do with columns that the model does not have (default: refuse)",
    )
    parser.add_argument(
        "--index-base",
        type=int,
        choices=(0, 1),
        help="what the first column of LIBSVM text is called (default: as the model was trained)",
    )
    parser.add_argument(
        "--label",
        type=column,
        metavar="COL",
        help="label column of a table: name, or number from 0 (default: the job's)",
    )


def _predict(options: argparse.Namespace, _command: Sequence[str]) -> int:
    import sys

    if options.no_label and options.label is not None:
        raise JobError(f"--label {options.label} beside --no-label: allowed is one of them")
    together = launch.processes(os.environ)
    from mpi_opt.datasets.source import search_paths
    from mpi_opt.predicting import open_model, reading_of, score
    from mpi_opt.predictions import check_place, check_what, write_predictions
    from mpi_opt.threads import one_thread

    if together.size == 1:
        quiet_pipes()
    with one_thread(dense=False):  # the same bits, however many cores there are
        model, name = open_model(options.model, together), str(options.model)
        check_what(model, options.what, name)
        if options.out is not None:
            check_place(options.out, options.model, options.data, search_paths(), together)
        reading = reading_of(model, options.index_base, options.label, not options.no_label, name=name)
        extra, module = options.extra_features, options.module
        found = score(model, options.data, search_paths(), reading, extra, together, module, name)
        if together.rank == 0:
            for note in found.notes:
                sys.stderr.write(f"mpi-opt: note: {note}\n")
        write_predictions(model, found, options.what, options.out, together, words=not options.numbers)
    return EXIT_DONE
