"""Small problems for the second-order methods, for package and twins alike, and a driver for either network.

A case is made from its name and the number of nodes alone, so a test process and MPI ranks make the same one. Shards
are unequal, from three nodes on one is empty, and each lacks a feature.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse
from twins import newton, second_order_shards

from mpi_opt.algorithms.base import Algorithm, Node
from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.solver import Cholesky
from mpi_opt.draws import Batches
from mpi_opt.problems.base import SecondOrder
from mpi_opt.problems.registry import make_problem

ROWS, FEATURES, CLASSES, SEED = 203, 9, 3, 7
TOLERANCE = 1e-8
_EXACT = {"solver": Cholesky()}
_ENDS = {"tolerance": Tolerance(TOLERANCE)}


@dataclass(frozen=True)
class Case:
    """One setting; ``algorithm`` (the package's) and ``twin`` describe the same method."""

    algorithm: Algorithm
    twin: Callable
    """(twin module, shards, w) -> its steps."""
    steps: int = 40
    loss: str = "logistic"
    l2: float = 1e-2
    start: float = 0.1
    """Size of the entries of the start, as seen from zero or from the optimum."""
    near: bool = False
    """Start round the optimum, where averages of local models are worse."""
    absent: bool = False
    """The last feature stands in no row of any shard."""
    intercept: bool = False
    one_class: bool = False
    """Rows are dealt by label."""


def _local(L=3, mu=0.0, by_support=True, **case):
    """Return the plain method."""
    algorithm = LocalNewton(local_steps=L, damping=mu, by_support=by_support, **_EXACT)

    def run(twin, shards, w):
        return twin.local_newton(shards, w, L=L, mu=mu, by_support=by_support)

    return Case(algorithm, run, **{"steps": 8, **case})


def _giant(mu=0.0, by_support=True):
    def run(twin, *start, known=None):
        return twin.giant(*start, known=known, mu=mu, by_support=by_support, tolerance=TOLERANCE)

    return Giant(damping=mu, by_support=by_support, **_EXACT, **_ENDS), run


def _newton(hessian_every=1):
    def run(twin, *start):
        return twin.newton(*start, hessian_every=hessian_every, tolerance=TOLERANCE)

    return Newton(hessian_every=hessian_every, **_ENDS), run


def _alone(method, **case):
    """Return the case of a method that stands by itself."""
    return Case(*method, **case)


def _adaptive(method=(None, None), L=3, by_support=True, **case):
    """Return the adaptive form, which ends in ``method``."""
    finish, ending = method
    algorithm = LocalNewton(local_steps=L, adaptive=True, finish=finish, by_support=by_support, **_EXACT)

    def run(twin, shards, w):
        return twin.adaptive(
            shards, w, L=L, by_support=by_support, at_once=isinstance(finish, Newton),
            finish=ending and partial(ending, twin, shards),
        )  # fmt: skip

    return Case(algorithm, run, **case)


CASES = {
    "local 1": _local(L=1),
    "local 3": _local(L=3),
    "local 3, plain mean": _local(L=3, by_support=False),
    "local 3, absent": _local(L=3, absent=True),
    "local 2, damped": _local(L=2, mu=0.05),
    "local 3, far": _local(L=3, start=6.0),
    "local 2, squared": _local(L=2, loss="squared"),
    "local 3, squared hinge": _local(L=3, loss="squared-hinge"),
    "local 2, huber": _local(L=2, loss="huber", start=1.0),
    "local 2, huber, lost": _local(L=2, loss="huber", start=1e4, l2=1e-12),
    "local 2, softmax": _local(L=2, mu=1e-3, loss="softmax", intercept=True),
    "local 20": _local(L=20, steps=3),
    "adaptive": _adaptive(steps=12),
    "adaptive, far": _adaptive(L=5, steps=12, start=6.0),
    "adaptive, intercept": _adaptive(steps=12, intercept=True, by_support=False),
    "giant": _alone(_giant()),
    "giant, plain mean": _alone(_giant(by_support=False), steps=12),
    "giant, absent": _alone(_giant(), absent=True, steps=12),
    "giant, damped": _alone(_giant(mu=0.05), steps=60),
    "giant, far": _alone(_giant(), start=6.0),
    "giant, squared": _alone(_giant(), loss="squared"),
    "giant, squared hinge": _alone(_giant(), loss="squared-hinge"),
    "giant, huber": _alone(_giant(), loss="huber", start=1.0),
    "giant, huber, lost": _alone(_giant(), loss="huber", start=1e4, l2=1e-12),
    "giant, softmax": _alone(_giant(mu=1e-3), loss="softmax", intercept=True, l2=0.1),
    "newton": _alone(_newton()),
    "newton, far": _alone(_newton(), start=6.0),
    "newton, squared": _alone(_newton(), loss="squared"),
    "newton, squared hinge": _alone(_newton(), loss="squared-hinge"),
    "newton, huber": _alone(_newton(), loss="huber", start=1.0),
    "newton, huber, lost": _alone(_newton(), loss="huber", start=1e4, l2=1e-12),
    "newton, lazy": _alone(_newton(hessian_every=3)),
    "newton, lazy, far": _alone(_newton(hessian_every=3), start=6.0),
    "adaptive, newton": _adaptive(_newton()),
    "adaptive, newton, far": _adaptive(_newton(), start=6.0),
    "adaptive, newton, near": _adaptive(_newton(), near=True, start=0.02),
    "adaptive, newton, at the optimum": _adaptive(_newton(), near=True, start=0.0),
    "adaptive, lazy newton, near": _adaptive(_newton(hessian_every=2), near=True, start=0.02),
    "adaptive, giant": _adaptive(_giant()),
    "adaptive, giant, far": _adaptive(_giant(), L=5, start=6.0),
    "adaptive, giant, plain mean": _adaptive(_giant(by_support=False), by_support=False, start=2.0, steps=12),
    "one class, newton": _adaptive(_newton(), one_class=True),
    "one class, giant": _adaptive(_giant(mu=0.05), one_class=True, steps=60),
}


def parts_of(case, n):
    """Return the shards, a list of (features, labels)."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.6) * np.geomspace(1, 0.3, FEATURES)
    A[:, 0] += np.linspace(-1, 1, ROWS)
    if case.absent:
        A[:, -1] = 0
    z = A @ rng.normal(size=(FEATURES, CLASSES)) + 0.5 * rng.normal(size=(ROWS, CLASSES))
    if case.loss in ("squared", "huber"):
        y = 2 * z[:, 0]
    else:
        y = z.argmax(axis=1).astype(float) if case.loss == "softmax" else np.where(z[:, 0] > 0, 1.0, -1.0)
    if case.one_class:
        order = np.argsort(y, kind="stable")
        A, y = A[order], y[order]
    shares = np.arange(1.0, n + 1)
    if n > 2:
        shares[1] = 0
    cut = np.rint(np.cumsum([0, *shares]) / shares.sum() * ROWS).astype(int)
    parts = [(A[a:b].copy(), y[a:b]) for a, b in zip(cut[:-1], cut[1:], strict=True)]
    if n > 1:
        for k, (features, _) in enumerate(parts):
            features[:, 1 + k % (FEATURES - 2)] = 0
    return parts


def shards_of(case, n):
    """Return the shards as the twins take them."""
    classes = CLASSES if case.loss == "softmax" else None
    return second_order_shards.shards_of(case.loss, parts_of(case, n), case.l2, case.intercept, classes)


class Made(NamedTuple):
    """What both networks need."""

    algorithm: Algorithm
    problems: list[SecondOrder]
    nodes: list[Node]
    x0: np.ndarray


def problems_of(loss, parts, l2, *, intercept=False, as_csr=False):
    """Return the package's problems: the local mean loss of each shard."""
    return [
        make_problem(
            loss, sparse.csr_array(A) if as_csr else A, y,
            classes=CLASSES, l2=l2, scale=1 / max(len(y), 1), intercept=intercept,
        )
        for A, y in parts
    ]  # fmt: skip


def made_of(algorithm, problems, x0):
    """Return what the networks need of problems already made."""
    n, scratch = len(problems), (np.empty(x0.size), np.empty(x0.size))
    nodes = [Node(i, n, SEED, {i: 1.0}, Batches(SEED, i, p.rows, None), scratch) for i, p in enumerate(problems)]
    return Made(algorithm, problems, nodes, x0)


def make(name, n, *, as_csr=False):
    """Return the package's parts of a case."""
    case = CASES[name]
    problems = problems_of(case.loss, parts_of(case, n), case.l2, intercept=case.intercept, as_csr=as_csr)
    return made_of(case.algorithm, problems, start_of(case, n, problems[0].dim))


def start_of(case, n, dim):
    start = np.random.default_rng(1).normal(size=dim) * case.start
    if case.near:
        shards = shards_of(case, n)
        start += newton.run(newton.newton(shards, np.zeros(dim), tolerance=TOLERANCE), 50)[-1].w
    return start


def twin_of(name, n, twin=newton):
    """Return the steps of the twin."""
    case = CASES[name]
    shards = shards_of(case, n)
    return twin.run(case.twin(twin, shards, start_of(case, n, shards[0].holds.size)), case.steps)


class Seen(NamedTuple):
    """After a step: each local node's model, the counts so far, why it ended."""

    w: np.ndarray
    rounds: int
    short: int
    ended: str


def drive(made, network, steps):
    """Run the local nodes until the method ends or ``steps`` are done; return a list of `Seen` and the states."""
    algorithm, local = made.algorithm, network.local
    problems, nodes = [made.problems[i] for i in local], [made.nodes[i] for i in local]
    states = [algorithm.init(problem, made.x0) for problem in problems]
    seen = []
    for _ in range(steps):
        results = network.advance([algorithm.step(*each) for each in zip(states, problems, nodes, strict=True)])
        states = [state for state, _ in results]
        endings = {info.ended for _, info in results}
        if len(endings) > 1:
            raise RuntimeError(f"nodes end differently: {endings}")
        traffic = network.traffic[0]
        models = np.array([algorithm.model(state) for state in states])
        seen.append(Seen(models, traffic.rounds, traffic.short_rounds, endings.pop()))
        if seen[-1].ended:
            break
    return seen, states
