"""All nodes' metrics as one file of arrays (nodes, rows).

HDF5 fills a virtual dataset silently where a source is missing, short or left open by a killed writer. So sources are
checked when the view is made, and again by ``read_joined``; and files that a plain reader cannot open (a run that goes
on or was killed) are copied into the joined file instead of being pointed at.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import closed_cleanly, image, open_reading, replace_file
from mpi_opt.metrics.lost import Lost, read_lost, told
from mpi_opt.metrics.rank_file import RankMetrics, check_format, plain_attributes, read_rank

FORMAT = "mpi_opt joined metrics"
_OWN = frozenset({"node", "host", "format", "units", "schema_version"})  # not the same thing for all nodes together


_COMMON = frozenset(
    {
        *("step", "round", "epoch", "nodes_alive", "objective_mean", "objective_worst", "objective_average"),
        *("test_error_mean", "test_error_worst", "test_error_average", "train_error_average"),
        *("consensus_distance", "gradient_norm"),
    }
)
"""Series that are the same on all nodes."""

Rows: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class JoinedMetrics:
    """All nodes' metrics.

    Attributes
    ----------
    path : Path
        ``metrics.h5``.
    attributes : mapping
        Root attributes: those of node 0 that hold for all, ``kind`` (``"virtual"`` or ``"copied"``), ``cut``
        (``""``, or which rows were left out and why) and ``lost`` (``""``, or which nodes died when).
    series, syncs : mapping of str to ndarray, shape (nodes, rows)
        Node i in row i.
    hosts, statuses : tuple of str
        Of each node.
    """

    path: Path
    attributes: Mapping[str, Any]
    series: Mapping[str, npt.NDArray[Any]]
    syncs: Mapping[str, npt.NDArray[Any]]
    hosts: tuple[str, ...]
    statuses: tuple[str, ...]


def join(folder: str | os.PathLike[str]) -> Path:
    """Make ``metrics.h5`` in a run's folder out of ``metrics/rank_*.h5``, and return its path.

    The view holds relative names, so that the folder may be moved. Nodes of a killed run stop at different rows: all
    are cut to the shortest, and the root attribute ``cut`` says so. Nodes that an elastic run has lost are no reason to
    cut: behind their end, figures of their own are NaN, counts stay, and what is the same on all nodes goes on.

    Raises
    ------
    DataError
        A node's file is missing, damaged or of another run: names it.
    JobError
        ``metrics.h5`` cannot be written.
    """
    folder = Path(folder)
    lost = read_lost(folder)
    virtual = not lost and all(closed_cleanly(path) for path in _paths(folder))
    ranks = _read_all(folder, steps_only=virtual)  # a thousand nodes' series are not held for what only points at them
    replace_file(folder / "metrics.h5", image(lambda file: _fill(file, ranks, virtual, lost)))
    return folder / "metrics.h5"


def _fill(file: Any, ranks: Sequence[RankMetrics], virtual: bool, lost: Sequence[Lost]) -> None:
    """Make what is in the joined file."""
    cuts: list[str] = []
    for name, value in ranks[0].attributes.items():
        if name not in _OWN:
            file.attrs[name] = value
    file.attrs["format"] = FORMAT
    file.attrs["schema_version"] = schema.VERSION
    file.attrs["kind"] = "virtual" if virtual else "copied"
    sources = file.create_group("sources")
    sources["file"] = [f"metrics/{rank.path.name}" for rank in ranks]
    sources["host"] = [str(rank.attributes["host"]) for rank in ranks]
    sources["status"] = [rank.status for rank in ranks]
    for group, columns in (("series", schema.SERIES), ("syncs", schema.SYNCS)):
        tables = _lengthened(group, [getattr(rank, group) for rank in ranks], lost)
        lengths = [len(table["step"]) for table in tables]
        sources[f"{group}_rows"] = lengths
        rows = min(lengths)
        cuts += _cut(group, lengths, ranks)
        _same_steps(group, [table["step"][:rows] for table in tables], ranks)
        for column in columns:
            if virtual:
                data = _view(file, group, column, lengths, rows, ranks)
            else:
                values = np.stack([table[column.name][:rows] for table in tables])
                data = file.create_dataset(f"{group}/{column.name}", data=values)
            data.attrs["unit"] = column.unit
            data.attrs["description"] = column.description
    file.attrs["cut"] = "; ".join(cuts)
    file.attrs["lost"] = told(lost)


def _lengthened(group: str, tables: list[Rows], lost: Sequence[Lost]) -> list[Rows]:
    """Return the tables with those of lost nodes as long as the others, as far as their steps are the same."""
    gone = {each.node for each in lost}
    alive = [table for node, table in enumerate(tables) if node not in gone]
    if not gone or not alive:
        return tables
    rows = min(len(table["step"]) for table in alive)
    return [table if node not in gone else _longer(group, table, alive[0], rows) for node, table in enumerate(tables)]


def _longer(group: str, table: Rows, other: Rows, rows: int) -> Rows:
    steps = table["step"][:rows]
    differs = np.flatnonzero(steps != other["step"][: len(steps)])
    own = int(differs[0]) if len(differs) else len(steps)
    made = {}
    for name, values in table.items():
        if name in _COMMON:
            made[name] = other[name][:rows]
            continue
        held = values[own - 1] if own and group == "series" else 0  # counts so far stay what they were
        made[name] = np.full(rows, np.nan if values.dtype.kind == "f" else held, dtype=values.dtype)
        made[name][:own] = values[:own]
    return made


def read_joined(path: str | os.PathLike[str]) -> JoinedMetrics:
    """Read ``metrics.h5``, after checking that every source of a view is there with all its rows.

    Raises
    ------
    DataError
        The file is missing or no joined file, or a source is missing or short: names it.
    """
    path = Path(path)
    with open_reading(path) as file:
        check_format(file, path, FORMAT)
        names = [str(name) for name in file["sources/file"].asstr()[:]]
        if file.attrs["kind"] == "virtual":
            for index, name in enumerate(names):
                expected = tuple(int(file[f"sources/{group}_rows"][index]) for group in ("series", "syncs"))
                _verify(path.parent / name, expected)
        return JoinedMetrics(
            path=path,
            attributes=plain_attributes(file),
            series={name: data[:] for name, data in file["series"].items()},
            syncs={name: data[:] for name, data in file["syncs"].items()},
            hosts=tuple(str(host) for host in file["sources/host"].asstr()[:]),
            statuses=tuple(str(status) for status in file["sources/status"].asstr()[:]),
        )


def _paths(folder: Path) -> list[Path]:
    paths = sorted((folder / "metrics").glob("rank_*.h5"))
    if not paths:
        raise DataError(f"{folder / 'metrics'}: no rank_*.h5 here")
    return paths


def _read_all(folder: Path, *, steps_only: bool) -> list[RankMetrics]:
    """Read every node's file, in node order, and see that they are all of one run."""
    read = (read_rank(path, models=False, steps_only=steps_only) for path in _paths(folder))
    ranks = sorted(read, key=lambda rank: int(rank.attributes["node"]))
    found = [int(rank.attributes["node"]) for rank in ranks]
    first = ranks[0].attributes
    missing = sorted(set(range(int(first["nodes"]))) - set(found))
    if missing:
        raise DataError(f"{folder / 'metrics'}: files of {first['nodes']} nodes expected, missing: {missing}")
    if len(found) != int(first["nodes"]):
        raise DataError(f"{folder / 'metrics'}: {len(found)} files for {first['nodes']} nodes, nodes found: {found}")
    for rank in ranks:
        for name in ("name", "seed", "nodes", "started", "schema_version"):
            if rank.attributes[name] != first[name]:
                raise DataError(
                    f"{rank.path} is of another run than {ranks[0].path}: {name} is {rank.attributes[name]!r}, "
                    f"not {first[name]!r}"
                )
    return ranks


def _view(
    file: Any, group: str, column: schema.Column, lengths: Sequence[int], rows: int, ranks: Sequence[RankMetrics]
) -> Any:
    """Make one virtual dataset of shape (nodes, rows)."""
    import h5py

    layout = h5py.VirtualLayout(shape=(len(ranks), rows), dtype=column.kind)
    if rows:
        for index, rank in enumerate(ranks):
            name = f"metrics/{rank.path.name}"
            source = h5py.VirtualSource(name, f"{group}/{column.name}", (lengths[index],), column.kind)
            layout[index] = source[:rows]
    return file.create_virtual_dataset(f"{group}/{column.name}", layout)


def _cut(group: str, lengths: Sequence[int], ranks: Sequence[RankMetrics]) -> list[str]:
    """Say which rows are left out, if any."""
    shortest, longest = min(lengths), max(lengths)
    if shortest == longest:
        return []
    short = ", ".join(rank.path.name for rank, length in zip(ranks, lengths, strict=True) if length == shortest)
    return [f"{group} cut to {shortest} of up to {longest} rows: no more in {short}"]


def _same_steps(group: str, steps: Sequence[npt.NDArray[Any]], ranks: Sequence[RankMetrics]) -> None:
    """See that row r is the same step on every node."""
    for rank, own in zip(ranks, steps, strict=True):
        if not np.array_equal(own, steps[0]):
            row = int(np.flatnonzero(own != steps[0])[0])
            raise DataError(
                f"{rank.path}: row {row} of {group} is step {own[row]}, but step {steps[0][row]} in {ranks[0].path}"
            )


def _verify(path: Path, expected: tuple[int, ...]) -> None:
    """See that a source still has its rows and would not be replaced by fill values."""
    if not path.is_file():
        raise DataError(f"{path}: missing, but the joined metrics.h5 needs it")
    if not closed_cleanly(path):
        raise DataError(f"{path}: is open for writing, so the joined metrics.h5 cannot see it; join again")
    with open_reading(path) as file:
        found = tuple(int(count) for count in file["committed"][:])
    if any(have < need for have, need in zip(found, expected, strict=True)):
        raise DataError(f"{path}: has {found} rows (series, syncs), but the joined metrics.h5 needs {expected}")
