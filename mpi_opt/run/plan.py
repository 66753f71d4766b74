"""What a run is made of, and how it ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mpi_opt.algorithms.base import Algorithm, Node
from mpi_opt.network.base import Network
from mpi_opt.problems.base import Problem
from mpi_opt.run.checkpoint import Checkpoints
from mpi_opt.run.progress import Progress, Silent
from mpi_opt.run.signals import Signals
from mpi_opt.run.stop import StopRules
from mpi_opt.run.timing import Phases
from mpi_opt.types import Vector

CONTROL_SYNCS = 10
"""Synchronisations between two control reductions: a stop by time is agreed on within twice as many, for a reduction
is acted on at the next."""


class Evaluate(Protocol):
    """What the loop asks for at an evaluation."""

    def evaluate(self, models: Sequence[Vector], step: int) -> list[dict[str, float]]:
        """Return one row of figures for each local node."""
        ...


class Record(Protocol):
    """What the loop hands rows to; one for each local node."""

    @property
    def seconds(self) -> float:
        """Time spent in writing so far, s."""
        ...

    def position(self) -> tuple[int, int]:
        """Write what waits; return how many rows and synchronisation indices there are."""
        ...

    def row(self, values: Mapping[str, float | int]) -> None:
        """Take the row of one evaluation."""
        ...

    def sync(
        self, step: int, fired: bool, drift: float, threshold: float, payload_bytes: int, blocks: float = 0.0
    ) -> None:
        """Take one synchronisation index; ``blocks`` is the share of blocks that spoke, for a plan with ``blocks``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run is made of. Sequences have one entry for each local node, in the order of ``network.local``.

    Attributes
    ----------
    control_every : int
        Steps between two control reductions; each is acted on at the next, so that nobody waits for it.
    evaluate_every : int
        Steps between evaluations; the start and the end are always evaluated.
    steps_per_epoch : float
        Steps in which the nodes together see N rows.
    average_output : bool
        End with the mean of the nodes' models (its bytes counted) instead of each node's own.
    blocks : bool
        The trigger looks at blocks of the model one by one, and the recorders keep how many spoke.
    values : callable or None
        Running counts of local node ``k`` under the names of the metrics schema (traffic).
    inspect : callable or None
        Called with the step and the local nodes' states at each evaluation.
    checkpoints : Checkpoints or None
        Where checkpoints go; ``None`` writes none, also where the run is asked to pause.
    resumed : sequence of mapping, or None
        What a checkpoint holds of each local node, to go on from.
    begin : int
        Steps that ``x0`` has behind it: schedules and counts go on from there.
    signals : Signals or None
        Asks the run to pause.
    deadline : float or None
        Wall time (as by ``time.time``) at which the run pauses.
    """

    network: Network
    algorithm: Algorithm
    nodes: Sequence[Node]
    problems: Sequence[Problem]
    x0: Vector
    rules: StopRules
    evaluator: Evaluate | None = None
    recorders: Sequence[Record] = ()
    phases: Sequence[Phases] = ()
    progress: Progress = field(default_factory=Silent)
    evaluate_every: int = 10
    control_every: int = CONTROL_SYNCS
    steps_per_epoch: float = 1.0
    average_output: bool = True
    blocks: bool = False
    values: Callable[[int], Mapping[str, float | int]] | None = None
    inspect: Callable[[int, Sequence[Any]], None] | None = None
    checkpoints: Checkpoints | None = None
    resumed: Sequence[Mapping[str, Any]] | None = None
    begin: int = 0
    signals: Signals | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    models, iterates : list of ndarray, shape (d,)
        Each local node's own final model, and its last iterate where that is another (copies).
    average : ndarray, shape (d,), or None
        Mean over all nodes, where it is the output.
    rows : list of dict
        The last evaluation, one row a local node; empty without an evaluator.
    steps, rounds : int
    reason : str
        Why it ended.
    diverged : bool
    paused : bool
        It can be resumed: the models are where it was left, nothing was completed.
    seconds : float
        Run clock.
    syncs, fired : int
        Synchronisations that the local nodes passed together, and those at which they spoke.
    blocks : float or None
        Sum over these of the share of blocks that spoke, for a plan with ``blocks``.
    simulated : bool
        The clock is a virtual one.
    """

    models: list[Vector]
    iterates: list[Vector]
    average: Vector | None
    rows: list[dict[str, float | int]]
    steps: int
    rounds: int
    reason: str
    diverged: bool
    paused: bool
    seconds: float
    syncs: int
    fired: int
    simulated: bool = False
    blocks: float | None = None
