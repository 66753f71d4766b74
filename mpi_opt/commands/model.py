"""``mpi-opt model ...``: look into a model file; to and from LIBLINEAR's text."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, add_group, file, quiet_pipes
from mpi_opt.errors import EXIT_DONE


def add_to(commands: Commands) -> None:
    """Add the group and its subcommands."""
    group = add_group(commands, "model", "look into a model file; to and from LIBLINEAR's text")
    info = group.add_parser("info", help="what a model is, how it was trained, and that the file is whole")
    info.add_argument("model", metavar="MODEL", type=Path, help="the model file")
    info.add_argument("--json", action="store_true", help="one JSON object, with the whole job")
    info.set_defaults(handler=_info)

    export = group.add_parser("export", help="write a model as LIBLINEAR's text, for its predict")
    export.add_argument("model", metavar="MODEL", type=Path, help="the model file")
    export.add_argument("out", metavar="OUT", type=file, help="the text file to write")
    export.set_defaults(handler=_export)

    bring = group.add_parser("import", help="make a model file of LIBLINEAR's text")
    bring.add_argument("text", metavar="IN", type=Path, help="what LIBLINEAR's train, or model export, has written")
    bring.add_argument("out", metavar="OUT", type=file, help="the model file to write")
    bring.add_argument(
        "--loss",
        choices=("softmax",),
        help="the loss of a model of type MCSVM_CS, as which model export writes softmax: gives probabilities",
    )
    bring.set_defaults(handler=_import)


def _info(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("model info", os.environ)
    quiet_pipes()
    import json

    from mpi_opt.model import load_model
    from mpi_opt.modelinfo import as_text, facts

    found = facts(load_model(options.model))
    print(json.dumps(found) if options.json else as_text(found))
    return EXIT_DONE


def _export(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("model export", os.environ)
    from mpi_opt.liblinear import write_liblinear
    from mpi_opt.metrics.files import check_apart
    from mpi_opt.model import load_model

    check_apart(options.out, [options.model])
    _tell(write_liblinear(load_model(options.model), options.out))
    return EXIT_DONE


def _import(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("model import", os.environ)
    from mpi_opt.liblinear import import_liblinear
    from mpi_opt.metrics.files import check_apart

    check_apart(options.out, [options.text])
    _tell(import_liblinear(options.text, options.out, softmax=options.loss == "softmax"))
    return EXIT_DONE


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        sys.stderr.write(f"mpi-opt: note: {note}\n")
