"""Any data set to one ``shards.h5``: by all processes together, in pieces, the same file from any number of them."""

import platform
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpi_opt.datasets.converting_pieces import Kind, paths_of, pieces_alone, pieces_together, read_together, recipe_in
from mpi_opt.datasets.pieces import Piece
from mpi_opt.datasets.reading import check_keys
from mpi_opt.datasets.rows import Rows, Seen
from mpi_opt.datasets.shardfile import Facts, Layout
from mpi_opt.datasets.shardfile_collect import Collector
from mpi_opt.datasets.shardfile_write import writing
from mpi_opt.datasets.source import Source, TableFiles, resolve
from mpi_opt.datasets.spec import Reading
from mpi_opt.datasets.tablelayout import look
from mpi_opt.datasets.verifying import stored_sums
from mpi_opt.errors import DataError, JobError, MpiOptError
from mpi_opt.metrics.attributes import version_of
from mpi_opt.network.collectives import Collectives


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file is to be.

    Attributes
    ----------
    path : Path
        Its name.
    layout : {"csr", "dense"} or None
        ``None``: as the source is read.
    single : bool
        Features as float32 instead of float64.
    features : int or None
        How many; ``None``: as many as occur.
    overwrite : bool
        Whether a file of that name may be replaced.
    command : sequence of str
        For the provenance.
    """

    path: Path
    layout: Layout | None = None
    single: bool = False
    features: int | None = None
    overwrite: bool = False
    command: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of it: the file's facts and bytes, and what a user should know."""

    facts: Facts
    nbytes: int
    notes: tuple[str, ...]


def convert(
    words: Sequence[str], search: Sequence[Path], reading: Reading, wanted: Wanted, collectives: Collectives
) -> Converted:
    """Write a ``shards.h5``; called by all processes together.

    Memory is bounded whatever the size of the set (IDX and built-in sets are read as a whole); beside the file there
    must be room for its columns a second time while it is made.

    Parameters
    ----------
    words, search
        As for ``source.resolve``.
    reading : Reading
        How text and tables are read.
    wanted : Wanted
    collectives : Collectives

    Raises
    ------
    DataError
        On every process: as reading the set raises it, or a file changed meanwhile.
    JobError
        On every process: the file is there already, or cannot be written.
    """
    source, error = None, None
    if collectives.rank == 0:
        try:
            source = resolve(list(words), search)
            check_keys(source, reading)
            with writing(wanted.path):
                _check_target(wanted, source)
        except MpiOptError as caught:
            error = caught
    collectives.check(error)
    source = collectives.broadcast(source)
    before = _sources(source, collectives)
    work = _Work(source, reading, wanted)
    with closing(work):
        if read_together(source):
            kind = Kind(0 if isinstance(source, TableFiles) else reading.index_base, recipe=recipe_in(paths_of(source)))
            for pieces in pieces_together(source, reading, collectives):
                collectives.check(work.try_add(kind, pieces))
        elif collectives.rank == 0:
            work.try_alone()
        # also where the others only wait: they hear of errors, and then of the result
        collectives.check(work.error)
        result = None
        if collectives.rank == 0:
            result = work.try_finish(before, collectives.size)
        collectives.check(work.error)
    made: Converted = collectives.broadcast(result)
    return made


class _Work:
    """What rank 0 does; errors are kept until all processes can hear of them."""

    def __init__(self, source: Source, reading: Reading, wanted: Wanted) -> None:
        self._source, self._reading, self._wanted = source, reading, wanted
        self._collector: Collector | None = None
        self._kind = Kind()
        self._seen, self._columns = Seen(), 0
        self.error: Exception | None = None

    def try_add(self, kind: Kind, pieces: Iterable[Piece]) -> Exception | None:
        """Add pieces; return what went wrong."""
        try:
            for piece in pieces:
                self._add(kind, piece)
        except MpiOptError as caught:
            self.error = caught
        return self.error

    def try_alone(self) -> None:
        """Read the source and add all of it."""
        try:
            self.try_add(*pieces_alone(self._source, self._reading))
        except MpiOptError as caught:
            self.error = caught

    def _add(self, kind: Kind, piece: Piece) -> None:
        if self._collector is None:
            wanted = self._wanted
            self._kind = kind
            self._collector = Collector(
                wanted.path, self._source.name, wanted.layout, single=wanted.single, divisor=kind.divisor
            )
        self._seen += Seen(dropped=piece.dropped, zeroed=piece.zeroed)
        self._columns = max(self._columns, piece.columns)
        if isinstance(piece.features, Rows):
            self._seen += piece.features.seen
        self._collector.add(piece)

    def try_finish(self, before: list[dict[str, Any]], processes: int) -> Converted | None:
        """Write the file."""
        try:
            return self._finish(before, processes)
        except MpiOptError as caught:
            self.error = caught
        return None

    def _finish(self, before: list[dict[str, Any]], processes: int) -> Converted:
        if self._collector is None:
            raise DataError(f"{self._source.name}: holds no rows; allowed is a set of at least one")
        for entry, path in zip(before, paths_of(self._source), strict=True):
            if (entry["bytes"], entry["changed"]) != _stamp(path):
                raise DataError(f"{path}: changed while it was read; convert it again when it stays as it is")
        notes, names = self._seen.notes(self._source.name), self._kind.names
        reading = self._reading
        words = self._kind.words if reading.labels is None else reading.labels
        if isinstance(self._source, TableFiles):
            layout = look(self._source, reading)
            notes, names = (layout.note(self._source.name), *notes), layout.feature_names
        provenance: dict[str, Any] = {
            "sources": [{name: entry[name] for name in ("file", "bytes", "sha256")} for entry in before],
            "reading": {"index_base": reading.index_base, "nan": reading.nan, "label": reading.label}
            | {"weight": reading.weight, "labels": None if words is None else list(words)},
            "names": None if names is None else list(names),
            "notes": list(notes),
            "recipe": self._kind.recipe,
            "command": list(self._wanted.command),
            "mpi_opt": version_of("mpi_opt"),
            "python": platform.python_version(),
            "processes": processes,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        base = 0 if self._kind.index_base is None and self._seen.zero_index else self._kind.index_base
        facts, nbytes = self._collector.finish(
            base, max(self._kind.features, self._columns), self._wanted.features, provenance, self._kind.told_base
        )
        return Converted(facts, nbytes, (*notes, *_advice(facts, self._wanted)))

    def close(self) -> None:
        """Give all room back."""
        if self._collector is not None:
            self._collector.close()


def _advice(facts: Facts, wanted: Wanted) -> list[str]:
    said = []
    if wanted.single:
        said.append(f"{facts.changed} values changed on their way to float32")
    if facts.layout == "csr" and wanted.layout is None and facts.nonzeros > 0.5 * facts.rows * facts.features:
        share = 100.0 * facts.nonzeros / (facts.rows * facts.features)
        said.append(f"{share:.0f} % of the entries are stored: --dense takes less room, and jobs run faster")
    return said


def _check_target(wanted: Wanted, source: Source) -> None:
    """Refuse a target that must not be written."""
    path = wanted.path
    if path.is_dir():
        raise JobError(f"--out {path}: is a folder; allowed is the name of a file")
    if not path.parent.is_dir():
        raise JobError(f"--out {path}: its folder does not exist; make it first")
    if path.exists() and any(path.samefile(other) for other in paths_of(source)):
        raise JobError(f"--out {path}: is what is read; allowed is another name")
    if path.exists() and not wanted.overwrite:
        raise JobError(f"--out {path}: is there already; --overwrite replaces it")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return found.st_size, found.st_mtime_ns


def _sources(source: Source, collectives: Collectives) -> list[dict[str, Any]]:
    """Return names, sizes and hashes of the files, each hashed by one process; called by all together."""
    mine, error = {}, None
    try:
        for number, path in enumerate(paths_of(source)):
            if number % collectives.size == collectives.rank:
                nbytes, changed = _stamp(path)
                mine[number] = {
                    "file": str(path),
                    "bytes": nbytes,
                    "changed": changed,
                    "sha256": stored_sums(path).sha256,
                }
    except DataError as caught:
        error = caught
    collectives.check(error)
    found = {number: entry for part in collectives.gather(mine) for number, entry in part.items()}
    return [found[number] for number in sorted(found)]
