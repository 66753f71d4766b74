"""Small decentralized problems with every part of the SPARQ-SGD engine in use, for package and twins alike.

A case is made from its name and the number of nodes alone, so a test process and MPI ranks make the same one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from twins import compressors, setting

from mpi_opt.algorithms.allreduce_sgd import AllreduceSGD
from mpi_opt.algorithms.base import Algorithm, Node
from mpi_opt.algorithms.local_sgd import LocalSGD
from mpi_opt.algorithms.parts.tensor_trigger import TensorTrigger
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.base import Codec
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.qsgd import QSGD, QSGDTopK
from mpi_opt.compression.random_k import RandomK, draw_support
from mpi_opt.compression.sign import Sign, SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Batches, Key, Purpose
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic
from mpi_opt.schedules import Constant, FiringRate, Inverse, Polynomial, Stepwise

DIM, SEED, L2 = 12, 7, 0.01


def _uniforms(node, round, size):
    return Key(SEED, node, Purpose.COMPRESSION, round).generator().random(size)


@dataclass(frozen=True)
class Case:
    """One setting. ``package`` are arguments of SparqSGD, ``twin`` those of the twins; both describe the same run."""

    package: dict = field(default_factory=dict)
    twin: dict = field(default_factory=dict)
    sync_every: int = 3
    step_size: Callable = Constant(0.2)
    compressor: object = SignTopK(3)
    compress: object = compressors.always(compressors.sign_top_k, 3)
    gamma: float = 0.3
    batch: int | None = 5
    exact: bool = True
    """The twin's compressor gives the package's bits."""


def _threshold(package, twin, longest=None, **rest):
    return Case(package={"trigger": Trigger(package, longest)}, twin={**twin, "longest_silence": longest}, **rest)


BLOCKS = [7, 1, 4]


def _tensors(package, twin, inner=SignTopK(2), compress=compressors.sign_top_k, longest=None, **rest):  # noqa: B008
    """Blocks that speak by themselves, with k = 2 each where they have as many."""
    overlap, momentum = rest.pop("overlap", False), rest.pop("momentum", 0.0)
    return Case(
        package={"trigger": TensorTrigger(BLOCKS, package, longest), "overlap": overlap, "beta": momentum},
        twin={**twin, "longest_silence": longest, "blocks": BLOCKS, "overlap": overlap, "momentum": momentum},
        compressor=Blockwise(inner, BLOCKS, partial=True),
        compress=[compressors.always(compress, min(2, size)) for size in BLOCKS],
        **rest,
    )


CASES = {
    "base": _threshold(Constant(3.0), {"threshold": setting.constant(3.0)}),
    "always": _threshold(Constant(0.0), {"threshold": setting.constant(0.0)}, sync_every=1),
    "full batch": _threshold(Constant(0.5), {"threshold": setting.constant(0.5)}, batch=None, sync_every=5),
    "inverse step": _threshold(Constant(3.0), {"threshold": setting.constant(3.0)}, step_size=Inverse(50.0, 12.0)),
    "polynomial": _threshold(Polynomial(1.0, 0.5), {"threshold": setting.polynomial(1.0, 0.5)}),
    "stepwise": _threshold(Stepwise(0.5, 1.5, 10, 40), {"threshold": setting.stepwise(0.5, 1.5, 10, until=40)}),
    "firing rate": _threshold(FiringRate(0.6), {"target_rate": 0.6}),
    "firing rate, silence": _threshold(FiringRate(0.1, 0.2), {"target_rate": 0.1, "gain": 0.2}, longest=3),
    "longest silence": _threshold(Constant(1e3), {"threshold": setting.constant(1e3)}, longest=4),
    "momentum": Case(
        package={"trigger": Trigger(Constant(150.0)), "beta": 0.9},
        twin={"threshold": setting.constant(150.0), "momentum": 0.9},
        step_size=Constant(0.05),
    ),
    "overlap": Case(
        package={"trigger": Trigger(Constant(8.0)), "overlap": True},
        twin={"threshold": setting.constant(8.0), "overlap": True},
        gamma=0.15,
    ),
    "overlap, momentum, rate": Case(
        package={"trigger": Trigger(FiringRate(0.6)), "overlap": True, "beta": 0.5},
        twin={"target_rate": 0.6, "overlap": True, "momentum": 0.5},
        gamma=0.1,
        sync_every=4,
    ),
    "top-k": _threshold(
        Constant(3.0),
        {"threshold": setting.constant(3.0)},
        compressor=TopK(3),
        compress=compressors.always(compressors.top_k, 3),
    ),
    "top-k 64": _threshold(
        Constant(3.0),
        {"threshold": setting.constant(3.0)},
        compressor=TopK(3, value_bits=64),
        compress=compressors.always(compressors.top_k, 3, bits=64),
    ),
    "random-k": _threshold(
        Constant(8.0),
        {"threshold": setting.constant(8.0)},
        compressor=RandomK(4),
        compress=lambda v, i, r: compressors.random_k(v, draw_support(DIM, 4, Key(SEED, i, Purpose.COMPRESSION, r))),
    ),
    "sign": _threshold(
        Constant(8.0),
        {"threshold": setting.constant(8.0)},
        compressor=Sign(),
        compress=compressors.always(compressors.scaled_sign),
    ),
    "identity": _threshold(
        Constant(8.0),
        {"threshold": setting.constant(8.0)},
        compressor=Identity(),
        compress=compressors.always(compressors.identity),
    ),
    "by tensor": _tensors(Constant(3.0), {"threshold": setting.constant(3.0)}),
    "by tensor, top-k": _tensors(
        Constant(3.0), {"threshold": setting.constant(3.0)}, TopK(2), compressors.top_k, sync_every=2
    ),
    "by tensor, silence": _tensors(Constant(10.0), {"threshold": setting.constant(10.0)}, longest=4),
    "by tensor, firing rate": _tensors(FiringRate(0.4), {"target_rate": 0.4}),
    "by tensor, overlap, momentum": _tensors(
        Constant(30.0), {"threshold": setting.constant(30.0)}, overlap=True, momentum=0.5, gamma=0.1
    ),
    "qsgd": _threshold(
        Constant(3.0),
        {"threshold": setting.constant(3.0)},
        compressor=QSGD(16),
        compress=lambda v, i, r: compressors.qsgd(v, 16, _uniforms(i, r, DIM), shrink=True),
        exact=False,
        gamma=0.2,
    ),
    "qsgd of top-k": _threshold(
        Constant(3.0),
        {"threshold": setting.constant(3.0)},
        compressor=QSGDTopK(4, 4),
        compress=lambda v, i, r: compressors.qsgd_top_k(v, 4, 4, _uniforms(i, r, 4)),
        exact=False,
    ),
}
REDUCING = {
    "allreduce": AllreduceSGD(step_size=Constant(0.2), batch=5),
    "allreduce, momentum": AllreduceSGD(step_size=Constant(0.05), batch=5, beta=0.9),
    "local": LocalSGD(step_size=Constant(0.2), batch=5, sync_every=3),
    "local, momentum": LocalSGD(step_size=Constant(0.05), batch=None, sync_every=4, beta=0.9),
}


def shards(n, rows=203):
    """Unequal shards whose optima differ, so that the nodes pull apart."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(rows, DIM)) * np.geomspace(1, 0.3, DIM)
    A[:, 0] += np.linspace(-1, 1, rows)
    y = np.where(A @ rng.normal(size=DIM) + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)
    return setting.contiguous(A, y, n)


@dataclass(frozen=True)
class Made:
    """What both networks need."""

    algorithm: Algorithm
    problems: list[LinearProblem]
    nodes: list[Node]
    neighbours: list[tuple[int, ...]]
    codec: Codec | None
    W: np.ndarray
    x0: np.ndarray


def algorithm_of(name, **changes):
    """Return the package's algorithm of a case."""
    if name in REDUCING:
        return REDUCING[name]
    case = CASES[name]
    arguments = {
        "step_size": case.step_size,
        "compressor": case.compressor,
        "consensus_rate": case.gamma,
        "sync_every": case.sync_every,
        "batch": case.batch,
        **case.package,
    }
    return SparqSGD(**{**arguments, **changes})


def make(name, n, edges=None, **changes):
    """Return the parts of a case on n nodes; the graph is a ring unless edges are given."""
    algorithm = algorithm_of(name, **changes)
    edges = setting.ring(n) if edges is None else edges
    W = setting.metropolis(n, edges)
    problems = [LinearProblem(A, y, Logistic(), l2=L2, scale=n / 203) for A, y in shards(n)]
    codec = algorithm.compressor.codec(DIM, SEED) if name in CASES else None
    scratch = (np.empty(DIM), np.empty(DIM))
    nodes = [
        Node(i, n, SEED, setting.rows_of(W)[i], Batches(SEED, i, problem.rows, algorithm.batch), scratch)
        for i, problem in enumerate(problems)
    ]
    around = [tuple(sorted({j for edge in edges for j in edge if i in edge} - {i})) for i in range(n)]
    x0 = np.random.default_rng(1).normal(size=DIM) * 0.1
    return Made(algorithm, problems, nodes, around, codec, W, x0)


def drive(made, network, steps):
    """Run the local nodes; return iterates (steps + 1, local, d), fired (syncs, local), final (local, d), states."""
    local = network.local
    problems = [made.problems[i] for i in local]
    nodes = [made.nodes[i] for i in local]
    algorithm = made.algorithm
    states = [algorithm.init(problem, made.x0) for problem in problems]
    X, fired = [[state.x.copy() for state in states]], []
    for _ in range(steps):
        results = network.advance([algorithm.step(*each) for each in zip(states, problems, nodes, strict=True)])
        network.poke()
        states = [state for state, _ in results]
        X.append([state.x.copy() for state in states])
        if results[0][1].synced:
            fired.append([info.fired for _, info in results])
    results = network.advance([algorithm.settle(*each) for each in zip(states, problems, nodes, strict=True)])
    states = [state for state, _ in results]
    final = np.array([algorithm.model(state) for state in states])
    return np.array(X), np.array(fired, dtype=bool).reshape(-1, len(local)), final, states
