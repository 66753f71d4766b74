"""The rivals, each in the matrix form of its own paper: none goes through the SPARQ twin.

All take ``grad(i, x, rows)``, ``X0`` (n, d), ``step_size(t)`` and ``rows(node, t)``, and return the iterates
(steps + 1, n, d), row t those before step t.
"""

import numpy as np


def _whole(node, t):
    return None


def _gradients(grad, X, rows, t):
    return np.array([grad(i, x, rows(i, t)) for i, x in enumerate(X)])


def d_psgd(grad, W, X0, *, steps, step_size, rows=_whole):
    """D-PSGD, combined after adapting: X = W (X - eta G) (Lian et al. 2017, arXiv 1705.09056)."""
    X = [np.array(X0, dtype=float)]
    for t in range(steps):
        X.append(W @ (X[-1] - step_size(t) * _gradients(grad, X[-1], rows, t)))
    return np.array(X)


def choco_sgd(grad, W, X0, *, steps, step_size, compress, consensus_rate, rows=_whole):
    """CHOCO-SGD (Koloskova et al. 2019, arXiv 1902.00340, Algorithm 2), xhat starting at 0.

    X = X - eta G;  Xhat = Xhat + C(X - Xhat);  X = X + gamma (W - I) Xhat.
    """
    n = len(X0)
    X, Xhat = [np.array(X0, dtype=float)], np.zeros_like(X0, dtype=float)
    for t in range(steps):
        half = X[-1] - step_size(t) * _gradients(grad, X[-1], rows, t)
        Xhat = Xhat + np.array([compress(half[i] - Xhat[i], i, t) for i in range(n)])
        X.append(half + consensus_rate * (W - np.eye(n)) @ Xhat)
    return np.array(X)


def allreduce_sgd(grad, n, x0, *, steps, step_size, rows=_whole, momentum=0.0):
    """Synchronous SGD: one model, g = (1/n) sum_i g_i and x = x - eta g. One vector x0 in; (steps + 1, d) out.

    With Nesterov momentum of the mean gradient: v = beta v + g;  x = x - eta (g + beta v).
    """
    x, v = [np.array(x0, dtype=float)], np.zeros_like(x0, dtype=float)
    for t in range(steps):
        g = sum(grad(i, x[-1], rows(i, t)) for i in range(n)) / n
        v = momentum * v + g
        x.append(x[-1] - step_size(t) * (g + momentum * v))
    return np.array(x)


def local_sgd(grad, X0, *, steps, step_size, sync_every, rows=_whole, momentum=0.0):
    """Local SGD (Stich 2019, arXiv 1805.09767): every node for itself, all set to the mean when (t + 1) % H == 0.

    Momentum, of the form above, is each node's own and never averaged.
    """
    X, V = [np.array(X0, dtype=float)], np.zeros_like(X0, dtype=float)
    for t in range(steps):
        G = _gradients(grad, X[-1], rows, t)
        V = momentum * V + G
        new = X[-1] - step_size(t) * (G + momentum * V)
        if (t + 1) % sync_every == 0:
            new = np.tile(new.mean(axis=0), (len(new), 1))
        X.append(new)
    return np.array(X)
