"""The course of a run, read from its folder: what comparisons, reports and scaling tables are made of.

What its nodes' files hold up to their last flush counts (``reading.py``). Nodes that stopped at different rows are cut
to the shortest, but those that were lost on the way keep their last counts (what they sent was sent) while the others
go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.job import Job
from mpi_opt.metrics import schema
from mpi_opt.metrics.lost import Lost
from mpi_opt.types import Indices, Vector

Array: TypeAlias = npt.NDArray[Any]

SHARED = (
    "step",
    "round",
    "short_rounds",
    "epoch",
    "nodes_alive",
    "objective_mean",
    "objective_worst",
    "objective_average",
    "test_error_mean",
    "test_error_worst",
    "test_error_average",
    "train_error_average",
    "consensus_distance",
    "gradient_norm",
)
"""Series that hold the same on every node."""

FIGURES = ("objective_local", "train_error", "test_loss", "test_error")
"""Series of each node's own model; a lost node has none from its loss on."""

COUNTS = (
    "seconds",
    "wall_seconds",
    "syncs",
    "fired",
    "messages",
    "silences",
    "payload_bytes",
    "header_bytes",
    "floor_bits",
    "control_bytes",
    "evaluation_bytes",
    "compute_seconds",
    "compress_seconds",
    "communicate_seconds",
    "wait_seconds",
    "evaluate_seconds",
    "write_seconds",
)
"""Running totals of each node; a lost node's stay where they were."""

BLOCKS = "blocks_fired"
"""Likewise, but only of runs whose trigger looks at blocks one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A run as far as it is on disk: row r is the evaluation r, row 0 the start.

    Attributes
    ----------
    path : Path
        The run's folder, or the joined file it was read from.
    label : str
        What tables call it.
    attributes : mapping
        Of the first node's file: ``metrics.schema.ATTRIBUTES``.
    state : str
        How the run ended (``"done: 200 steps"``, ``"paused: ..."``), or ``"running"``: it goes on or was killed.
    nodes : int
        n, at the start.
    shared : mapping of str to ndarray, shape (rows,)
        ``SHARED``.
    own : mapping of str to ndarray, shape (nodes, rows)
        ``FIGURES`` and ``COUNTS``, where there are any ``BLOCKS``.
    sync_steps : ndarray, shape (syncs,)
        Steps whose end was a synchronisation index.
    fired : ndarray of uint8, shape (nodes, syncs)
        1 where the node spoke.
    hosts : tuple of str
        Of each node.
    lost : tuple of Lost
        Nodes that died while the others went on.
    cut : str
        Which rows were left out because not all nodes have them; empty if none.
    job : Job or None
        The resolved job; ``None`` where it cannot be read: ``trouble`` says why.
    l2 : float or None
        What validation chose, where the job asks for that.
    """

    path: Path
    label: str
    attributes: Mapping[str, Any]
    state: str
    nodes: int
    shared: Mapping[str, Vector]
    own: Mapping[str, Array]
    sync_steps: Indices
    fired: npt.NDArray[np.uint8]
    hosts: tuple[str, ...]
    lost: tuple[Lost, ...]
    cut: str
    job: Job | None
    trouble: str
    l2: float | None

    @property
    def rows(self) -> int:
        """Number of evaluations on disk, the start among them."""
        return len(self.shared["step"])

    @property
    def lockstep(self) -> bool:
        """Whether its nodes were virtual."""
        return bool(self.attributes["mpi_library"] == "lockstep")

    @property
    def clock(self) -> str:
        """How its seconds were simulated, in words; empty where they were measured."""
        return str(self.attributes.get("clock", ""))

    @property
    def word(self) -> str:
        """How it is with the run in a word: done, diverged, paused, failed, closed, or "running or killed"."""
        return "running or killed" if self.state == schema.RUNNING else self.state.partition(":")[0]

    def total(self, name: str) -> Array:
        """Return a series of ``own`` summed over the nodes, shape (rows,)."""
        return np.asarray(self.own[name].sum(axis=0))

    def mean(self, name: str) -> Vector:
        """Return a series of ``own`` as the mean over the nodes, shape (rows,)."""
        return np.asarray(self.own[name].mean(axis=0))

    def most(self, name: str) -> Array:
        """Return the largest of a series of ``own`` over the nodes, shape (rows,)."""
        return np.asarray(self.own[name].max(axis=0))

    @property
    def sent(self) -> Indices:
        """Payload and headers of each node, bytes, shape (nodes, rows)."""
        return np.asarray(self.own["payload_bytes"] + self.own["header_bytes"])

    def seen(self, step: int) -> int:
        """Return the rows up to ``step``."""
        return int(np.searchsorted(self.shared["step"], step, side="right"))
