"""Where a run is gone on from: its last whole checkpoint, and its metrics up to there.

On as many nodes as before, a resumed run ends as if it had never been interrupted, to the last bit. On another number
it begins anew from the mean of the nodes' models, in a folder of its own (`mean_model`).
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.errors import DataError, JobError, LaunchError
from mpi_opt.metrics import schema
from mpi_opt.metrics.layout import Earlier
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.network.collectives import Collectives
from mpi_opt.run.checkpoint import Manifest, found, read_manifest, read_node
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of a run before anything is read: from its folder alone.

    Attributes
    ----------
    folder : Path
        The run's.
    job : str
        The resolved job, TOML text.
    nodes : int or None
        n; ``None`` where not even a metrics file was made.
    lockstep : bool
        Whether it ran on virtual nodes.
    finished : bool
        Whether it has a model.
    steps : tuple of int
        Steps of its checkpoints, the newest first; whole or not.
    left : int or None
        How many nodes the newest checkpoint is of, where the run had lost some.
    """

    folder: Path
    job: str
    nodes: int | None
    lockstep: bool
    finished: bool
    steps: tuple[int, ...]
    left: int | None = None


def look(folder: Path) -> Past:
    """Look into a run's folder.

    Raises
    ------
    JobError
        There is no run.
    DataError
        The first metrics file is damaged, and there is no checkpoint.
    """
    place = folder / "job.toml"
    try:
        job = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise JobError(
            f"{folder} holds no run: {place.name}: {reason}; allowed: a folder that a run has made"
        ) from None
    first = folder / "metrics" / "rank_00000.h5"
    attributes: Mapping[str, Any] = {}
    checkpoints, left, damaged = found(folder / "checkpoints"), None, None
    if first.exists():
        try:
            attributes = read_rank(first, models=False).attributes
        except DataError as error:
            damaged = error
    elif (folder / "validation.json").exists():  # cut off before it had metrics
        with suppress(ValueError):
            attributes = json.loads((folder / "validation.json").read_bytes())
    if checkpoints:
        with suppress(DataError):  # damaged: an older one is taken, and said to be
            left = read_manifest(checkpoints[0]).nodes
    if damaged is not None and left is None:
        raise damaged
    nodes = attributes.get("nodes", left)  # without metrics the models can still be gone on with, on other ranks
    return Past(
        folder=folder.absolute(),
        job=job,
        nodes=nodes,
        lockstep=attributes.get("mpi_library") == "lockstep",
        finished=(folder / "model.h5").exists(),
        steps=tuple(int(path.name.removeprefix("step_")) for path in checkpoints),
        left=None if left == nodes else left,
    )


_CHANGEABLE = ("stop", "metrics", "checkpoint")


def changed(settings: Sequence[str]) -> Sequence[str]:
    """Return overrides of a resumed job's keys, if they may be changed.

    Raises
    ------
    JobError
        One of them would make it another run.
    """
    for setting in settings:
        if setting.partition("=")[0].partition(".")[0] not in _CHANGEABLE:
            allowed = ", ".join(f"{table}.*" for table in _CHANGEABLE)
            raise JobError(f"--set {setting}: would make it another run; allowed on resuming: {allowed}")
    return settings


def check_size(past: Past, size: int) -> None:
    """Refuse another number of ranks than the run had.

    Raises
    ------
    LaunchError
        Names both numbers and the ways out.
    """
    if past.lockstep and size == 1:
        return
    place = os.path.relpath(past.folder)
    if past.lockstep:
        raise LaunchError(
            f"{place} was simulated on {past.nodes} virtual nodes: resume it in one process (mpi-opt resume {place}), "
            "or begin anew from its mean model with --allow-repartition"
        )
    if past.left is not None:
        raise LaunchError(
            f"{place} began on {past.nodes} ranks and lost some; its newest checkpoint is of {past.left} nodes: begin "
            "anew, on any number of ranks, from its mean model with --allow-repartition"
        )
    if past.nodes not in (None, size):
        raise LaunchError(
            f"{place} ran on {past.nodes} ranks, this is {size}: mpiexec -n {past.nodes} mpi-opt resume {place}, or "
            "begin anew on other ranks from its mean model with --allow-repartition"
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint as read. Sequences have one entry for each local node.

    Attributes
    ----------
    step : int
        Steps completed.
    pieces : sequence of mapping
        What `run.snapshot.take` returned.
    earlier : sequence of Earlier
        The metrics' rows up to there.
    attributes : sequence of mapping
        The metrics files' own, as the recorder takes them.
    passed : mapping of str to str
        Names of checkpoints passed over, and why.
    tensors : sequence of mapping, or None
        See `run.checkpoint.Manifest`.
    """

    step: int
    pieces: Sequence[Mapping[str, Any]]
    earlier: Sequence[Earlier]
    attributes: Sequence[Mapping[str, str | int | float]]
    passed: Mapping[str, str]
    tensors: Sequence[Mapping[str, Any]] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of them."""
        return _notes(self.passed)


def read_kept(folder: Path, local: Sequence[int], nodes: int, collectives: Collectives) -> Kept | None:
    """Return the newest checkpoint that is whole on all processes; ``None`` where none was ever written.

    Metrics that do not reach up to a checkpoint make it one that is not whole.

    Raises
    ------
    DataError
        None of them is whole: says of each what is wrong; on every process.
    """

    def read(manifest: Manifest) -> list[tuple[Mapping[str, Any], Earlier, Mapping[str, Any]]]:
        if manifest.nodes != nodes:
            raise DataError(f"{manifest.path}: of {manifest.nodes} nodes, the run has {nodes}")
        held = []
        for node in local:
            piece = read_node(manifest, node)
            held.append((piece, *_metrics(folder / "metrics" / f"rank_{node:05d}.h5", *piece["recorded"])))
        return held

    manifest, held, passed = _newest(folder, collectives, read)
    if manifest is None:
        return None
    pieces, earlier, attributes = zip(*held, strict=True)
    return Kept(manifest.step, pieces, earlier, attributes, passed, manifest.tensors)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the models of a checkpoint's nodes.

    Attributes
    ----------
    step : int
        Steps completed.
    model : ndarray, shape (d,)
    notes : tuple of str
        As `Kept` has them.
    tensors : sequence of mapping, or None
        See `run.checkpoint.Manifest`.
    """

    step: int
    model: Vector
    notes: tuple[str, ...]
    tensors: Sequence[Mapping[str, Any]] | None = None


def mean_model(folder: Path, model: Callable[[Any], Vector], collectives: Collectives) -> Mean | None:
    """Return the mean of the nodes' models in the newest whole checkpoint; ``None`` where none was ever written.

    Parameters
    ----------
    folder : Path
        The run's.
    model : callable
        ``Algorithm.model``.
    collectives : Collectives
        The first process reads for all.
    """

    def read(manifest: Manifest) -> Vector:
        total = np.zeros(0)
        for node in range(manifest.nodes if collectives.rank == 0 else 0):
            values = model(read_node(manifest, node)["state"])
            total = values.copy() if node == 0 else total + values
        return total / manifest.nodes

    manifest, mean, passed = _newest(folder, collectives, read)
    if manifest is None:
        return None
    return Mean(manifest.step, collectives.broadcast(mean), _notes(passed), manifest.tensors)


def _newest(folder: Path, collectives: Collectives, read: Callable[[Manifest], Any]) -> Any:
    """Return manifest and content of the newest checkpoint that every process can read, and why not newer ones."""
    paths = collectives.broadcast(found(folder / "checkpoints"))
    passed: dict[str, str] = {}
    for path in paths:
        manifest, content, error = None, None, None
        try:
            manifest = read_manifest(path)
            content = read(manifest)
        except DataError as caught:
            error = str(caught)
        wrong = [text for text in collectives.gather(error) if text]
        if not wrong:
            return manifest, content, passed
        passed[path.name] = wrong[0]
    if passed:
        error_ = DataError(f"{folder}: no checkpoint is whole: " + "; ".join(_notes(passed)))
        error_.everywhere = True
        raise error_
    return None, None, passed


def _notes(passed: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"checkpoint {name} is passed over: {why}" for name, why in passed.items())


def _metrics(path: Path, rows: int, syncs: int) -> tuple[Earlier, Mapping[str, str | int | float]]:
    """Return the first rows of a metrics file, and its attributes."""
    old = read_rank(path, models=False)
    for name, wanted, held in (("rows", rows, old.series), ("synchronisations", syncs, old.syncs)):
        if len(held["step"]) < wanted:
            raise DataError(f"{path}: has {len(held['step'])} {name}, the checkpoint needs {wanted}")
    (_, series), (_, indices) = schema.groups(blocks=old.blocks)
    earlier = Earlier(
        {column.name: old.series[column.name][:rows] for column in series if column.name in old.series},
        {column.name: old.syncs[column.name][:syncs] for column in indices if column.name in old.syncs},
    )
    had = dict.fromkeys(schema.LATER, "") | dict(old.attributes)
    return earlier, {name: had[name] for name in schema.ATTRIBUTES}
