"""LIBSVM text looked through by all processes together: every fault counted, the first ones told, and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

from mpi_opt.datasets.byteranges import share_ranges
from mpi_opt.datasets.checkparts import LISTED, Part, check_range
from mpi_opt.datasets.compressed import detect
from mpi_opt.datasets.facts import Facts
from mpi_opt.datasets.malformed import Kind
from mpi_opt.datasets.source import TextFiles, resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives

__all__ = ["LISTED", "CheckedFile", "Report", "Told", "check_text"]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file, or a word that names none, and what it holds.

    Attributes
    ----------
    name : str
    path : Path or None
        ``None`` where nothing is there to be read.
    size : int
        Bytes as stored.
    compressed : bool
    facts : Facts
    """

    name: str
    path: Path | None
    size: int = 0
    compressed: bool = False
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True, slots=True)
class Told:
    """A fault: file, line and column (bytes, from 1; ``None`` where it is the whole file's), kind, and words for it."""

    file: str
    line: int | None
    column: int | None
    kind: Kind
    message: str

    def __str__(self) -> str:
        place = [self.file, *(str(part) for part in (self.line, self.column) if part is not None)]
        return ":".join(place) + f": {self.message}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, the same on every process.

    Attributes
    ----------
    files : tuple of CheckedFile
    total : Facts
        Of all files, in their order.
    index_base : int
        What indices count from: as told, or 0 if any index is 0, else 1.
    features : int
        Columns up to the largest index.
    counts : dict of Kind to int
        Faults, those that do not occur left out.
    told : tuple of Told
        The first ``LISTED`` in the order of the files.
    """

    files: tuple[CheckedFile, ...]
    total: Facts
    index_base: int
    features: int
    counts: dict[Kind, int]
    told: tuple[Told, ...]

    @property
    def faults(self) -> int:
        """Number of all faults."""
        return sum(self.counts.values())


def check_text(words: Sequence[str], search: Sequence[Path], reading: Reading, collectives: Collectives) -> Report:
    """Look through files of LIBSVM text; called by all processes together.

    Plain files are cut into ranges of bytes, one share a process; each compressed file is read by one process.

    Parameters
    ----------
    words : sequence of str
        Files, globs and names, each as for ``source.resolve``.
    search : sequence of Path
        Folders for relative words.
    reading : Reading
        Its ``index_base`` and ``nan``; with the base open, files that differ in it are a fault.
    collectives : Collectives

    Returns
    -------
    Report
        Nothing about the files is raised: what is missing or damaged is a fault like others.
    """
    found: list[tuple[CheckedFile, str | None]] = []
    if collectives.rank == 0:
        found = [entry for word in words for entry in _look_up(word, search)]
    found = collectives.broadcast(found)
    base = reading.index_base
    mine = [
        (number, check_range(path, first, last, 0 if base is None else base, reading.nan))
        for number, path, first, last in _work([file for file, _ in found], collectives)
    ]
    parts: list[list[Part]] = [[] for _ in found]
    for share in collectives.gather(mine):
        for number, part in share:
            parts[number].append(part)
    return _report(found, parts, base)


def _look_up(word: str, search: Sequence[Path]) -> list[tuple[CheckedFile, str | None]]:
    """Return the files that ``word`` names, each with what is wrong with it as a whole."""
    try:
        source = resolve(word, search)
        if not isinstance(source, TextFiles):
            why = "is no LIBSVM text, and only that is looked through; mpi-opt data convert checks tables and arrays"
            return [(CheckedFile(word, None), why)]
        sizes = zip(source.paths, source.sizes, strict=True)
        return [(CheckedFile(str(path), path, size, detect(path) is not None), None) for path, size in sizes]
    except DataError as error:
        return [(CheckedFile(word, None), " ".join(str(error).removeprefix(f"{word}: ").split()))]


def _work(files: list[CheckedFile], collectives: Collectives) -> list[tuple[int, Path, int, int | None]]:
    """Return ``(file, path, first, last)`` of what this process reads, in the order of the files."""
    plain = [0 if file.compressed or file.path is None else file.size for file in files]
    ranges: list[tuple[int, int, int | None]] = [*share_ranges(plain, collectives.rank, collectives.size)]
    packed = [number for number, file in enumerate(files) if file.compressed]
    ranges += [(number, 0, None) for number in packed[collectives.rank :: collectives.size]]
    return [(number, path, first, last) for number, first, last in sorted(ranges) if (path := files[number].path)]


def _report(found: list[tuple[CheckedFile, str | None]], parts: list[list[Part]], base: int | None) -> Report:
    """Return the report of files and the parts of each, in order."""
    counts = np.zeros(len(Kind), dtype=np.int64)
    told: list[Told] = []
    files: list[CheckedFile] = []
    zeros: list[tuple[int, int] | None] = []
    for (file, wrong), pieces in zip(found, parts, strict=True):
        facts, zero, broken = Facts(), None, wrong
        listed: list[Told] = []
        for part in pieces:
            lines = facts.lines
            counts += part.counts
            # behind what could not be read, lines are not known
            if broken is None:
                listed += [
                    Told(file.name, place.line + lines, place.column, place.kind, place.message) for place in part.told
                ]
                if zero is None and part.zero is not None:
                    zero = part.zero[0] + lines, part.zero[1]
                if part.broken is not None:
                    broken = part.broken
                    listed.append(Told(file.name, lines + part.facts.lines + 1, None, Kind.UNREADABLE, broken))
            facts += part.facts
        if wrong is not None:
            listed.append(Told(file.name, None, None, Kind.UNREADABLE, wrong))
        counts[Kind.UNREADABLE] += broken is not None
        told += listed[:LISTED]
        zeros.append(zero)
        files.append(CheckedFile(file.name, file.path, file.size, file.compressed, facts))
    total = reduce(add, (file.facts for file in files), Facts())
    if base is None:
        base = 0 if total.smallest == 0 else 1
        conflict = _conflict(files, zeros)
        if conflict is not None:
            counts[Kind.CONFLICTING_BASES] += 1
            told = _in_order([*told, conflict], files)
    if total.rows == 0 and not counts.any():
        counts[Kind.NO_ROWS] += 1
        told.append(Told(files[0].name, None, None, Kind.NO_ROWS, "holds no rows; allowed is a set of at least one"))
    features = 0 if total.largest is None else total.largest + 1 - base
    by_kind = {Kind(number): count for number, count in enumerate(counts.tolist()) if count}
    return Report(tuple(files), total, base, features, by_kind, tuple(told[:LISTED]))


def _conflict(files: list[CheckedFile], zeros: list[tuple[int, int] | None]) -> Told | None:
    """Return the fault of files that do not all have an index 0, if some do."""
    having = [number for number, file in enumerate(files) if file.facts.smallest == 0]
    lacking = [file.name for file in files if (file.facts.smallest or 0) > 0]
    if not having or not lacking:
        return None
    line, column = zeros[having[0]] or (None, None)
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    message = (
        f"index 0 here, but the indices of {lacking[0]}{more} are all 1 or more; all files count alike: "
        "say index_base = 0 if a first feature is only absent there, else mend the file that differs"
    )
    return Told(files[having[0]].name, line, column, Kind.CONFLICTING_BASES, message)


def _in_order(told: list[Told], files: list[CheckedFile]) -> list[Told]:
    number = {file.name: place for place, file in enumerate(files)}
    return sorted(told, key=lambda one: (number[one.file], one.line or 0, one.column or 0))
