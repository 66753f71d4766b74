"""Where a run is gone on from: its last whole checkpoint, and its metrics up to there.

On as many nodes as before, a resumed run ends as if it had never been interrupted, to the last bit. On another number
it begins anew from the mean of the nodes' models, in a folder of its own (`mean_model`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.layout import Earlier
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.network.collectives import Collectives
from mpi_opt.run.checkpoint import Manifest, found, read_manifest, read_node
from mpi_opt.types import Vector


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
