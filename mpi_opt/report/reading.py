"""Reading a run's folder into a `Course`, whether the run ended, goes on, is paused or was killed."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError, JobError
from mpi_opt.job import Job, load_job
from mpi_opt.metrics import schema
from mpi_opt.metrics.joined import read_joined
from mpi_opt.metrics.lost import Lost, read_lost
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.report.course import BLOCKS, COUNTS, FIGURES, SHARED, Array, Course
from mpi_opt.types import Indices
from mpi_opt.words import one_line

_KEPT = frozenset((*SHARED, *FIGURES, *COUNTS, BLOCKS))


class _Part(NamedTuple):
    """What is kept of one node's file."""

    series: Mapping[str, Array]
    steps: Indices
    fired: npt.NDArray[np.uint8]
    status: str
    host: str


def read_course(path: str | os.PathLike[str], label: str | None = None) -> Course:
    """Read a run.

    Parameters
    ----------
    path : path
        A run's folder, with ``metrics/rank_*.h5`` or ``metrics.h5`` alone, or a joined file itself.
    label : str, optional
        What tables call it; by default the name of the folder or file.

    Raises
    ------
    JobError
        There is no run.
    DataError
        It has no metrics yet, or they are damaged, incomplete or of several runs: names the file.
    """
    path = Path(path)
    if path.is_file():
        attributes, parts = _of_joined(path)
        lost: tuple[Lost, ...] = ()
    else:
        if not (path / "metrics").is_dir() and not any((path / name).exists() for name in ("job.toml", "metrics.h5")):
            raise JobError(f"{path} holds no run; allowed: a folder that a run has made, or its metrics.h5")
        lost = read_lost(path)
        ranks = sorted((path / "metrics").glob("rank_*.h5"))
        attributes, parts = _of_ranks(ranks) if ranks else _of_joined(path / "metrics.h5")
    job, trouble = _job(str(attributes["job"]))
    gone = {each.node for each in lost}
    alive = [node for node in range(len(parts)) if node not in gone] or list(range(len(parts)))
    steps, cut = _common("series", [part.series["step"] for part in parts], alive, path)
    sync_steps, sync_cut = _common("syncs", [part.steps for part in parts], alive, path)
    first = parts[alive[0]].series
    n, rows = len(parts), len(steps)
    shared = {name: first[name][:rows] for name in SHARED if name in first}
    shared.setdefault("nodes_alive", np.full(rows, n))
    own_names = (*FIGURES, *COUNTS, *((BLOCKS,) if all(BLOCKS in part.series for part in parts) else ()))
    own = {name: _stack([part.series for part in parts], name, steps) for name in own_names}
    fired = np.zeros((n, len(sync_steps)), dtype=np.uint8)
    for row, part in zip(fired, parts, strict=True):
        have = _agreeing(part.steps, sync_steps)
        row[:have] = part.fired[:have]
    return Course(
        path=path,
        label=one_line(label or (path.stem if path.is_file() else path.absolute().name)),
        attributes=attributes,
        state=_state([parts[node].status for node in alive]),
        nodes=n,
        shared=shared,
        own=own,
        sync_steps=sync_steps,
        fired=fired,
        hosts=tuple(part.host for part in parts),
        lost=lost,
        cut="; ".join(filter(None, [cut, sync_cut])),
        job=job,
        trouble=trouble,
        l2=_chosen(path / "validation.json"),
    )


def _of_ranks(paths: Sequence[Path]) -> tuple[Mapping[str, Any], list[_Part]]:
    """Return the first node's attributes and every node's part, in node order; one file is held at a time."""
    found: dict[int, _Part] = {}
    attributes: Mapping[str, Any] = {}
    for path in paths:
        rank = read_rank(path, models=False)
        attributes = attributes or rank.attributes
        for name in ("name", "seed", "nodes", "started"):
            if rank.attributes[name] != attributes[name]:
                raise DataError(
                    f"{path} is of another run than {paths[0]}: {name} is {rank.attributes[name]!r}, "
                    f"not {attributes[name]!r}"
                )
        kept = {name: values for name, values in rank.series.items() if name in _KEPT}
        found[int(rank.attributes["node"])] = _Part(
            kept, rank.syncs["step"], rank.syncs["fired"], rank.status, str(rank.attributes["host"])
        )
    n = int(attributes["nodes"])
    missing = sorted(set(range(n)) - set(found))
    if missing or len(paths) != n:
        raise DataError(
            f"{paths[0].parent}: files of {n} nodes expected, {len(paths)} there"
            + (f", missing: {', '.join(map(str, missing))}" if missing else "")
        )
    return attributes, [found[node] for node in range(n)]


def _of_joined(path: Path) -> tuple[Mapping[str, Any], list[_Part]]:
    """Return the same from a joined file."""
    if not path.exists():
        raise DataError(f"{path.parent}: no metrics yet: neither metrics/rank_*.h5 nor metrics.h5")
    read = read_joined(path)
    kept = [name for name in read.series if name in _KEPT]
    return read.attributes, [
        _Part(
            {name: read.series[name][node] for name in kept},
            read.syncs["step"][node],
            read.syncs["fired"][node],
            read.statuses[node],
            read.hosts[node],
        )
        for node in range(len(read.hosts))
    ]


def _common(what: str, steps: Sequence[Indices], alive: Sequence[int], path: Path) -> tuple[Indices, str]:
    """Return the steps that all living nodes have, and what was left out for that."""
    lengths = [len(steps[node]) for node in alive]
    common = steps[alive[lengths.index(min(lengths))]]
    for node in alive:
        have = _agreeing(steps[node], common)
        if have < len(common):
            raise DataError(
                f"{path}: row {have} of {what} is step {steps[node][have]} on node {node}, but step {common[have]} on "
                "another"
            )
    if min(lengths) == max(lengths):
        return common, ""
    return common, f"{what} cut to {min(lengths)} of up to {max(lengths)} rows, which all nodes have"


def _agreeing(own: Indices, common: Indices) -> int:
    """Return how many rows from the first on are of the same steps."""
    have = min(len(own), len(common))
    other = np.flatnonzero(own[:have] != common[:have])
    return int(other[0]) if other.size else have


def _stack(tables: Sequence[Mapping[str, Array]], name: str, steps: Indices) -> Array:
    """Return a series of all nodes, shape (nodes, rows); where a node was lost, as ``FIGURES`` and ``COUNTS`` say."""
    kind = tables[0][name].dtype
    stacked = np.full((len(tables), len(steps)), np.nan if name in FIGURES else 0, dtype=kind)
    for row, table in zip(stacked, tables, strict=True):
        have = _agreeing(table["step"], steps)
        row[:have] = table[name][:have]
        if name not in FIGURES and have:
            row[have:] = table[name][have - 1]
    return stacked


def _state(statuses: Sequence[str]) -> str:
    """Return how a run ended by all its nodes: a failure of one is the run's, and so is one that is not done."""
    rules: tuple[Callable[[str], bool], ...] = (
        lambda status: status.startswith(("failed", "diverged")),
        lambda status: status == schema.RUNNING,
        lambda status: not status.startswith("done"),
    )
    for rule in rules:
        for status in statuses:
            if rule(status):
                return status
    return statuses[0]


def _job(text: str) -> tuple[Job | None, str]:
    try:
        return load_job(text), ""
    except JobError as error:
        return None, str(error)


def _chosen(path: Path) -> float | None:
    """Return the l2 that validation chose, if there is one to be read."""
    try:
        chosen = json.loads(path.read_bytes())["chosen"]
        return None if chosen is None else float(chosen)
    except (OSError, ValueError, KeyError, TypeError):
        return None
