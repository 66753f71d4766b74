"""Whether a file is the one that its card describes."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from mpi_opt.datasets.cards import PACKED, CardFile
from mpi_opt.datasets.compressed import detect, open_stream
from mpi_opt.errors import DataError

_PIECE = 1 << 20


class Sums(NamedTuple):
    """``bytes`` and ``sha256`` of something."""

    bytes: int
    sha256: str


class Verdict(NamedTuple):
    """What was found.

    Attributes
    ----------
    fault : str
        Why the file is not the card's; empty where nothing speaks against it.
    known : bool
        The card has a sum, and it was compared.
    stored, text : Sums or None
        Of the file, and of what is in it; ``None`` where that was not computed.
    """

    fault: str
    known: bool
    stored: Sums
    text: Sums | None = None


def verify(path: Path, file: CardFile, *, unpack: bool) -> Verdict:
    """Compare the file at ``path`` with what the card says of ``file``.

    Parameters
    ----------
    unpack : bool
        A packed file without any known sum is unpacked to see that it is whole.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    stored = stored_sums(path)
    known = bool(file.sha256 or file.text_sha256)
    fault = differing(stored, file.bytes, file.sha256, "")
    if not fault and not known:
        fault = _kind_fault(path, file.packed)
    text = None
    if not fault and not file.sha256 and file.packed and (known or unpack):
        try:
            text = text_sums(path)
        except DataError as error:
            fault = f"sha256 {stored.sha256}; does not unpack: {error}"
        else:
            fault = differing(text, file.text_bytes, file.text_sha256, "unpacked: ")
    return Verdict(fault, known, stored, text)


def differing(found: Sums, nbytes: int | None, sha256: str | None, what: str) -> str:
    """Return in what ``found`` is not what the card says, naming both; empty where it agrees or the card is silent."""
    faults = []
    if nbytes is not None and found.bytes != nbytes:
        faults.append(f"{found.bytes} bytes, the card says {nbytes}")
    if sha256 is not None and found.sha256 != sha256:
        faults.append(f"sha256 {found.sha256}, the card says {sha256}")
    return what + "; ".join(faults) if faults else ""


def text_sums(path: Path) -> Sums:
    """Return the sums of what is in a packed or plain file.

    Raises
    ------
    DataError
        It cannot be read or is damaged.
    """
    digest, count = hashlib.sha256(), 0
    with open_stream(path) as stream:
        while data := stream.read(_PIECE):
            digest.update(data)
            count += len(data)
    return Sums(count, digest.hexdigest())


def stored_sums(path: Path) -> Sums:
    """Return the sums of a file as it is; errors as in `text_sums`."""
    try:
        with path.open("rb") as file:
            return Sums(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _kind_fault(path: Path, packed: str) -> str:
    """Return what betrays that something else came in the place of the file: nothing, or a page about an error."""
    with path.open("rb") as file:
        head = file.read(64).lstrip().lower()
    if not head:
        return "is empty"
    if head.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "is a web page"
    wanted = PACKED.get(packed)
    found = detect(path)
    return "" if wanted is None or found == wanted else f"is {found or 'no packed file'}, not {wanted}"
