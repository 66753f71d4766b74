"""The methods in matrix form, written from the papers alone: no other module of the package is used here.

All nodes are one array, row i of ``X`` is node i's model; there are no messages, no running sums and no codecs. What
the package computes must agree to rounding. Rows are those of logistic regression, labels -1 and +1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Rows = tuple[Matrix, Matrix]
"""Features (rows, d) and labels (rows,) of one node."""


class Course(NamedTuple):
    """Models (steps + 1, n, d), and who spoke at each synchronisation (syncs, n)."""

    models: Matrix
    fired: npt.NDArray[np.bool_]


def metropolis(n: int, edges: Sequence[tuple[int, int]]) -> Matrix:
    """Return W with w_ij = 1 / (1 + max(deg_i, deg_j)) on edges, and what is left to 1 on the diagonal."""
    W = np.zeros((n, n))
    degree = np.bincount(np.array(edges, dtype=int).ravel(), minlength=n)
    for i, j in edges:
        W[i, j] = W[j, i] = 1.0 / (1 + max(degree[i], degree[j]))
    W[np.diag_indices(n)] = 1.0 - W.sum(axis=1)
    return W


def ring(n: int) -> list[tuple[int, int]]:
    """Return the edges of a ring as pairs, each once; two nodes share a single edge."""
    return sorted({(min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n) if n > 1})


def value(rows: Rows, w: Matrix, l2: float) -> float:
    """Return mean log(1 + exp(-y z)) + (l2 / 2) |w|^2."""
    A, y = rows
    return float(np.logaddexp(0.0, -y * (A @ w)).mean() + 0.5 * l2 * w @ w)


def gradient(rows: Rows, w: Matrix, l2: float) -> Matrix:
    """Return the gradient of `value`."""
    A, y = rows
    found: Matrix = -(A * (y / (1 + np.exp(y * (A @ w))))[:, None]).mean(axis=0) + l2 * w
    return found


def hessian(rows: Rows, w: Matrix, l2: float) -> Matrix:
    """Return the Hessian of `value`."""
    A, _ = rows
    p = 1 / (1 + np.exp(-(A @ w)))
    found: Matrix = (A.T * (p * (1 - p))) @ A / len(A) + l2 * np.eye(A.shape[1])
    return found


def sampled(rows: Rows, node: int, step: int, batch: int, seed: int) -> Rows:
    """Return a node's mini-batch: consecutive slices of a fresh permutation each epoch, the short last one kept.

    The permutation of an epoch is that of PCG64 seeded with (seed, (1, node, epoch)).
    """
    A, y = rows
    epoch, part = divmod(step, -(-len(y) // batch))
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(1, node, epoch))))
    chosen = draws.permutation(len(y))[part * batch : (part + 1) * batch]
    return A[chosen], y[chosen]


def sign_top_k(v: Matrix, k: int) -> Matrix:
    """Return the signs of the k largest |v|, times their mean |v| in single precision."""
    kept = np.lexsort((np.arange(v.size), -np.abs(v)))[:k]
    q = np.zeros_like(v)
    q[kept] = np.sign(v[kept]) * float(np.float32(np.abs(v[kept]).mean()))
    return q


def sparq_sgd(
    nodes: Sequence[Rows],
    W: Matrix,
    *,
    steps: int,
    step_size: float,
    sync_every: int,
    threshold: float,
    k: int,
    consensus_rate: float,
    batch: int,
    l2: float,
    seed: int,
) -> Course:
    """Return the course of SPARQ-SGD from zero: arXiv 1910.14280, Algorithm 1, for f_i = (n/N) sum loss + penalty."""
    n, d, total = len(nodes), nodes[0][0].shape[1], sum(len(y) for _, y in nodes)
    X, estimates = np.zeros((n, d)), np.zeros((n, d))
    models, spoken = [X.copy()], []
    for t in range(steps):
        for i, rows in enumerate(nodes):
            share = n * len(rows[1]) / total
            part = sampled(rows, i, t, batch, seed)
            X[i] -= step_size * (share * gradient(part, X[i], 0.0) + l2 * X[i])
        if (t + 1) % sync_every == 0:
            drift = ((X - estimates) ** 2).sum(axis=1)
            fired = drift > threshold * step_size**2
            for i in np.flatnonzero(fired).tolist():
                estimates[i] += sign_top_k(X[i] - estimates[i], k)
            X += consensus_rate * (W @ estimates - estimates)
            spoken.append(fired)
        models.append(X.copy())
    return Course(np.array(models), np.array(spoken))


def newton(nodes: Sequence[Rows], *, steps: int, l2: float) -> Matrix:
    """Return (steps + 1, d) points of Newton's method on all rows together, full steps from zero."""
    everything = np.concatenate([A for A, _ in nodes]), np.concatenate([y for _, y in nodes])
    w = np.zeros(everything[0].shape[1])
    points = [w]
    for _ in range(steps):
        w = w - np.linalg.solve(hessian(everything, w, l2), gradient(everything, w, l2))
        points.append(w)
    return np.array(points)


def local_newton(nodes: Sequence[Rows], *, rounds: int, local_steps: int, l2: float) -> Matrix:
    """Return (rounds + 1, d) averages of LocalNewton from zero: arXiv 2105.07320, Algorithm 1, weights N_k / N.

    The paper leaves the candidates of the line search open: 1, 1/4, 1/16, ... with Armijo's constant 0.1.
    """
    shares = np.array([len(y) for _, y in nodes], dtype=float)
    shares /= shares.sum()
    w = np.zeros(nodes[0][0].shape[1])
    points = [w]
    for _ in range(rounds):
        ends = []
        for rows in nodes:
            at = w
            for _ in range(local_steps):
                g = gradient(rows, at, l2)
                p = np.linalg.solve(hessian(rows, at, l2), g)
                here, length = value(rows, at, l2), 1.0
                while value(rows, at - length * p, l2) > here - 0.1 * length * (p @ g) + 1e-12 * abs(here):
                    length /= 4
                at = at - length * p
            ends.append(at)
        w = shares @ np.array(ends)
        points.append(w)
    return np.array(points)
