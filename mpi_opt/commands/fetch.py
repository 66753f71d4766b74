"""``mpi-opt data fetch``: the files of cards from where they are published, checked."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mpi_opt import launch
from mpi_opt.commands.arguments import Commands, count, folder, quiet_pipes, seconds
from mpi_opt.errors import EXIT_DONE, DataError, JobError

if TYPE_CHECKING:
    from mpi_opt.datasets.cards import Card
    from mpi_opt.datasets.download import Watch

_BETWEEN_LINES = 5.0
"""Seconds between two lines about the same file."""


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    parser = commands.add_parser("fetch", help="download the files of a data set's card, and check them")
    parser.add_argument("cards", nargs="*", metavar="CARD", help="a card's file (data/a9a.md), or the name of one")
    parser.add_argument("--list", action="store_true", help="say what the cards hold (all that have a name), and end")
    parser.add_argument(
        "--to", type=folder, default="data/raw", metavar="DIR", help="put the set into DIR/NAME (default: data/raw)"
    )
    parser.add_argument(
        "--from",
        dest="mirror",
        metavar="MIRROR",
        help="take the files from this folder or http(s) address of one instead of the card's addresses",
    )
    parser.add_argument("--decompress", action="store_true", help="unpack packed files too, beside themselves")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there and is another one")
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="S", help="seconds without an answer (default: 30)"
    )
    parser.add_argument(
        "--retries", type=_tries, default=5, metavar="N", help="times to ask again, in a row (default: 5)"
    )
    parser.set_defaults(handler=_fetch)


def _fetch(options: argparse.Namespace, _command: Sequence[str]) -> int:
    launch.check_alone("data fetch", os.environ)
    from mpi_opt.datasets.cards import load_card, shipped_cards

    words = list(dict.fromkeys(options.cards))
    if options.list and not words:
        words = list(shipped_cards())
        if not words:
            raise JobError("--list: no cards are installed by name with this package; name the files of cards")
    if not words:
        raise JobError("no CARD: name a card or its file, or ask for --list")
    cards = [load_card(word) for word in words]
    if options.list:
        quiet_pipes()  # not for what follows: a server that hangs up must be an error, not our end
        print("\n".join(_listed(card) for card in cards))
        return EXIT_DONE
    from mpi_opt.datasets.download import Patience
    from mpi_opt.datasets.fetching import Fetching, fetch_card

    how = Fetching(
        to=options.to,
        mirror=options.mirror,
        decompress=options.decompress,
        overwrite=options.overwrite,
        patience=Patience(timeout=options.timeout, retries=options.retries),
    )
    watch: Watch = _Bar() if sys.stderr.isatty() else _Lines()
    failed: list[DataError] = []
    for card in cards:
        try:
            fetch_card(card, how, watch)
        except DataError as error:  # the other cards are worth having all the same
            failed.append(error)
    if failed:
        raise DataError("\n".join(str(error) for error in failed))
    return EXIT_DONE


def _listed(card: "Card") -> str:
    rows = f"{card.train.rows or '?'} rows"
    if card.test is not None:
        rows += f" (test {card.test.rows or '?'})"
    lines = [f"{card.name}: {card.about}", f"  {rows}, {card.features} features; licence: {card.licence}"]
    for file in card.files:
        size = "size not known" if file.bytes is None else f"{file.bytes} bytes"
        known = "sum known" if file.sha256 or file.text_sha256 else "sum not known"
        lines.append(f"  {file.save}: {size}, {known}, {file.addresses[0]}")
    if not card.files:
        lines.append(f"  no file: {card.train.word!r}")
    return "\n".join(lines)


def _tries(text: str) -> int:
    return 0 if text == "0" else count(text)


class _Lines:
    """Plain lines: what happened, and every few seconds how far a file is."""

    def __init__(self) -> None:
        self._what, self._done, self._last = "", 0, 0.0
        self._total: int | None = None

    def say(self, text: str) -> None:
        print(text, flush=True)

    def begin(self, what: str, done: int, total: int | None) -> None:
        self._what, self._done, self._total, self._last = what, done, total, time.monotonic()

    def advance(self, nbytes: int) -> None:
        self._done += nbytes
        if (now := time.monotonic()) - self._last < _BETWEEN_LINES:
            return
        self._last = now
        of = "" if self._total is None else f" of {self._total / 1e6:.1f} MB ({self._done / self._total:.0%})"
        self.say(f"{self._what}: {self._done / 1e6:.1f}{of or ' MB'}")

    def end(self) -> None:
        pass


class _Bar:
    """A bar on a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None

    def say(self, text: str) -> None:
        print(text, flush=True)

    def begin(self, what: str, done: int, total: int | None) -> None:
        from tqdm import tqdm

        self.end()
        self._bar = tqdm(desc=what, initial=done, total=total, unit="B", unit_scale=True, file=sys.stderr, leave=False)

    def advance(self, nbytes: int) -> None:
        self._bar.update(nbytes)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
