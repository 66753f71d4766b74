"""Allreduce SGD and local SGD node by node, adding in the order the package promises: the same bits for long.

The order: sums over nodes begin with node 0 and go up, and are divided once; with momentum ``v = beta v + g`` and
``x - eta (g + beta v)``. Arguments are those of the twins in `sgd_matrix`.
"""

import numpy as np


def _mean(vectors):
    total = vectors[0].copy()
    for vector in vectors[1:]:
        total = total + vector
    return total / len(vectors)


def allreduce_sgd(grad, n, x0, *, steps, step_size, rows, momentum=0.0):
    """Return the iterates, (steps + 1, d)."""
    x, v = [np.array(x0, dtype=float)], np.zeros(len(x0))
    for t in range(steps):
        g = _mean([grad(i, x[-1], rows(i, t)) for i in range(n)])
        if momentum:
            v = momentum * v + g
            g = g + momentum * v
        x.append(x[-1] - step_size(t) * g)
    return np.array(x)


def local_sgd(grad, X0, *, steps, step_size, sync_every, rows, momentum=0.0):
    """Return the iterates, (steps + 1, n, d)."""
    n = len(X0)
    x = [np.array(start, dtype=float) for start in X0]
    v, X = [np.zeros_like(start) for start in x], [np.array(x)]
    for t in range(steps):
        for i in range(n):
            g = grad(i, x[i], rows(i, t))
            if momentum:
                v[i] = momentum * v[i] + g
                g = g + momentum * v[i]
            x[i] = x[i] - step_size(t) * g
        if (t + 1) % sync_every == 0:
            x = [_mean(x)] * n
        X.append(np.array(x))
    return np.array(X)
