"""The contract of an algorithm: frozen hyper-parameters, explicit state, and a step that yields requests.

Whoever drives a step performs its requests: ``network/mpi.py`` over MPI, one rank a node; ``network/lockstep.py`` for
n virtual nodes in one process.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mpi_opt.draws import Batches
from mpi_opt.errors import JobError
from mpi_opt.requests import Steps
from mpi_opt.types import Vector


class Info(NamedTuple):
    """What one step did, for the metrics; never read back by an algorithm."""

    synced: bool = False
    """The step was a synchronisation index (SPARQ-SGD) or a round (master-worker)."""
    fired: bool = False
    """The node spoke at this synchronisation index."""
    drift: float = 0.0
    """|x - xhat|^2 at the trigger."""
    threshold: float = 0.0
    """The bound c_t eta_t^2 that ``drift`` was compared with."""
    diverged: bool = False
    """The node's vectors are no longer finite; it stays silent until the run ends."""
    ended: str = ""
    """Why the method itself is at its end, decided on reduced values and so the same on every node."""
    blocks: float = 0.0
    """Of SPARQ-SGD, the share of the model's blocks that spoke: 1 or 0 where it speaks as a whole."""


@dataclass(frozen=True, slots=True)
class Node:
    """What a node knows of its place.

    Attributes
    ----------
    index, count : int
        Node number i in 0..n-1, and n.
    seed : int
        Seed of the run.
    weights : mapping of int to float
        Row i of the mixing matrix W without its zeros, own weight ``w_ii`` included; keys ascending.
    batches : Batches
        The node's mini-batches.
    scratch : pair of ndarray, each shape (d,)
        Work space of a step, allocated once; lockstep shares it among all nodes, so its contents are lost at a yield.
    """

    index: int
    count: int
    seed: int
    weights: Mapping[int, float]
    batches: Batches
    scratch: tuple[Vector, Vector]


class Algorithm(Protocol):
    """A method: a frozen dataclass of hyper-parameters. ``step`` and ``settle`` are generators of requests.

    The problem is a `problems.base.Problem`; second-order methods need a `problems.base.SecondOrder`.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """Methods of the problem that the algorithm calls, checked before it starts."""
        ...

    @property
    def batch(self) -> int | None:
        """Rows a node and step; ``None`` for the whole shard."""
        ...

    def init(self, problem: Any, x0: Vector) -> Any:
        """Return the state before step 0; copies ``x0``."""
        ...

    def step(self, state: Any, problem: Any, node: Node) -> Steps:
        """Take one step: a generator that yields requests and returns ``(state, Info)``."""
        ...

    def settle(self, state: Any, problem: Any, node: Node) -> Steps:
        """Complete what is in flight before the model is read; returns ``(state, Info)``. Mostly yields nothing."""
        ...

    def model(self, state: Any) -> Vector:
        """Return the node's current model, shape ``(d,)``: a view, to be copied by whoever keeps it."""
        ...


def check_needs(algorithm: Algorithm, problem: Any) -> None:
    """Check, before anything starts, that the problem offers what the algorithm declares under ``needs``.

    Raises
    ------
    JobError
        Names the algorithm, the problem and what is missing.
    """
    missing = [name for name in algorithm.needs if not hasattr(problem, name)]
    if missing:
        who, what = type(algorithm).__name__, type(problem).__name__
        raise JobError(f"{who} needs {', '.join(missing)} of a problem; {what} lacks it (see mpi_opt.problems.base)")


def check_counts(**values: int | None) -> None:
    """Check hyper-parameters that count something: integers of at least 1, or ``None``.

    Raises
    ------
    JobError
        Names the parameter, its value and what is allowed.
    """
    for name, value in values.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise JobError(f"{name} = {value!r}; allowed: an integer of at least 1")


def check_range(name: str, value: float, allowed: str, fits: bool) -> None:
    """Raise a JobError naming the parameter, its value and what is allowed, unless it fits."""
    if not fits:
        raise JobError(f"{name} = {value!r}; allowed: {allowed}")
