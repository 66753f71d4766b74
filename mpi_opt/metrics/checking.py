"""Whether a run's metrics are what they should be: every file whole, counters that never fall, the joined view true."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.joined import read_joined
from mpi_opt.metrics.lost import read_lost
from mpi_opt.metrics.nodes import COMMON, rank_paths
from mpi_opt.metrics.rank_file import RankMetrics, read_rank
from mpi_opt.metrics.superblock import check_length


@dataclass(frozen=True, slots=True)
class Report:
    """What a check has found.

    Attributes
    ----------
    files : int
        Nodes' files.
    rows, syncs : tuple of int
        Least and most rows of ``/series`` and of ``/syncs`` that a node has.
    statuses : tuple of str
        How the nodes ended, each once.
    joined : str
        ``kind`` of ``metrics.h5``; empty where there is none.
    wrong : tuple of str
        What is wrong, with the file's name.
    notes : tuple of str
        What is worth knowing.
    """

    files: int
    rows: tuple[int, int]
    syncs: tuple[int, int]
    statuses: tuple[str, ...]
    joined: str
    wrong: tuple[str, ...]
    notes: tuple[str, ...]


def check(folder: Path) -> Report:
    """Check a run's metrics, one file at a time.

    Raises
    ------
    DataError
        There are none.
    """
    wrong: list[str] = []
    notes: list[str] = []
    rows, syncs, statuses, numbers = [], [], [], []
    attributes: Mapping[str, Any] | None = None
    view = _joined(folder, wrong, notes)
    gone = {each.node for each in read_lost(folder)}
    for path in rank_paths(folder):
        try:
            check_length(path)
            rank = read_rank(path, models=False)
        except DataError as error:
            wrong.append(str(error))
            continue
        attributes = attributes or rank.attributes
        wrong += [f"{path}: {fault}" for fault in _faults(rank, attributes)]
        notes += [f"{path}: is of an earlier version: {lack}" for lack in _lacks(rank)]
        rows.append(rank.rows)
        syncs.append(len(rank.syncs["step"]))
        statuses.append(rank.status)
        numbers.append(int(rank.attributes["node"]))
        if view is not None:
            wrong += _differences(rank, view, gone)
    if attributes is not None:
        missing = sorted(set(range(int(attributes["nodes"]))) - set(numbers))
        if missing:
            wrong.append(f"{folder / 'metrics'}: files of {attributes['nodes']} nodes expected, missing: {missing}")
    if view is not None and view.attributes["cut"]:
        notes.append(f"{view.path}: {view.attributes['cut']}")
    return Report(
        files=len(numbers),
        rows=(min(rows, default=0), max(rows, default=0)),
        syncs=(min(syncs, default=0), max(syncs, default=0)),
        statuses=tuple(dict.fromkeys(statuses)),
        joined="" if view is None else str(view.attributes["kind"]),
        wrong=tuple(wrong),
        notes=tuple(notes),
    )


def _joined(folder: Path, wrong: list[str], notes: list[str]) -> Any:
    """Return the joined metrics, if there are any that can be trusted."""
    path = folder / "metrics.h5"
    if not path.exists():
        notes.append(f"{path}: not there; it is made when a run ends")
        return None
    try:
        for each in (path, *rank_paths(folder)):
            check_length(each)
        return read_joined(path)
    except (DataError, KeyError, OSError, RuntimeError) as error:
        wrong.append(str(error) if isinstance(error, DataError) else f"{path}: damaged: {error}")
        return None


def _faults(rank: RankMetrics, first: Mapping[str, Any]) -> Iterator[str]:
    if int(rank.path.stem.removeprefix("rank_")) != int(rank.attributes["node"]):
        yield f"is of node {rank.attributes['node']}"
    for name in ("name", "seed", "nodes", "started", "schema_version"):
        if rank.attributes.get(name) != first.get(name):
            yield f"is of another run: {name} is {rank.attributes.get(name)!r}, not {first.get(name)!r}"
    for name in sorted(schema.ATTRIBUTES.keys() - schema.LATER - rank.attributes.keys()):
        yield f"attribute {name!r} is missing"
    for group, columns in schema.GROUPS:
        for column in columns:
            values = getattr(rank, group).get(column.name)
            if values is not None:
                yield from _column_faults(f"{group}/{column.name}", values, column, group)
    for name in ("fired", *(("blocks_fired",) if rank.blocks else ())):
        if rank.rows and np.any(rank.series[name] > rank.series["syncs"]):
            yield f"series/{name}: more than series/syncs"


def _column_faults(name: str, values: npt.NDArray[Any], column: schema.Column, group: str) -> Iterator[str]:
    if values.dtype != np.dtype(column.kind):
        yield f"{name}: type {values.dtype}, expected {np.dtype(column.kind)}"
    elif (group == "series" and column.name in schema.TOTALS) or column.name == "step":
        # A node that lost its figures for a row has NaN there: compared are the rows that are known.
        known = np.flatnonzero(values == values)
        falls = np.flatnonzero(np.diff(values[known]) < 0)
        if len(falls):
            before, after = known[falls[0]], known[falls[0] + 1]
            yield f"{name}: falls from {values[before]:g} in row {before} to {values[after]:g} in row {after}"
        if len(known) and values[known[0]] < 0:
            yield f"{name}: negative in row {known[0]}"


def _lacks(rank: RankMetrics) -> Iterator[str]:
    for group, columns in schema.groups(blocks=rank.blocks):
        lacking = [column.name for column in columns if column.name not in getattr(rank, group)]
        if lacking:
            yield f"no {', '.join(lacking)} in /{group}"


def _differences(rank: RankMetrics, view: Any, lost: Collection[int]) -> Iterator[str]:
    """Yield where the joined metrics are not the node's, as far as both go."""
    node = int(rank.attributes["node"])
    others = COMMON if node in lost else ()  # of a lost node they are the survivors'
    for group, _ in schema.GROUPS:
        for name, values in getattr(rank, group).items():
            joined = getattr(view, group).get(name)
            if name in others:
                continue
            if joined is None or node >= len(joined):
                yield f"{view.path}: has no {group}/{name} of node {node}; join again"
                continue
            both = min(len(values), joined.shape[1])
            if not np.array_equal(values[:both], joined[node, :both], equal_nan=values.dtype.kind == "f"):
                yield f"{view.path}: {group}/{name} of node {node} is not what {rank.path} says"
            if len(values) > both and not view.attributes["cut"]:
                yield f"{view.path}: {group}/{name} ends after {both} of {len(values)} rows of node {node}"
