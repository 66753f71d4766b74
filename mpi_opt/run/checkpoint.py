"""Checkpoints: a folder each, one file a node, and a manifest with checksums that is written last.

``checkpoints/step_000000000200/`` holds ``node_00000.h5`` ... and ``manifest.json``. It is made under another name and
takes its own when all is on disk, so what is called so is whole. A file holds a tree of plain values (``freezing.py``):
the text, and each array as a dataset.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.errors import DataError, MpiOptError
from mpi_opt.metrics.files import image, open_reading, replace_file, sync_folder
from mpi_opt.network.collectives import Collectives
from mpi_opt.run.freezing import Frozen, freeze, thaw

FORMAT = "mpi_opt checkpoint"
VERSION = 1
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Where checkpoints go, and when they are due.

    Attributes
    ----------
    folder : Path
        ``RUN/checkpoints``; made with the first.
    collectives : Collectives
        Among the processes of the run.
    nodes : int
        n.
    every : int or None
        Steps from one to the next.
    seconds : float or None
        Wall time from one to the next, s; agreed on by the control reduction.
    keep : int
        How many are kept, the newest.
    spoilt : set of str
        Names of those that the resumed run has passed over: the next one written takes their place, lest they count
        among those kept.
    tensors : sequence of mapping, or None
        What the trained module is made of (`problems.torch.tensors`), kept in the manifest: a resumed run compares.
    """

    folder: Path
    collectives: Collectives
    nodes: int
    every: int | None = None
    seconds: float | None = None
    keep: int = 2
    spoilt: set[str] = field(default_factory=set)
    tensors: Sequence[Mapping[str, Any]] | None = None

    def due(self, step: int, since: float) -> bool:
        """Return whether one is due after ``step`` steps, ``since`` seconds (agreed on) after the last."""
        return (self.every is not None and step % self.every == 0) or (
            self.seconds is not None and since >= self.seconds
        )

    def write(self, step: int, pieces: Mapping[int, Any]) -> Path:
        """Write a checkpoint; called by all processes together.

        Parameters
        ----------
        step : int
            Steps completed.
        pieces : mapping of int to object
            For each local node what `freezing.freeze` takes.

        Returns
        -------
        Path
            Its folder.

        Raises
        ------
        MpiOptError
            It cannot be written, on every process: names file and reason. Earlier ones stand.
        """
        final = self.folder / f"step_{step:012d}"
        making = self.folder / f".{final.name}.making"
        self._together(lambda: self._begin(making))
        written, error = None, None
        try:
            written = [_write_node(making, step, node, self.nodes, piece) for node, piece in pieces.items()]
        except (MpiOptError, OSError) as failed:
            error = failed
        files = [entry for part in self.collectives.gather(written) for entry in part or ()]
        if len(files) < self.nodes and self.collectives.rank == 0:
            shutil.rmtree(making, ignore_errors=True)
        self.collectives.check(_told(error, final))
        self._together(lambda: self._complete(making, final, step, files))
        self.spoilt.clear()
        return final

    def _together(self, act: Any) -> None:
        """Have the first process act; its failure is everybody's."""
        error = None
        if self.collectives.rank == 0:
            try:
                act()
            except (MpiOptError, OSError) as failed:
                error = failed
        self.collectives.check(_told(error, self.folder))

    def _begin(self, making: Path) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True)
            sync_folder(self.folder.parent)
        for left in self.folder.glob(".step_*"):
            # What cannot be removed does no harm: a network file system may hold on to a file that was open.
            shutil.rmtree(left, ignore_errors=True)
        making.mkdir()

    def _complete(self, making: Path, final: Path, step: int, files: Sequence[Mapping[str, Any]]) -> None:
        content = {"format": FORMAT, "version": VERSION, "step": step, "nodes": self.nodes, "files": files}
        if self.tensors is not None:
            content["tensors"] = self.tensors
        manifest = json.dumps({**content, "sha256": _digest(content)}, indent=1) + "\n"
        replace_file(making / _MANIFEST, manifest.encode())
        if final.exists():  # a damaged one that a resumed run has come past
            self._take_away(final)
        making.rename(final)
        sync_folder(self.folder)
        there = found(self.folder)
        # Newer ones are spoilt too: their steps were not reached again.
        spoilt = [path for path in there if path > final or path.name in self.spoilt - {final.name}]
        for superfluous in spoilt + [path for path in there if path not in spoilt][self.keep :]:
            with suppress(OSError):  # what cannot be removed does no harm
                self._take_away(superfluous)

    def _take_away(self, path: Path) -> None:
        """Remove a checkpoint, which loses its name first: half of one is none."""
        old = self.folder / f".{path.name}.old"
        path.rename(old)
        shutil.rmtree(old)


def found(folder: Path) -> list[Path]:
    """Return the checkpoints in ``RUN/checkpoints``, the newest first; whole or not, they are not looked into."""
    return sorted((entry for entry in folder.glob("step_*") if entry.is_dir()), reverse=True)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint says of itself.

    Attributes
    ----------
    path : Path
        Its folder.
    step, nodes : int
        Steps completed; n.
    files : tuple of mapping
        Of each node's file, by node: ``name``, ``bytes``, ``sha256``.
    tensors : tuple of mapping, or None
        What the module is made of; ``None`` of a linear model, and in checkpoints of earlier releases.
    """

    path: Path
    step: int
    nodes: int
    files: tuple[Mapping[str, Any], ...]
    tensors: tuple[Mapping[str, Any], ...] | None = None


def read_manifest(path: Path) -> Manifest:
    """Read a checkpoint's manifest, and see that its files are there.

    Raises
    ------
    DataError
        It is missing, changed, of a later version, or a file is missing or cut: names it.
    """
    place = path / _MANIFEST
    try:
        content = json.loads(place.read_bytes())
        digest = content.pop("sha256")
        if content["format"] != FORMAT or _digest(content) != digest:
            raise ValueError("it was changed, or is none of mpi_opt's")
        if content["version"] > VERSION:
            raise ValueError(f"version {content['version']}, this mpi_opt reads versions up to {VERSION}")
        tensors = content.get("tensors")
        manifest = Manifest(
            path,
            content["step"],
            content["nodes"],
            tuple(content["files"]),
            None if tensors is None else tuple(tensors),
        )
    except OSError as error:
        raise DataError(f"{place}: {error.strerror}; the checkpoint is not whole") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{place}: damaged: {error}") from error
    for entry in manifest.files:
        file = path / entry["name"]
        size = file.stat().st_size if file.is_file() else None
        if size != entry["bytes"]:
            raise DataError(
                f"{file}: {'missing' if size is None else f'{size} bytes'}, {entry['bytes']} bytes are needed"
            )
    return manifest


def read_node(manifest: Manifest, node: int) -> Any:
    """Return what `Checkpoints.write` was given for ``node``.

    Raises
    ------
    DataError
        The file is missing, changed or of another version: names it.
    """
    entry = manifest.files[node]
    path = manifest.path / entry["name"]
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    if digest != entry["sha256"]:
        raise DataError(f"{path}: damaged: its contents do not have the hash that the manifest names")
    with open_reading(path) as file:
        arrays = [np.asarray(file["arrays"][str(k)][()]) for k in range(len(file["arrays"]))]
        text = file["tree"][()].tobytes()
    try:
        return thaw(json.loads(text), arrays)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def _write_node(folder: Path, step: int, node: int, nodes: int, piece: Any) -> Mapping[str, Any]:
    """Write one node's file; return its entry in the manifest."""
    frozen = Frozen()
    text = json.dumps(freeze(piece, frozen))

    def fill(file: Any) -> None:
        for name, value in (("format", FORMAT), ("version", VERSION), ("step", step), ("node", node), ("nodes", nodes)):
            file.attrs[name] = value
        file.create_dataset("tree", data=np.void(text.encode()))
        group = file.create_group("arrays")
        for k, array in enumerate(frozen.arrays):
            group.create_dataset(str(k), data=array)

    data = image(fill)
    name = f"node_{node:05d}.h5"
    replace_file(folder / name, data)
    return {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _told(error: Exception | None, path: Path) -> Exception | None:
    """Return the error as the run ends with it."""
    if error is None:
        return None
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    place = getattr(error, "filename", None) or path
    return MpiOptError(f"checkpoint {place} cannot be written: {reason}. Earlier checkpoints stand")
