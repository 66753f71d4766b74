"""What can be told about a data set without reading all of it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mpi_opt.datasets.compressed import detect
from mpi_opt.datasets.converting_pieces import paths_of
from mpi_opt.datasets.records import RecordFiles
from mpi_opt.datasets.shardfile import Contents, Facts
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.shardfile_read import verify
from mpi_opt.datasets.source import ArrayFiles, BuiltinSet, IdxPair, ShardFiles, Source, TableFiles
from mpi_opt.errors import JobError
from mpi_opt.words import number_text

_SHOWN = 12


def describe(source: Source, *, verified: bool) -> dict[str, Any]:
    """Return facts as JSON values.

    Parameters
    ----------
    source : Source
    verified : bool
        Read all of converted files and check them.

    Raises
    ------
    DataError
        A file cannot be read, or is damaged.
    JobError
        Other files are to be verified: they have no checksums.
    """
    if verified and not isinstance(source, ShardFiles):
        raise JobError(f"--verify: {source.name} has no checksums; allowed are files made by mpi-opt data convert")
    told: dict[str, Any] = {"name": source.name, "kind": _kind(source), "files": []}
    packable = not isinstance(source, ShardFiles | ArrayFiles)
    told["files"] = [_file(path, detect(path) if packable else None) for path in paths_of(source)]
    if isinstance(source, ShardFiles):
        told["sets"] = [_shards(open_shards(path), verified) for path in source.paths]
    return told


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield what ``describe`` returned, for people."""
    yield f"{told['name']}: {told['kind']}"
    for entry in told["files"]:
        packed = f", {entry['compressed']}" if entry["compressed"] else ""
        yield f"  {entry['file']}  {entry['bytes']} bytes{packed}"
    for entry in told.get("sets", ()):
        yield f"{entry['file']}: {entry['summary']}"
        if entry["label_counts"] is not None:
            counts = [f"{number_text(label)}: {rows}" for label, rows in entry["label_counts"]]
            yield "  labels  " + ", ".join(counts[:_SHOWN]) + (", ..." if len(counts) > _SHOWN else "")
        for name, array in entry["arrays"].items():
            yield f"  {name:<8}  {array['type']} x {array['items']}, {array['bytes']} bytes"
        made = entry["provenance"]
        # a set that was generated is the same bytes whenever it is made
        when = f" at {made['time']}" if "time" in made else ""
        yield f"  made of {entry['name']} by mpi_opt {made.get('mpi_opt')}{when}"
        for origin in made.get("sources", ()):
            yield f"    {origin['file']}  {origin['bytes']} bytes  sha256 {origin['sha256']}"
        for note in made.get("notes", ()):
            yield f"  note: {note}"
        if entry["verified"]:
            yield "  verified: every checksum fits, and the rows are in order"


def summary(facts: Facts) -> str:
    """Return a set's figures in one line."""
    kind = "CSR" if facts.layout == "csr" else "dense"
    more = [f"{kind}, columns from {facts.index_base}" if facts.layout == "csr" else kind]
    if facts.constant is not None:
        more.append(f"all values {facts.constant:g}")
    if facts.divisor != 1.0:
        more.append(f"divided by {facts.divisor:g} when read")
    if facts.weighted:
        more.append("rows have weights")
    if facts.changed:
        more.append(f"{facts.changed} values rounded to float32")
    return f"{facts.rows} rows, {facts.features} features, {facts.nonzeros} non-zeros ({'; '.join(more)})"


def _shards(contents: Contents, verified: bool) -> dict[str, Any]:
    if verified:
        verify(contents)
    arrays = {
        name: {"type": place.dtype.name, "items": place.items, "bytes": place.items * place.dtype.itemsize}
        for name, place in contents.places.items()
    }
    facts = contents.facts
    more = {"file": str(contents.path), "summary": summary(facts), "arrays": arrays, "verified": verified}
    return more | asdict(facts) | {"provenance": dict(facts.provenance)}


def _kind(source: Source) -> str:
    match source:
        case ShardFiles():
            return "converted data"
        case TableFiles():
            return "table of text"
        case ArrayFiles():
            return "NumPy arrays"
        case IdxPair():
            return "IDX images and labels"
        case RecordFiles():
            return "records of CIFAR-10"
        case BuiltinSet():
            return "set that scikit-learn brings along"
        case _:
            return "LIBSVM text"


def _file(path: Path, packed: str | None) -> dict[str, Any]:
    return {"file": str(path), "bytes": path.stat().st_size, "compressed": packed}
