"""What is known of an earlier run from its folder alone, and whether it may be gone on with as it is asked for."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpi_opt.errors import DataError, JobError, LaunchError
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.run.checkpoint import found, read_manifest


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
