"""Every registered method on one small problem, made from its name and the number of nodes alone.

A method that is newly listed in the registry is made from the settings below like the others.
"""

from typing import NamedTuple

import numpy as np
from twins import setting

from mpi_opt.algorithms.base import Algorithm, Node
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.registry import EXCHANGES, FINISHES, NEWTON, SGD, NewtonSettings, SgdSettings
from mpi_opt.compression.base import Codec
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.sign import SignTopK
from mpi_opt.draws import Batches
from mpi_opt.problems.registry import make_problem
from mpi_opt.schedules import Constant, FiringRate

ROWS, DIM, CLASSES, SEED = 97, 9, 3, 11
STEPS = 7
SGD_SETTINGS = {
    "step_size": Constant(0.2), "batch": 5, "sync_every": 2, "beta": 0.0, "threshold": Constant(0.5),
    "longest_silence": None, "compressor": SignTopK(3), "consensus_rate": 0.3, "overlap": False,
    "weighted_offset": None, "check": False,
}  # fmt: skip
NEWTON_SETTINGS = {
    "tolerance": Tolerance(1e-9), "solver": "auto", "damping": None, "by_support": True, "local_steps": 2,
    "adaptive": False, "finish": "none", "hessian_every": 2, "memory": 3,
}  # fmt: skip
PRESETS = {
    "choco-sgd": {"threshold": Constant(0.0), "sync_every": 1},
    "d-psgd": {"threshold": Constant(0.0), "compressor": Identity(), "consensus_rate": 1.0},
    "squarm-sgd": {"beta": 0.5, "step_size": Constant(0.1)},
}
"""What a job would fix."""
VARIANTS = {
    "sparq-sgd, check": {"check": True},
    "sparq-sgd, by tensor": {"blocks": (5, 1, 3)},
    "squarm-sgd, by tensor, firing rate": {
        "blocks": (4, 5),
        "beta": 0.5,
        "threshold": FiringRate(0.5),
        "longest_silence": 3,
    },
    "sparq-sgd, weighted": {"weighted_offset": 3.0},
    "local-sgd, momentum": {"beta": 0.5, "step_size": Constant(0.1)},
    "allreduce-sgd, momentum": {"beta": 0.5, "step_size": Constant(0.1)},
    **{f"local-newton, {name}": {"adaptive": True, "finish": name} for name in FINISHES},
}
OVERLAPPED = "sparq-sgd, overlap"
"""Apart: what is in flight between two steps is the network's."""
NAMES = (*SGD, *NEWTON, *VARIANTS)


def algorithm_of(name: str, columns: int = 1) -> Algorithm:
    """Return the method ``name``, or a variant of it: its name, a comma and more; blocks are of features."""
    method = name.split(",")[0]
    changes = {"overlap": True} if name == OVERLAPPED else VARIANTS.get(name, PRESETS.get(name, {}))
    if "blocks" in changes:
        blocks = tuple(columns * size for size in changes["blocks"])
        changes = {**changes, "blocks": blocks, "compressor": Blockwise(SignTopK(2), blocks, partial=True)}
    if method in NEWTON:
        return NEWTON[method](NewtonSettings(**{**NEWTON_SETTINGS, **changes}))
    return SGD[method](SgdSettings(**{**SGD_SETTINGS, **changes}))


class Made(NamedTuple):
    """What either network needs."""

    algorithm: Algorithm
    problems: list
    nodes: list[Node]
    neighbours: list[tuple[int, ...]]
    codec: Codec | None
    x0: np.ndarray


def make(name: str, n: int, *, rows: int = ROWS, empty: bool = False, loss: str = "logistic") -> Made:
    """Return the parts; with ``empty``, node 1 holds no rows."""
    algorithm, method = algorithm_of(name, CLASSES if loss == "softmax" else 1), name.split(",")[0]
    rng = np.random.default_rng(2)
    A = rng.normal(size=(rows, DIM)) * (rng.random((rows, DIM)) < 0.7)
    y = np.where(A @ rng.normal(size=DIM) + 0.5 * rng.normal(size=rows) > 0, 1.0, -1.0)
    if loss == "softmax":
        y = np.argmax(A @ rng.normal(size=(DIM, CLASSES)) + 0.5 * rng.normal(size=(rows, CLASSES)), axis=1) * 1.0
    if empty:
        parts = setting.contiguous(A, y, n - 1)
        parts.insert(1, (A[:0], y[:0]))
    else:
        parts = setting.contiguous(A, y, n)
    scales = [1 / max(len(labels), 1) if method in NEWTON else n / rows for _, labels in parts]
    problems = [
        make_problem(loss, *part, classes=CLASSES, l2=0.02, scale=scale, intercept=False)
        for part, scale in zip(parts, scales, strict=True)
    ]
    exchanges = method in EXCHANGES
    edges = setting.ring(n) if exchanges else []
    weights = setting.rows_of(setting.metropolis(n, edges)) if exchanges else [{i: 1.0} for i in range(n)]
    around = [tuple(sorted({j for edge in edges for j in edge if i in edge} - {i})) for i in range(n)]
    dim = problems[0].dim
    scratch = (np.full(dim, np.nan), np.full(dim, np.nan))
    nodes = [
        Node(i, n, SEED, weights[i], Batches(SEED, i, problem.rows, algorithm.batch), scratch)
        for i, problem in enumerate(problems)
    ]
    codec = algorithm.compressor.codec(dim, SEED) if exchanges else None
    return Made(algorithm, problems, nodes, around, codec, np.random.default_rng(1).normal(size=dim) * 0.3)


def begin(made: Made, network) -> list:
    """Return the local nodes' states before step 0."""
    return [made.algorithm.init(made.problems[i], made.x0) for i in network.local]


def advance(made: Made, network, states: list, *, settle: bool = False) -> tuple[list, list]:
    """Take a step, or settle, on the local nodes; return states and infos."""
    go = made.algorithm.settle if settle else made.algorithm.step
    each = [(state, made.problems[i], made.nodes[i]) for state, i in zip(states, network.local, strict=True)]
    results = network.advance([go(*one) for one in each])
    return [state for state, _ in results], [info for _, info in results]


def drive(made: Made, network, states: list, steps: int) -> tuple[list, str]:
    """Take steps until the method ends or they are done; return the states and why it ended."""
    for _ in range(steps):
        states, infos = advance(made, network, states)
        if infos[0].ended:
            return states, infos[0].ended
    return states, ""


def models(made: Made, states: list) -> np.ndarray:
    """Return the local nodes' models, (local, d)."""
    return np.array([made.algorithm.model(state) for state in states])


def counts(traffic) -> list[float]:
    """Return what is counted of a run whatever carries it: no seconds."""
    return [
        traffic.rounds, traffic.short_rounds, traffic.messages, traffic.silences, traffic.payload_bytes,
        traffic.header_bytes, traffic.floor_bits,
    ]  # fmt: skip
