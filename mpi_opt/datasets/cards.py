"""Cards: what is known of a published data set, and where its files are.

A card is a Markdown file that begins with a TOML head between two lines ``+++``; people read what follows, this module
reads the head. A figure that is not known is left out of the head, never guessed.
"""

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from mpi_opt.errors import DataError, JobError
from mpi_opt.words import nearest

FENCE = "+++"
SCHEMES = ("https", "http")
PACKED = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}
"""Ending of a name -> what ``compressed.detect`` calls such a file."""
KEPT_BACK = (".part", ".state", ".refused")
"""Endings of files that are not, or not yet, what the card describes; no file of a card ends so."""

PlainName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*\Z", max_length=100)]
"""A name without folders: it can lead nowhere but into the folder it is joined to."""
Sum = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0)]
Told = Annotated[str, Meta(min_length=1)]


class CardFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a set.

    Attributes
    ----------
    save : str
        Its name in the set's folder, so that the job's word finds it (see ``source.resolve``).
    addresses : tuple of str
        Where it is published, tried in this order; http or https.
    bytes, sha256 : int, str or None
        Of the file as it is served.
    text_bytes, text_sha256 : int, str or None
        Of what a packed file holds.
    """

    save: PlainName
    addresses: Annotated[tuple[Told, ...], Meta(min_length=1)]
    bytes: Count | None = None
    sha256: Sum | None = None
    text_bytes: Count | None = None
    text_sha256: Sum | None = None

    def __post_init__(self) -> None:
        if self.save.endswith(KEPT_BACK):
            raise ValueError(f"save = {self.save!r}: a name must not end in {', '.join(KEPT_BACK)}")
        if not self.packed and (self.text_bytes, self.text_sha256) != (None, None):
            raise ValueError(f"save = {self.save!r}: text_bytes and text_sha256 belong to packed files")
        for address in self.addresses:
            check_address(address)

    @property
    def packed(self) -> str:
        """The ending that tells how it is packed; empty for a plain file."""
        return next((ending for ending in PACKED if self.save.endswith(ending)), "")


class CardRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The train or the test rows of a set.

    Attributes
    ----------
    word : str
        What ``data.train`` or ``data.test`` of a job names them by.
    rows, nonzeros : int or None
        Rows; and entries stored in the text, zeros written out included (dense sets: entries that are not 0).
    largest_index : int or None
        Largest column that occurs, where it is not the last.
    labels : dict of str to int, or None
        Label as the file writes it (a number) -> how many rows have it.
    """

    word: Told
    rows: Count | None = None
    nonzeros: Count | None = None
    largest_index: Count | None = None
    labels: dict[str, Count] | None = None

    def __post_init__(self) -> None:
        for label in self.labels or {}:
            try:
                float(label)
            except ValueError:
                raise ValueError(f"labels: {label!r} is not a number") from None
        if self.labels and self.rows is not None and sum(self.labels.values()) != self.rows:
            raise ValueError(f"labels: {sum(self.labels.values())} rows have one, the set has {self.rows}")


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The head of a card.

    Attributes
    ----------
    name : str
        Also of the card's file, and of the folder that the set's files are put in.
    about, origin, licence, citation : str
        In words; ``licence`` says so where none is stated.
    task : str
        What is learned: ``binary``, ``classes`` or ``real``.
    features : int
        Columns.
    train, test : CardRows
        ``test`` is ``None`` for a set without one.
    files : tuple of CardFile
        Empty for a set that another package brings along.
    """

    name: PlainName
    about: Told
    origin: Told
    licence: Told
    citation: Told
    task: Annotated[str, Meta(pattern=r"^(binary|classes|real)\Z")]
    features: Annotated[int, Meta(ge=1)]
    train: CardRows
    test: CardRows | None = None
    files: tuple[CardFile, ...] = ()

    def __post_init__(self) -> None:
        names = [file.save for file in self.files]
        if len(set(names)) < len(names):
            raise ValueError(f"files: two are saved as {max(names, key=names.count)!r}")


def check_address(address: str) -> None:
    """Refuse what is not a whole http or https address of a file.

    Raises
    ------
    ValueError
        Names the address and what is allowed.
    """
    parts = urlsplit(address)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f"address {address!r}: allowed are http://HOST/... and https://HOST/...")
    if parts.query or parts.fragment or parts.path.endswith("/") or not parts.path:
        raise ValueError(f"address {address!r}: must end in the name of a file")
    if parts.username is not None or any(not " " < sign < "\x7f" for sign in address):
        raise ValueError(f"address {address!r}: must hold no user name, blanks or signs beyond ASCII")


def parse_card(text: str, place: str) -> Card:
    """Return the card that ``text`` begins with; ``place`` names it in errors.

    Raises
    ------
    DataError
        The head is missing or not TOML (with its line), a key is unknown or missing, a value is not allowed.
    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != FENCE:
        raise DataError(f"{place}:1: is no card: the first line of a card is {FENCE}")
    ends = [number for number, line in enumerate(lines) if number and line.strip() == FENCE]
    if not ends:
        raise DataError(f"{place}:{len(lines)}: is no card: the line {FENCE} that ends its head is missing")
    try:
        # the empty line stands for the fence, so that the parser counts lines as the file does
        raw = tomllib.loads("\n".join(["", *lines[1 : ends[0]]]))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{place}: the head is not valid TOML: {error}") from None
    try:
        return msgspec.convert(raw, Card)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`")
        value = _at(raw, path.lstrip("."))
        shown = f" = {value!r}" if isinstance(value, (str, int, float)) else ""
        where = f" {path.lstrip('.')}{shown}:" if path else ""
        raise DataError(f"{place}:{where} {what}") from None


def _at(raw: Any, path: str) -> Any:
    """Return what stands at ``files[0].save`` of the raw tables, or ``None``."""
    for step in path.replace("[", ".").replace("]", "").split("."):
        try:
            raw = raw[int(step)] if isinstance(raw, list) else raw[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return raw


def shipped_cards() -> tuple[str, ...]:
    """Return the names of the cards that were installed with the package, in their order; from sources none are."""
    folder = resources.files("mpi_opt") / "cards"
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name.removesuffix(".md") for entry in folder.iterdir() if entry.name.endswith(".md")))


def load_card(word: str) -> Card:
    """Return the card at a path (what has a ``/`` or ends in ``.md``), or the shipped card of that name.

    Raises
    ------
    JobError
        No such card.
    DataError
        The card cannot be read or is wrong.
    """
    if "/" in word or word.endswith(".md"):
        try:
            path = Path(word).expanduser()
            return parse_card(path.read_text(encoding="utf-8"), word)
        except FileNotFoundError:
            raise JobError(f"card {word!r}: there is no such file") from None
        # a user without a home folder is a RuntimeError
        except (OSError, UnicodeDecodeError, RuntimeError) as error:
            raise DataError(f"{word}: cannot be read: {error}") from error
    known = shipped_cards()
    if word not in known:
        raise JobError(f"card {word!r}: {_help(word, known)}")
    text = (resources.files("mpi_opt") / "cards" / f"{word}.md").read_text(encoding="utf-8")
    return parse_card(text, f"card {word!r} of the package")


def _help(word: str, known: Sequence[str]) -> str:
    if not known:
        return (
            "this package runs from its sources, where no cards are installed by name; name the file of a card, "
            f"such as data/{word}.md"
        )
    return f"there is none of that name{nearest(word, known)}; known are {', '.join(known)}; or name a card's file"
