"""The module of a job: made on every process alike, and the rows that its statistics are computed from."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from mpi_opt.datasets.load import Loaded
from mpi_opt.datasets.shard import Shard
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError, MpiOptError
from mpi_opt.job import Job
from mpi_opt.network.collectives import Collectives
from mpi_opt.problemkeys import Problem
from mpi_opt.problems.torch.factory import make_module, module_seed, row_shape
from mpi_opt.problems.torch.tensors import tensors_of
from mpi_opt.types import Indices, Vector

if TYPE_CHECKING:
    from mpi_opt.problems.torch.flat import FlatModule

CALIBRATION_ROWS = 512
"""Rows that statistics of batch normalisation are computed from, or all where there are fewer."""


@dataclass(frozen=True, slots=True)
class JobModule:
    """A job's module.

    Attributes
    ----------
    flat : FlatModule
        One for all nodes of this process.
    shape : tuple of int
        What a row of features is to it.
    outputs : int
        Numbers a row that the loss takes.
    tensors : list of mapping
        What it is made of, for checkpoints; see `problems.torch.tensors`.
    """

    flat: "FlatModule"
    shape: tuple[int, ...]
    outputs: int
    tensors: list[dict[str, Any]]

    def told(self, word: str) -> str:
        """Return it in words; ``word`` is what the job calls it."""
        import torch

        flat = self.flat
        what = f"{flat.dim} parameters in {len(flat.blocks)} tensors"
        return f"module {word}: {what}, PyTorch {torch.__version__}"

    def described(self, table: Problem) -> dict[str, Any]:
        """Return what a model file says of it: how it is made, and of which tensors its parameters are."""
        return {
            "name": table.module,
            "options": table.module_options or {},
            "shape": list(self.shape),
            "dtype": table.dtype,
            "parameters": [block.name for block in self.flat.blocks],
        }


def job_module(job: Job, loaded: Loaded, collectives: Collectives) -> JobModule | None:
    """Return the job's module, ``None`` where it names none; called by all processes together.

    PyTorch computes with one thread and with deterministic algorithms from here on.

    Parameters
    ----------
    job : Job
    loaded : Loaded
        Prepared.
    collectives : Collectives

    Raises
    ------
    JobError
        On every process: see `problems.torch.factory.make_module` and `problems.torch.flat.FlatModule`; or the shape
        has another size than a row; or the outputs do not fit loss and classes.
    """
    if job.problem.module is None:
        return None
    made, error = None, None
    try:
        made = _make(job, loaded)
    except MpiOptError as wrong:
        error = wrong
    collectives.check(error)
    assert made is not None
    all_of_it = made.flat.start.tobytes() + json.dumps(made.tensors).encode()
    hashes = collectives.gather(sha256(all_of_it).hexdigest())
    odd = next((process for process, each in enumerate(hashes) if each != hashes[0]), None)
    if odd is not None:
        raise JobError(
            f"problem.module = {job.problem.module!r}: its parameters or buffers differ between processes 0 and {odd}; "
            "a factory may draw them from PyTorch's generator only, and its files must be the same on all hosts"
        )
    if made.flat.normalised:
        made.flat.calibrate(calibration_rows(loaded.train, job.seed, collectives).reshape(-1, *made.shape))
    return made


def _make(job: Job, loaded: Loaded) -> JobModule:
    table, info = job.problem, loaded.info
    assert table.module is not None
    shape = row_shape(table.module, info.features) if table.shape is None else tuple(table.shape)
    if math.prod(shape) != info.features:
        raise JobError(
            f"problem.shape = {list(shape)}: holds {math.prod(shape)} numbers, but a row of {info.name} has "
            f"{info.features}"
        )
    outputs = info.classes if table.loss == "softmax" else 1
    made = make_module(
        table.module,
        table.module_options or {},
        shape=shape,
        outputs=outputs,
        folder=job.folder,
        seed=module_seed(job.seed),
    )
    from mpi_opt.problems.torch.flat import FlatModule
    from mpi_opt.problems.torch.outputs import outputs_of
    from mpi_opt.problems.torch.setting import steady

    steady()
    flat = FlatModule(made, dtype=table.dtype or "float32", device=table.device or "cpu")
    found = outputs_of(flat, table.loss, shape)
    if found != outputs:
        raise JobError(
            f"problem.module = {table.module!r}: {found} numbers a row; needed: {outputs}, one a class of the training "
            "set"
        )
    flat.state(flat.start)  # what no model file holds is refused now, not after the run
    return JobModule(flat, shape, outputs, tensors_of(flat))


def calibration_rows(shards: Sequence[Shard], seed: int, collectives: Collectives) -> Vector:
    """Return up to 512 training rows that follow from their numbers and the seed alone, however rows are dealt.

    Called by all processes together.

    Returns
    -------
    ndarray, shape (rows, features)
        float64, in an order of their own.
    """
    mine = np.concatenate([shard.rows for shard in shards])
    ranks = _shuffled(mine, seed)
    least = np.sort(ranks)[:CALIBRATION_ROWS]
    everyone = np.sort(np.concatenate(collectives.gather(least)))[:CALIBRATION_ROWS]
    found: list[tuple[Any, Vector]] = []
    for shard in shards:
        places = np.flatnonzero(np.isin(_shuffled(shard.rows, seed), everyone))
        rows = shard.features[places]
        found += zip(
            _shuffled(shard.rows[places], seed).tolist(),
            rows if isinstance(rows, np.ndarray) else rows.toarray(),
            strict=True,
        )
    gathered = sorted((pair for part in collectives.gather(found) for pair in part), key=lambda pair: pair[0])
    return np.array([row for _, row in gathered])


def _shuffled(rows: Indices, seed: int) -> Any:
    """Return a number for each row, different ones, in an order that has nothing to do with the rows'.

    The finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64-bit numbers.
    """
    z = rows.astype(np.uint64) + np.uint64(Key(seed, 0, Purpose.CALIBRATION, 0).number())
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
