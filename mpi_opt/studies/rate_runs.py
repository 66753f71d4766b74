"""One run of the rate page: a method in lockstep on a ground, and its error after T steps.

Batches are one row, drawn with replacement: the theorems suppose independent draws, and passes over permuted rows do
better than that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mpi_opt.algorithms.base import Node
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.base import Compressor
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.sign import SignTopK
from mpi_opt.draws import Batches, Key, Purpose
from mpi_opt.errors import DivergedError
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Outcome, Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.schedules import Constant, Inverse, Polynomial
from mpi_opt.studies.rate_grounds import Ground
from mpi_opt.topology.consensus_rate import consensus_rate
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.topology.registry import make_graph
from mpi_opt.types import Indices, Vector

PLAIN, COMPRESSED, SPARQ = "plain", "compressed", "SPARQ"
METHODS = (PLAIN, COMPRESSED, SPARQ)

H = 5
SHARE = 0.25
"""Of the coordinates are sent, one bit each."""
EPS = 0.5
"""The theorems' exponent of how fast thresholds may grow."""
GROWING = 0.5
"""c_0 of SPARQ's threshold ``c_0 (t + 1)^(1 - eps)`` on strongly convex functions."""
HELD = 5.0
"""c_0 of its threshold ``c_0 eta^(eps - 1)`` where the step is constant."""
LOOKS = 128
"""Gradients of F that the mean over a run is taken from."""

_BLOCK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The error of one run after some steps.

    Attributes
    ----------
    ground, method, graph : str
    nodes, seed, steps : int
    error : float
        F - F* at the average of the nodes' weighted means, or |grad F|^2 at the average of the nodes' models,
        averaged over all steps.
    own : float
        The same at a single node's, on average.
    fired : float
        Share of the synchronisations at which a node spoke.
    sent : float
        Bytes a node sent, on average.
    """

    ground: str
    method: str
    graph: str
    nodes: int
    seed: int
    steps: int
    error: float
    own: float
    fired: float
    sent: float


@dataclass(slots=True)
class WithReplacement(Batches):
    """Batches of independent draws, ``size`` rows each."""

    _block: int = field(default=-1, repr=False)
    _drawn: Indices = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64), repr=False)

    def at(self, step: int) -> Indices | None:
        """Return the rows of the batch of ``step``."""
        block, k = divmod(step, _BLOCK)
        if block != self._block:
            draw = Key(self.seed, self.node, Purpose.BATCH, block).generator()
            self._drawn, self._block = draw.integers(0, self.rows, size=(_BLOCK, self.size or 1)), block
        rows: Indices = self._drawn[k]
        return rows


def gaps(
    name: str, ground: Ground, method: str, graph: str, nodes: int, seed: int, horizons: Sequence[int]
) -> list[Point]:
    """Return the gap after each of ``horizons`` steps, all from one run.

    The step is the theorem's, ``8 / (mu (a + t))`` with ``a = 32 L / mu``; the models are the (a + t)^2 averages.
    """
    mu, a = ground.convexity, ground.offset
    assert a is not None  # only strongly convex functions are asked for their gap
    threshold = Polynomial(GROWING, EPS) if method == SPARQ else Constant(0.0)
    algorithm = _algorithm(method, graph, nodes, ground.whole.dim, Inverse(a, 8.0 / mu), threshold, a)
    least, found = ground.least, dict[int, tuple[float, float]]()
    assert least is not None

    def look(step: int, models: Sequence[Vector]) -> None:
        if step in wanted:
            own = [ground.whole.value(x) - least for x in models]
            found[step] = (ground.whole.value(_mean(models)) - least, float(np.mean(own)))

    wanted = frozenset(horizons)
    outcome, sent = _drive(ground, algorithm, graph, nodes, seed, max(horizons), look, min(horizons))
    fired = outcome.fired / outcome.syncs
    return [
        Point(
            ground=name, method=method, graph=graph, nodes=nodes, seed=seed, steps=T,
            error=found[T][0], own=found[T][1], fired=fired, sent=sent * T / max(horizons),
        )
        for T in sorted(horizons)
    ]  # fmt: skip


def gradients(
    name: str, ground: Ground, method: str, graph: str, nodes: int, seed: int, steps: int, factor: float
) -> Point:
    """Return the averaged squared gradient norm of a run of ``steps`` steps of constant size ``factor sqrt(n/T)``.

    The threshold is the largest that the theorem allows, up to a factor: ``c = c_0 eta^(eps - 1)``.
    """
    eta = factor * np.sqrt(nodes / steps)
    threshold = Constant(HELD * eta ** (EPS - 1.0) if method == SPARQ else 0.0)
    algorithm = _algorithm(method, graph, nodes, ground.whole.dim, Constant(eta), threshold, None)
    between = max(2, steps // LOOKS)
    seen: list[tuple[float, float]] = []

    def look(step: int, models: Sequence[Vector]) -> None:
        # In the middle of its interval a look stands for all of it, also where the gradient falls fast.
        if step % between == between // 2:
            g, h = ground.whole.gradient(_mean(models)), ground.whole.gradient(models[len(seen) % nodes])
            seen.append((float(g @ g), float(h @ h)))

    outcome, sent = _drive(ground, algorithm, graph, nodes, seed, steps, look, between // 2)
    error, own = np.mean(seen, axis=0)
    return Point(
        ground=name, method=method, graph=graph, nodes=nodes, seed=seed, steps=steps,
        error=float(error), own=float(own), fired=outcome.fired / outcome.syncs, sent=sent,
    )  # fmt: skip


def _drive(
    ground: Ground,
    algorithm: SparqSGD,
    graph: str,
    nodes: int,
    seed: int,
    steps: int,
    look: Callable[[int, Sequence[Vector]], None],
    every: int,
) -> tuple[Outcome, float]:
    """Run in lockstep; return how it ended and the bytes a node sent on average."""
    shards, d, mixing = ground.shards(nodes), ground.whole.dim, _mixing(graph, nodes)
    network = Lockstep([mixing.graph.neighbours(i) for i in range(nodes)], algorithm.compressor.codec(d, seed))
    scratch = (np.empty(d), np.empty(d))
    nodes_of = [
        Node(i, nodes, seed, mixing.row(i), WithReplacement(seed, i, shard.rows, algorithm.batch), scratch)
        for i, shard in enumerate(shards)
    ]

    def inspect(step: int, states: Sequence[Any]) -> None:
        look(step, [algorithm.model(state) for state in states])

    outcome = run(
        Plan(
            network=network,
            algorithm=algorithm,
            nodes=nodes_of,
            problems=shards,
            x0=ground.start,
            rules=StopRules(steps=steps),
            evaluate_every=every,
            average_output=False,
            inspect=inspect,
        )
    )
    if outcome.diverged:
        raise DivergedError(outcome.reason)
    sent = sum(traffic.payload_bytes + traffic.header_bytes for traffic in network.traffic) / nodes
    return outcome, sent


def _algorithm(
    method: str,
    graph: str,
    nodes: int,
    dim: int,
    step_size: Callable[[int], float],
    threshold: Callable[[int], float],
    offset: float | None,
) -> SparqSGD:
    compressor = _COMPRESSORS[method](dim)
    return SparqSGD(
        step_size=step_size,
        trigger=Trigger(threshold),
        compressor=compressor,
        consensus_rate=_rate(method, graph, nodes, dim),
        sync_every=H if method == SPARQ else 1,
        batch=1,
        weighted_offset=offset,
    )


def _few_signs(dim: int) -> Compressor:
    return SignTopK(max(1, round(SHARE * dim)))


_COMPRESSORS: Mapping[str, Callable[[int], Compressor]] = {
    PLAIN: lambda _: Identity(),
    COMPRESSED: _few_signs,
    SPARQ: _few_signs,
}


@lru_cache(maxsize=64)
def _mixing(graph: str, nodes: int) -> Mixing:
    return make_mixing(make_graph(graph, nodes, {}, 0), "metropolis")


@lru_cache(maxsize=64)
def _rate(method: str, graph: str, nodes: int, dim: int) -> float:
    """Return gamma: 1 without compression, else what ``consensus_rate = "auto"`` finds; the same for all seeds."""
    if method == PLAIN or nodes == 1:
        return 1.0
    return consensus_rate(_mixing(graph, nodes), _COMPRESSORS[method](dim), dim, 0).gamma


def _mean(models: Sequence[Vector]) -> Vector:
    mean: Vector = np.add.reduce(models) / len(models)
    return mean
