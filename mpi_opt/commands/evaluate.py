"""``evaluate``: how good a model's predictions are on a labelled set; alone or under mpiexec."""

import argparse
import os
from collections.abc import Sequence

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, file, quiet_pipes
from mpi_opt.commands.predict import add_model_and_data
from mpi_opt.errors import EXIT_DONE


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "evaluate", help="score a model on labelled data: log-loss, accuracy, F1, AUC, counts; also under mpiexec"
    )
    add_model_and_data(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--out", type=file, metavar="PREDICTIONS", help="write the predicted labels or values as well")
    parser.set_defaults(handler=_evaluate)


def _evaluate(options: argparse.Namespace, _command: Sequence[str]) -> int:
    together = launch.processes(os.environ)
    from mpi_opt.datasets.source import search_paths
    from mpi_opt.evaluating import as_json, as_text, evaluate
    from mpi_opt.predicting import open_model, reading_of, score
    from mpi_opt.predictions import check_place, write_predictions
    from mpi_opt.threads import one_thread

    if together.size == 1:
        quiet_pipes()
    with one_thread(dense=False):
        model, name = open_model(options.model, together), str(options.model)
        if options.out is not None:
            check_place(options.out, options.model, options.data, search_paths(), together)
        reading = reading_of(model, options.index_base, options.label, name=name)
        extra, module = options.extra_features, options.module
        found = score(model, options.data, search_paths(), reading, extra, together, module, name)
        figures = evaluate(model, found, together)
        if options.out is not None:
            write_predictions(model, found, "label", options.out, together)
    if together.rank == 0:
        print(as_json(figures) if options.json else as_text(figures), flush=True)
    return EXIT_DONE
