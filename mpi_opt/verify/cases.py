"""The small problem of the checks, the methods on it as the package has them, and a plain drive of their steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
from mpi_opt.algorithms.base import Algorithm, Node
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.parts.solver import Cholesky
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.base import Codec
from mpi_opt.compression.sign import SignTopK
from mpi_opt.draws import Batches, Key, Purpose
from mpi_opt.network.base import Network
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic
from mpi_opt.schedules import Constant
from mpi_opt.topology.mixing import make_mixing
from mpi_opt.topology.registry import make_graph
from mpi_opt.types import Vector

DIM, SEED, L2 = 12, 11, 0.01
STEP_SIZE, SYNC_EVERY, THRESHOLD, K, CONSENSUS_RATE, BATCH = 0.2, 3, 3.0, 3, 0.3, 7
"""Of SPARQ-SGD; with this threshold some nodes speak and some are silent at most synchronisations."""
STEPS, ROUNDS, LOCAL_STEPS = 60, 6, 2


def rows_of(node: int) -> tuple[Vector, Vector]:
    """Return features and labels of a node: unequal numbers of rows, and optima that differ from node to node."""
    draws = Key(SEED, node, Purpose.SYNTHETIC, 0).generator()
    count = 30 + 5 * (node % 3)
    features = draws.normal(size=(count, DIM)) * np.geomspace(1.0, 0.3, DIM)
    features[:, 0] += (node % 4) - 1.5
    truth = np.cos(np.arange(DIM)) + 0.3 * draws.normal(size=DIM)
    return features, np.where(features @ truth + draws.normal(size=count) > 0, 1.0, -1.0)


def data(n: int) -> list[tuple[Vector, Vector]]:
    """Return the rows of all n nodes."""
    return [rows_of(node) for node in range(n)]


@dataclass(frozen=True, slots=True)
class Case:
    """A method and its nodes.

    Attributes
    ----------
    algorithm : Algorithm
    problems : sequence of LinearProblem
        One a node.
    nodes : sequence of Node
    neighbours : sequence of tuple of int
        On the ring.
    codec : Codec or None
        ``None`` where the method reduces.
    """

    algorithm: Algorithm
    problems: Sequence[LinearProblem]
    nodes: Sequence[Node]
    neighbours: Sequence[tuple[int, ...]]
    codec: Codec | None


def sparq(*, overlap: bool = False, beta: float = 0.0, check: bool = False) -> SparqSGD:
    """Return SPARQ-SGD with trigger and SignTopK."""
    return SparqSGD(
        step_size=Constant(STEP_SIZE),
        trigger=Trigger(Constant(THRESHOLD)),
        compressor=SignTopK(K),
        consensus_rate=CONSENSUS_RATE,
        sync_every=SYNC_EVERY,
        batch=BATCH,
        beta=beta,
        overlap=overlap,
        check=check,
    )


def allreduce() -> AllreduceSGD:
    """Return a method that sums over all nodes at every step."""
    return AllreduceSGD(step_size=Constant(STEP_SIZE), batch=BATCH)


def newton() -> Newton:
    """Return exact Newton."""
    return Newton()


def local_newton() -> LocalNewton:
    """Return plain LocalNewton, directions by Cholesky."""
    return LocalNewton(local_steps=LOCAL_STEPS, solver=Cholesky())


def make(algorithm: Algorithm, n: int) -> Case:
    """Return the case of a method on n nodes; on means of shards where it is a second-order method."""
    mixing = make_mixing(make_graph("ring", n, {}, SEED), "metropolis")
    parts = data(n)
    total = sum(len(labels) for _, labels in parts)
    scale = n / total
    means = isinstance(algorithm, Newton | LocalNewton)
    problems = [
        LinearProblem(features, labels, Logistic(), l2=L2, scale=1.0 / len(labels) if means else scale)
        for features, labels in parts
    ]
    compressor = getattr(algorithm, "compressor", None)
    scratch = (np.empty(DIM), np.empty(DIM))
    return Case(
        algorithm=algorithm,
        problems=problems,
        nodes=[
            Node(i, n, SEED, mixing.row(i), Batches(SEED, i, problem.rows, algorithm.batch), scratch)
            for i, problem in enumerate(problems)
        ],
        neighbours=[mixing.graph.neighbours(i) for i in range(n)],
        codec=None if compressor is None else compressor.codec(DIM, SEED),
    )


class Drive:
    """A case's local nodes, moved on step by step.

    Attributes
    ----------
    states : list
        One a local node.
    """

    def __init__(self, case: Case, network: Network, starts: Vector | None = None) -> None:
        self.case, self.network = case, network
        self.states: list[Any] = [
            case.algorithm.init(case.problems[i], np.zeros(DIM) if starts is None else starts[i]) for i in network.local
        ]
        self._models, self._fired = [self.models()], list[list[bool]]()

    def models(self) -> Vector:
        """Return the local nodes' models, (local, d)."""
        return np.array([self.case.algorithm.model(state) for state in self.states])

    def step(self) -> None:
        """Take one step."""
        self._advance(self.case.algorithm.step)
        self.network.poke()
        self._models.append(self.models())

    def settle(self) -> None:
        """Complete what is in flight."""
        self._advance(self.case.algorithm.settle)
        self._models.append(self.models())

    def _advance(self, move: Any) -> None:
        case, local = self.case, self.network.local
        moves = [move(state, case.problems[i], case.nodes[i]) for state, i in zip(self.states, local, strict=True)]
        results = self.network.advance(moves)
        self.states = [state for state, _ in results]
        if results[0][1].synced:
            self._fired.append([info.fired for _, info in results])

    def course(self) -> tuple[Vector, npt.NDArray[np.bool_]]:
        """Return models (steps + 1, local, d) and who spoke (syncs, local)."""
        local = len(self.states)
        return np.array(self._models), np.array(self._fired, dtype=bool).reshape(-1, local)

    def sent(self) -> list[list[int]]:
        """Return of each local node its messages, silences, payload and header bytes."""
        return [[t.messages, t.silences, t.payload_bytes, t.header_bytes] for t in self.network.traffic]


def driven(case: Case, network: Network, steps: int, *, settle: bool = False) -> Drive:
    """Take so many steps, and complete what is in flight where that is asked for."""
    drive = Drive(case, network)
    for _ in range(steps):
        drive.step()
    if settle:
        drive.settle()
    return drive
