"""What a twin is fed: graphs as matrices, schedules as functions of t, losses on shards. Nothing of mpi_opt is used."""

import numpy as np


def ring(n):
    """Return the edges of the ring of n nodes; the ring of 2 is one edge."""
    return {tuple(sorted((i, (i + 1) % n))) for i in range(n) if n > 1}


def path(n):
    return {(i, i + 1) for i in range(n - 1)}


def star(n):
    return {(0, i) for i in range(1, n)}


def complete(n):
    return {(i, j) for j in range(n) for i in range(j)}


def metropolis(n, edges):
    """Return W with w_ij = 1 / (1 + max(deg_i, deg_j)) on edges, rows summing to 1 by the diagonal."""
    degree = [sum(i in edge for edge in edges) for i in range(n)]
    W = np.zeros((n, n))
    for i, j in edges:
        W[i, j] = W[j, i] = 1 / (1 + max(degree[i], degree[j]))
    return W + np.diag(1 - W.sum(axis=1))


def rows_of(W):
    """Return W as one dict a node, {j: w_ij} over its non-zeros, j ascending, own weight included."""
    return [{j: float(w) for j, w in enumerate(row) if w != 0} for row in W]


def constant(value):
    return lambda t: value


def inverse(a, b):
    """Return the step size eta_t = b / (a + t)."""
    return lambda t: b / (a + t)


def polynomial(c0, eps):
    """Return the threshold c_t = c0 (t + 1)^(1 - eps)."""
    return lambda t: c0 * (t + 1) ** (1 - eps)


def stepwise(start, increase, every, until=None):
    """Return the threshold ``start``, raised by ``increase`` after every ``every`` steps, up to step ``until``."""
    return lambda t: start + increase * ((t if until is None else min(t, until)) // every)


def contiguous(A, y, n):
    """Return shard i = rows N i // n to N (i + 1) // n, as a list of (features, labels)."""
    N = len(y)
    cut = [N * i // n for i in range(n + 1)]
    return [(A[a:b], y[a:b]) for a, b in zip(cut[:-1], cut[1:], strict=True)]


def _logistic(z, y):
    return np.logaddexp(0, -y * z), -y * np.exp(-np.logaddexp(0, y * z))


def _squared(z, y):
    return (z - y) ** 2 / 2, z - y


def _softmax(Z, y):
    """Labels 0 to C - 1; Z and the derivative have shape (rows, C)."""
    classes = y.astype(int)
    each = np.arange(len(classes))
    log_sum = np.logaddexp.reduce(Z, axis=1)
    slope = np.exp(Z - log_sum[:, None])
    slope[each, classes] -= 1
    return log_sum - Z[each, classes], slope


LOSSES = {"logistic": _logistic, "squared": _squared, "softmax": _softmax}


def _at(name, x, A, y, intercept, classes):
    """Return losses of the rows, derivative by z, and x as (features [+ 1], columns)."""
    x = x.reshape(A.shape[1] + intercept, classes or 1)
    Z = A @ x[: A.shape[1]] + (x[-1] if intercept else 0)
    losses, slope = LOSSES[name](Z if classes else Z[:, 0], y)
    return losses, slope.reshape(Z.shape), x


def gradients(name, shards, l2, intercept=False, classes=None):
    """Return grad(i, x, rows) of f_i = (n/N) sum of losses on i + (l2/2) |weights|^2; rows = None is the whole shard.

    A batch B stands for the shard: its sum counts N_i / |B| times. The intercept, last, is not penalised.
    """
    n, N = len(shards), sum(len(y) for _, y in shards)

    def grad(i, x, rows=None):
        A, y = shards[i]
        held = len(y)
        if rows is not None:
            A, y = A[rows], y[rows]
        _, slope, weights = _at(name, x, A, y, intercept, classes)
        g = l2 * weights
        if intercept:
            g[-1] = 0
        if len(y):
            scale = n / N * held / len(y)
            g[: A.shape[1]] += scale * (A.T @ slope)
            if intercept:
                g[-1] += scale * slope.sum(axis=0)
        return g.ravel()

    return grad


def objective(name, shards, l2, intercept=False, classes=None):
    """Return F(x) = mean loss over all rows + (l2/2) |weights|^2."""
    N = sum(len(y) for _, y in shards)

    def F(x):
        total = sum(_at(name, x, A, y, intercept, classes)[0].sum() for A, y in shards)
        width = shards[0][0].shape[1] * (classes or 1)
        return total / N + l2 / 2 * (x[:width] @ x[:width])

    return F
