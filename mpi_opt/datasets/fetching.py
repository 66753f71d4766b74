"""A card's files into a folder: found there, or downloaded, checked, named, and unpacked where asked.

Nothing has its name before it is whole and right: what is on its way is called ``NAME.part``, what was refused
``NAME.refused``.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from mpi_opt.datasets.cards import SCHEMES, Card, CardFile
from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.download import CHUNK, Patience, Watch, download
from mpi_opt.datasets.part import Part
from mpi_opt.datasets.verifying import Verdict, differing, stored_sums, verify
from mpi_opt.datasets.web import RefusedError
from mpi_opt.errors import DataError, JobError


@dataclass(frozen=True, slots=True)
class Fetching:
    """How cards are fetched.

    Attributes
    ----------
    to : Path
        A set's files go to ``to/NAME``; ``data/raw`` is where jobs look for them.
    mirror : str or None
        Folder, or http, https or file address of one, that takes the place of the folders of the card's addresses.
    decompress : bool
        Packed files are unpacked as well, beside themselves.
    overwrite : bool
        A file that is there and not the card's is replaced, once the right one is there.
    patience : Patience
        When a server is given up.

    Raises
    ------
    JobError
        The mirror is neither a folder nor such an address.
    """

    to: Path
    mirror: str | None = None
    decompress: bool = False
    overwrite: bool = False
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        if self.mirror is None:
            return
        if "://" in self.mirror:
            parts = urlsplit(self.mirror)
            if parts.query or parts.fragment or any(not " " < sign < "\x7f" for sign in self.mirror):
                raise JobError(f"mirror {self.mirror!r}: allowed is the address of a folder, blanks written as %20")
            local = parts.scheme == "file" and parts.netloc in ("", "localhost")
            if not local and (parts.scheme not in SCHEMES or not parts.hostname):
                raise JobError(f"mirror {self.mirror!r}: allowed are http://, https:// and file:/// addresses")
        elif not Path(self.mirror).expanduser().is_dir():
            raise JobError(f"mirror {self.mirror!r}: there is no such folder; allowed is a folder or an address")


def fetch_card(card: Card, how: Fetching, watch: Watch) -> tuple[Path, ...]:
    """Bring all files of a card.

    Returns
    -------
    tuple of Path
        The files, those unpacked included.

    Raises
    ------
    DataError
        A file cannot be had, is not the card's, or cannot be written. The others are there all the same.
    """
    if not card.files:
        watch.say(f"{card.name}: no file to fetch; name it {card.train.word!r}")
    there: list[Path] = []
    failed: list[DataError] = []
    for file in card.files:
        try:
            there += _fetch_file(card, file, how, watch)
        except DataError as error:  # the other files are worth having all the same
            failed.append(error)
    if failed:
        raise DataError("\n".join(str(error) for error in failed))
    return tuple(there)


def _fetch_file(card: Card, file: CardFile, how: Fetching, watch: Watch) -> list[Path]:
    final = how.to / card.name / file.save
    if not _keep(final, file, how, watch):
        _bring(final, card, file, how, watch)
    if how.decompress and file.packed:
        return [final, _unpack(final, file, how, watch)]
    return [final]


def _keep(final: Path, file: CardFile, how: Fetching, watch: Watch) -> bool:
    """Return whether the file is there already and may stay."""
    if not os.path.lexists(final):
        return False
    if not final.is_file():
        raise DataError(f"{final}: is in the way, and is no file")
    verdict = verify(final, file, unpack=False)
    if not verdict.fault and (verdict.known or not how.overwrite):
        known = "have it" if verdict.known else f"have it; no sum is known, its sha256 is {verdict.stored.sha256}"
        watch.say(f"{final}: {known}")
        return True
    if how.overwrite:
        return False
    raise DataError(
        f"{final}: is there, but is not the card's file: {verdict.fault}. Move it away, or allow --overwrite"
    )


def _bring(final: Path, card: Card, file: CardFile, how: Fetching, watch: Watch) -> None:
    """Download one file from the first address that gives it."""
    refusals = []
    for address in _addresses(card, file, how.mirror):
        with Part(final) as part:
            _check_space(final, file, part.size)
            try:
                verdict = _from(address, part, file, how, watch)
            except RefusedError as error:
                refusals.append(f"{address}: {error}")
                continue
            if not verdict.fault:
                part.move(final)
                watch.say(f"{final}: {_praise(verdict)}")
                return
            refused = final.with_name(final.name + ".refused")
            part.move(refused)
            refusals.append(f"{address}: {verdict.fault} (kept as {refused})")
    raise DataError(f"{final}: could not be fetched:\n  " + "\n  ".join(refusals))


def _from(address: str, part: Part, file: CardFile, how: Fetching, watch: Watch) -> Verdict:
    """Download and check; pieces that do not make the right file are thrown away once, and it is taken whole."""
    checked = bool(file.sha256 or file.text_sha256)
    resumed = download(address, part, file.bytes, checked, how.patience, watch)
    verdict = verify(part.path, file, unpack=True)
    if verdict.fault and resumed:
        watch.say(f"{address}: the pieces do not make the file of the card; it is taken again from the start")
        part.restart(None)
        download(address, part, file.bytes, checked, how.patience, watch)
        verdict = verify(part.path, file, unpack=True)
    return verdict


def _addresses(card: Card, file: CardFile, mirror: str | None) -> Iterator[str]:
    """Yield where to look; on a mirror by the published name, and where this command would have put the file."""
    if mirror is None:
        yield from file.addresses
        return
    prefix = mirror if "://" in mirror else Path(mirror).expanduser().resolve().as_uri()
    published = [address.rpartition("/")[2] for address in file.addresses]
    for name in dict.fromkeys([*published, file.save, f"{card.name}/{file.save}"]):
        yield f"{prefix.rstrip('/')}/{name}"


def _check_space(final: Path, file: CardFile, have: int) -> None:
    if file.bytes is None:
        return
    free = shutil.disk_usage(final.parent).free
    if free < file.bytes - have:
        raise DataError(f"{final}: needs {file.bytes - have} more bytes, but {final.parent} has only {free} left")


def _praise(verdict: Verdict) -> str:
    stored, text = verdict.stored, verdict.text
    if verdict.known:
        # where only the text's sum is known, that of the packed file is worth a note
        note = "" if text is None else f"; the packed file's sha256 is {stored.sha256}"
        return f"{stored.bytes} bytes, as the card says{note}"
    inside = "" if text is None else f"; unpacked: {text.bytes} bytes, sha256 {text.sha256}"
    return (
        f"{stored.bytes} bytes, sha256 {stored.sha256}{inside}; the card has no sum to compare with, so note these ones"
    )


def _unpack(packed: Path, file: CardFile, how: Fetching, watch: Watch) -> Path:
    """Unpack beside the packed file; what is there already is compared."""
    plain = packed.with_name(file.save.removesuffix(file.packed))
    if os.path.lexists(plain) and not plain.is_file():
        raise DataError(f"{plain}: is in the way, and is no file")
    there = stored_sums(plain) if plain.exists() else None
    if there is not None and file.text_sha256 and not differing(there, file.text_bytes, file.text_sha256, ""):
        watch.say(f"{plain}: have it")
        return plain
    with Part(plain) as part:
        try:
            _pour(packed, part, file.text_bytes, watch)
            sums = stored_sums(part.path)
            if fault := differing(sums, file.text_bytes, file.text_sha256, ""):
                raise DataError(f"{packed}: unpacks to something else: {fault}")
            if there not in (None, sums) and not how.overwrite:
                raise DataError(
                    f"{plain}: is there, but is not what {packed.name} holds. Move it away, or allow --overwrite"
                )
        except DataError:
            part.restart(None)
            raise
        part.move(plain)
    watch.say(f"{plain}: " + ("have it" if there == sums else f"{sums.bytes} bytes, unpacked"))
    return plain


def _pour(packed: Path, part: Part, total: int | None, watch: Watch) -> None:
    part.restart(None)
    try:
        with open_stream(packed) as stream:
            watch.begin(part.path.name, 0, total)
            while data := stream.read(CHUNK):
                part.write(data)
                watch.advance(len(data))
    finally:
        watch.end()
