"""SGD steps a second in lockstep, against the usual way to simulate CHOCO-SGD: n x d matrices in plain NumPy.

Both take the same steps: 9 nodes on a ring, d = 2,000, logistic, batch 8, top-k 1 %, gossip at every step.
"""

import numpy as np
from twins import setting

from mpi_opt.algorithms.base import Node
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Batches
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic
from mpi_opt.schedules import Constant

NODES, DIM, ROWS, BATCH, KEPT, STEPS = 9, 2000, 200, 8, 20, 200
RNG = np.random.default_rng(0)
A = RNG.normal(size=(NODES, ROWS, DIM)) / np.sqrt(DIM)
Y = np.where(A @ RNG.normal(size=DIM) > 0, 1.0, -1.0)
W = setting.metropolis(NODES, setting.ring(NODES))


def matrix_form(steps):
    rng = np.random.default_rng(1)
    X, X_hat = np.zeros((NODES, DIM)), np.zeros((NODES, DIM))
    for _ in range(steps):
        G = np.empty((NODES, DIM))
        for i in range(NODES):
            rows = rng.integers(ROWS, size=BATCH)
            z = A[i, rows] @ X[i]
            G[i] = A[i, rows].T @ (-Y[i, rows] / (1 + np.exp(Y[i, rows] * z))) / BATCH + 1e-4 * X[i]
        X -= 0.1 * G
        D = X - X_hat
        Q = np.zeros_like(D)
        for i in range(NODES):
            kept = np.argpartition(np.abs(D[i]), -KEPT)[-KEPT:]
            Q[i, kept] = D[i, kept]
        X_hat += Q
        X += 0.05 * (W @ X_hat - X_hat)
    return X


def lockstep(steps):
    problems = [LinearProblem(A[i], Y[i], Logistic(), l2=1e-4, scale=1 / ROWS) for i in range(NODES)]
    algorithm = SparqSGD(
        step_size=Constant(0.1), trigger=Trigger(Constant(0.0)), compressor=TopK(KEPT), consensus_rate=0.05, batch=BATCH
    )
    scratch = (np.empty(DIM), np.empty(DIM))
    rows = setting.rows_of(W)
    nodes = [Node(i, NODES, 0, rows[i], Batches(0, i, ROWS, BATCH), scratch) for i in range(NODES)]
    around = [tuple(j for j in rows[i] if j != i) for i in range(NODES)]
    network = Lockstep(around, algorithm.compressor.codec(DIM, 0))
    states = [algorithm.init(problem, np.zeros(DIM)) for problem in problems]
    for _ in range(steps):
        results = network.advance([algorithm.step(*each) for each in zip(states, problems, nodes, strict=True)])
        states = [state for state, _ in results]
    return np.array([state.x for state in states])


def test_matrix_form(benchmark):
    benchmark.extra_info["steps"] = STEPS
    benchmark(matrix_form, STEPS)


def test_lockstep_with_real_messages(benchmark):
    benchmark.extra_info["steps"] = STEPS
    benchmark(lockstep, STEPS)
