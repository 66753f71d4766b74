"""Arguments that several subcommands share, and the parser whose errors end like any other wrong input."""

import argparse
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from mpi_opt.errors import JobError

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What a group of subcommands adds itself to."""
Options: TypeAlias = "argparse._ActionsContainer"
"""A parser, or a group of its arguments."""
Handler: TypeAlias = Callable[[argparse.Namespace, Sequence[str]], int]
"""A subcommand: its options and the whole command line in, exit code out. ``parser.set_defaults(handler=...)``."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors end like any other wrong input: one line, told once."""

    def error(self, message: str) -> NoReturn:
        """Raise the ``message`` as a `JobError`."""
        raise JobError(f"{message} (see '{self.prog} --help')")


def quiet_pipes() -> None:
    """End silently where the reader of our output is gone, as commands do (``mpi-opt plan ... | head``)."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def count(text: str) -> int:
    """Return an integer of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: an integer >= 1")
    return int(text)


def whole(text: str) -> int:
    """Return an integer of at least 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: an integer >= 0")
    return int(text)


def number(text: str) -> float:
    """Return a finite number, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = float("inf")
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: a number")
    return value


def seconds(text: str) -> float:
    """Return a finite number above 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: a number of seconds > 0")
    return value


def folder(text: str) -> Path:
    """Return the path of a folder, for argparse."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; allowed: the name of a folder")
    return Path(text)


def file(text: str) -> Path:
    """Return the path of a file to write, for argparse."""
    if text.endswith(("/", "/.")) or Path(text).name in ("", ".."):
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: the name of a file")
    return Path(text)


def column(text: str) -> str | int:
    """Return the column of a table: its number where the text is one, else its name; for argparse."""
    try:
        return int(text)
    except ValueError:
        return text


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add JOB and ``--set``."""
    parser.add_argument("job", metavar="JOB", type=Path, help="the job file (TOML)")
    add_set(
        parser, "override a key of the job, e.g. algorithm.sync_every=10; an empty value removes it; may be repeated"
    )


def add_set(parser: argparse.ArgumentParser, about: str) -> None:
    """Add ``--set``."""
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=about)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add RUN..."""
    parser.add_argument("runs", metavar="RUN", type=folder, nargs="+", help="a run's folder, or its metrics.h5")


def add_target(
    parser: Options, of_measure: str, of_target: str = "what the measure is to meet (default: last figures)"
) -> None:
    """Add ``--target``, ``--measure`` and ``--at``: what is to be reached, and by which model.

    Parameters
    ----------
    parser : ArgumentParser or a group of its arguments
    of_measure, of_target : str
        Help of ``--measure`` and ``--target``.
    """
    parser.add_argument("--target", type=number, metavar="X", help=of_target)
    parser.add_argument(
        "--measure", choices=("gap", "objective", "gradient-norm", "error", "accuracy"), help=of_measure
    )
    parser.add_argument(
        "--at",
        choices=("average", "mean", "worst"),
        default="average",
        help="the averaged model, the mean over the nodes' own models, or the worst of them (default: average)",
    )


def add_queue(parser: Options, launcher: str) -> None:
    """Add what SLURM is told beside hosts, ranks and time; ``launcher`` is the name of the launcher's option."""
    parser.add_argument("--site", type=Path, metavar="FILE", help="site profile: account, partition, modules (TOML)")
    parser.add_argument(launcher, choices=("srun", "mpirun"), help="what starts the ranks (default: the site's)")
    parser.add_argument("--dependency", metavar="WHAT", help="when it may begin, as sbatch reads it: afterok:123")
    parser.add_argument("--print", action="store_true", help="only print the batch files")


def add_group(commands: Commands, name: str, about: str) -> Any:
    """Add a subcommand that has subcommands of its own, and return what those are added to."""
    return commands.add_parser(name, help=about).add_subparsers(required=True, metavar="COMMAND")
