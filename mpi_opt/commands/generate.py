"""``mpi-opt data generate KIND``: a synthetic set of stated properties, or a stand-in for one that is not at hand."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi_opt import __version__, launch
from mpi_opt.commands.arguments import Commands, file, quiet_pipes
from mpi_opt.errors import EXIT_DONE, JobError

if TYPE_CHECKING:
    from mpi_opt.datasets.synthetic import Recipe

_COMMON = ("rows", "seed")
_OPTIONS: Mapping[str, Sequence[str]] = {
    "linear": (
        *_COMMON, "features", "density", "condition", "label_noise", "task", "classes", "heterogeneity", "nodes",
        "differ",
    ),
    "covtype-sim": (*_COMMON, "base"),
    "epsilon-sim": (*_COMMON, "features"),
    "rcv1-sim": (*_COMMON, "features"),
}  # fmt: skip
"""Which options each kind takes, beside ``--out`` and ``--overwrite``."""


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser("generate", help="make a synthetic set, or a stand-in for a real one")
    parser.add_argument("kind", metavar="KIND", choices=tuple(_OPTIONS), help=", ".join(_OPTIONS))
    parser.add_argument(
        "--out", type=file, metavar="FILE", help="LIBSVM text, gzipped as .gz, or shards as .h5 (default: KIND)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    for option, kind, metavar, about in (
        ("--rows", int, "N", "rows (linear 10000, epsilon-sim 20000, else those of the real set)"),
        ("--features", int, "D", "columns (linear 100, else those of the real set)"),
        ("--seed", int, "S", "everything follows from it (0)"),
        ("--density", float, "P", "linear: share of stored entries (1: dense)"),
        ("--condition", float, "K", "linear: condition number of X'X/n (1)"),
        ("--label-noise", float, "P", "linear: share of wrong labels; regression: of the variance (0)"),
        ("--task", str, "TASK", "linear: logistic (default), softmax or regression"),
        ("--classes", int, "C", "linear, softmax: classes (3)"),
        ("--heterogeneity", float, "H", "linear: how unlike the nodes' rows are (0: alike)"),
        ("--nodes", int, "N", 'linear: nodes that rows belong to in order, as partition = "contiguous" deals them'),
        ("--differ", str, "WHAT", "linear: what is unlike: features, weights or both (default)"),
        ("--base", str, "FILE", "covtype-sim: real rows of covtype.binary, scaled"),
    ):
        parser.add_argument(option, type=kind, metavar=metavar, help=about)
    parser.set_defaults(handler=_generate)


def _generate(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("data generate", os.environ)
    quiet_pipes()
    given = {
        name: getattr(options, name)
        for name in dict.fromkeys(name for names in _OPTIONS.values() for name in names)
        if getattr(options, name) is not None
    }
    for name in given:
        if name not in _OPTIONS[options.kind]:
            takers = ", ".join(kind for kind, names in _OPTIONS.items() if name in names)
            raise JobError(f"--{name.replace('_', '-')} has no meaning for {options.kind}; taken by {takers}")
    if not 0 <= given.get("seed", 0) < 2**63:
        raise JobError(f"--seed {given['seed']}: allowed: an integer from 0 to 2^63 - 1")
    out = Path(options.kind) if options.out is None else options.out
    try:
        if not options.overwrite and out.exists():
            raise JobError(f"--out {out}: is there already; give another name, or --overwrite to replace it")
        if not out.absolute().parent.is_dir():
            raise JobError(f"--out {out}: the folder {out.parent} does not exist")
    except OSError as error:
        raise JobError(f"--out {out}: cannot be written: {error.strerror}") from error
    _write(_RECIPES[options.kind](given), out)
    return EXIT_DONE


def _write(recipe: "Recipe", out: Path) -> None:
    """Write the set and tell what it turned out to be."""
    from mpi_opt.datasets.synthetic import blocks, mark
    from mpi_opt.datasets.synthetic_figures import Figures, stride

    print(mark(recipe), flush=True)
    if out.suffix == ".h5":
        from mpi_opt.datasets.synthetic_shards import write_shard_file

        written = write_shard_file(out, recipe, blocks(recipe), __version__)
    else:
        from mpi_opt.datasets.synthetic_text import write_text

        written = write_text(out, mark(recipe), blocks(recipe))
    figures = None
    for block in written:
        if figures is None:
            figures = Figures(stride(recipe.rows, block), classes=recipe.settings.get("task") != "regression")
        figures.add(block)
    assert figures is not None
    for line in figures.lines():
        print(line)
    print(f"written to {out}, {out.stat().st_size} bytes")


def _linear(given: dict[str, Any]) -> "Recipe":
    from mpi_opt.datasets.synthetic_linear import Linear

    return Linear(**given)


def _covtype(given: dict[str, Any]) -> "Recipe":
    from mpi_opt.datasets.source import search_paths
    from mpi_opt.datasets.synthetic_covtype import BASE, Covtype, read_base

    table, labels = read_base(given.pop("base", BASE), search_paths())
    return Covtype(table=table, labels=labels, **given)


def _epsilon(given: dict[str, Any]) -> "Recipe":
    from mpi_opt.datasets.synthetic_epsilon import Epsilon

    return Epsilon(**given)


def _rcv1(given: dict[str, Any]) -> "Recipe":
    from mpi_opt.datasets.synthetic_rcv1 import Rcv1

    return Rcv1(**given)


_RECIPES: Mapping[str, Callable[[dict[str, Any]], "Recipe"]] = {
    "linear": _linear,
    "covtype-sim": _covtype,
    "epsilon-sim": _epsilon,
    "rcv1-sim": _rcv1,
}
