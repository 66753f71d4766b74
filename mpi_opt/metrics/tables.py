"""Metrics of runs as one tidy table: a row for each run, node and evaluation (or synchronisation, or just the last)."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.nodes import rank_paths
from mpi_opt.metrics.rank_file import RankMetrics, read_rank
from mpi_opt.metrics.superblock import check_length

FORMAT = "mpi_opt table"

Kind: TypeAlias = Literal["series", "syncs", "final"]
Part: TypeAlias = Mapping[str, npt.NDArray[Any] | list[str]]
"""Rows of one node, by column: equally long."""


class TableColumn(NamedTuple):
    """One column.

    Attributes
    ----------
    name : str
    type : {"text", "i8", "f8", "u1"}
    unit : str
    description : str
    """

    name: str
    type: str
    unit: str
    description: str


_KEYS = (
    TableColumn("run", "text", "text", "Folder of the run"),
    TableColumn("node", "i8", "1", "Number of the node"),
)
_ROW = {
    "series": TableColumn("evaluation", "i8", "row", "Row of /series"),
    "syncs": TableColumn("sync", "i8", "row", "Row of /syncs"),
}
_END = (
    TableColumn("host", "text", "text", "Name of the machine"),
    TableColumn("status", "text", "text", "'running' (or killed), else how the run ended"),
    TableColumn("evaluations", "i8", "row", "Rows of /series"),
    TableColumn("synchronisations", "i8", "row", "Rows of /syncs"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table, read node by node: no more than one node's rows are held.

    Attributes
    ----------
    kind : {"series", "syncs", "final"}
        ``final``: one row a node, how it ended and its last evaluation.
    columns : tuple of TableColumn
    runs : tuple of mapping
        Of each run: ``run`` and the root attributes that hold for all its nodes.
    """

    kind: Kind
    columns: tuple[TableColumn, ...]
    runs: tuple[Mapping[str, Any], ...]
    _paths: tuple[tuple[str, Path], ...]

    def parts(self) -> Iterator[Part]:
        """Yield the rows of one node after the other.

        Raises
        ------
        DataError
            A file is damaged or lacks a series that others have.
        """
        for run, path in self._paths:
            check_length(path)
            rank = read_rank(path, models=False)
            yield self._end(run, rank) if self.kind == "final" else self._rows(run, rank, self.kind)

    def _rows(self, run: str, rank: RankMetrics, kind: Literal["series", "syncs"]) -> Part:
        values = rank.series if kind == "series" else rank.syncs
        count = len(values["step"])
        part: dict[str, npt.NDArray[Any] | list[str]] = {
            "run": [run] * count,
            "node": np.full(count, int(rank.attributes["node"])),
            _ROW[kind].name: np.arange(count),
        }
        return part | {column.name: _series(rank, values, column.name) for column in self.columns[len(part) :]}

    def _end(self, run: str, rank: RankMetrics) -> Part:
        facts: dict[str, npt.NDArray[Any] | list[str]] = {
            "run": [run],
            "node": np.array([int(rank.attributes["node"])]),
            "host": [str(rank.attributes["host"])],
            "status": [rank.status],
            "evaluations": np.array([rank.rows]),
            "synchronisations": np.array([len(rank.syncs["step"])]),
        }
        for column in self.columns[len(facts) :]:
            values = _series(rank, rank.series, column.name)
            facts[column.name] = values[-1:] if len(values) else np.array([np.nan if column.type == "f8" else -1])
        return facts


def table(folders: Sequence[Path], kind: Kind, nodes: Collection[int] | None = None) -> Table:
    """Return the table of runs, finished or not, as far as they are on disk.

    Parameters
    ----------
    folders : sequence of Path
        The runs'. Columns are those that the files of all have.
    kind : {"series", "syncs", "final"}
    nodes : collection of int, optional
        Only these; by default all.

    Raises
    ------
    JobError
        A run has none of the nodes, or two runs have one name.
    DataError
        A folder holds no metrics, or they are damaged.
    """
    names = _names(folders)
    runs, paths, held = [], [], []
    for name, folder in zip(names, folders, strict=True):
        own = [path for path in rank_paths(folder) if nodes is None or _number(path) in nodes]
        if not own:
            raise JobError(f"--nodes: {folder} has none of these nodes, but {len(rank_paths(folder))} others")
        check_length(own[0])
        first = read_rank(own[0], models=False)
        runs.append({"run": name} | {key: value for key, value in first.attributes.items() if key not in _OWN})
        paths += [(name, path) for path in own]
        held.append((first.syncs if kind == "syncs" else first.series).keys())
    columns = tuple(
        TableColumn(column.name, column.kind, column.unit, column.description)
        for column in dict(schema.GROUPS)["syncs" if kind == "syncs" else "series"]
        if all(column.name in names for names in held)
    )
    begin = (*_KEYS, *_END) if kind == "final" else (*_KEYS, _ROW[kind])
    return Table(kind, (*begin, *columns), tuple(runs), tuple(paths))


_OWN = frozenset({"format", "node", "host", "units"})


def _series(rank: RankMetrics, values: Mapping[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    if name not in values:
        raise DataError(f"{rank.path}: has no series {name!r}, which the run's other files have")
    return values[name]


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("rank_"))


def _names(folders: Sequence[Path]) -> list[str]:
    """Return what the runs are called: their folders' names, or where two are the same, their paths."""
    names = [folder.absolute().name for folder in folders]
    if len(set(names)) < len(names):
        names = [os.path.normpath(folder) for folder in folders]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise JobError(f"{', '.join(twice)}: given twice; allowed: every run once")
    return names
