"""All nodes' files of one run, read together: whole, of the same run, and row for row of the same steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError
from mpi_opt.metrics.lost import Lost
from mpi_opt.metrics.rank_file import RankMetrics, read_rank

COMMON = frozenset(
    {
        *("step", "round", "epoch", "nodes_alive", "objective_mean", "objective_worst", "objective_average"),
        *("test_error_mean", "test_error_worst", "test_error_average", "train_error_average"),
        *("consensus_distance", "gradient_norm"),
    }
)
"""Series that are the same on all nodes."""

Rows: TypeAlias = Mapping[str, npt.NDArray[Any]]


def rank_paths(folder: Path) -> list[Path]:
    """Return the nodes' files of a run.

    Raises
    ------
    DataError
        There is none, or the folder is a file.
    """
    paths = sorted((folder / "metrics").glob("rank_*.h5"))
    if folder.is_file():
        raise DataError(f"{folder}: is a file; allowed: the folder of a run")
    if not paths:
        raise DataError(f"{folder / 'metrics'}: no rank_*.h5 here")
    return paths


def read_all(folder: Path, *, steps_only: bool) -> list[RankMetrics]:
    """Read every node's file, in node order, and see that they are all of one run."""
    read = (read_rank(path, models=False, steps_only=steps_only) for path in rank_paths(folder))
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


def lengthened(group: str, tables: list[Rows], lost: Sequence[Lost]) -> list[Rows]:
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
        if name in COMMON:
            made[name] = other[name][:rows]
            continue
        held = values[own - 1] if own and group == "series" else 0  # counts so far stay what they were
        made[name] = np.full(rows, np.nan if values.dtype.kind == "f" else held, dtype=values.dtype)
        made[name][:own] = values[:own]
    return made


def cut_in_words(group: str, lengths: Sequence[int], ranks: Sequence[RankMetrics]) -> list[str]:
    """Say which rows are left out, if any."""
    shortest, longest = min(lengths), max(lengths)
    if shortest == longest:
        return []
    short = ", ".join(rank.path.name for rank, length in zip(ranks, lengths, strict=True) if length == shortest)
    return [f"{group} cut to {shortest} of up to {longest} rows: no more in {short}"]


def check_steps(group: str, steps: Sequence[npt.NDArray[Any]], ranks: Sequence[RankMetrics]) -> None:
    """See that row r is the same step on every node."""
    for rank, own in zip(ranks, steps, strict=True):
        if not np.array_equal(own, steps[0]):
            row = int(np.flatnonzero(own != steps[0])[0])
            raise DataError(
                f"{rank.path}: row {row} of {group} is step {own[row]}, but step {steps[0][row]} in {ranks[0].path}"
            )
