"""Local mean losses with gradients and dense Hessians, for the twins of second-order methods, without mpi_opt.

One shard's function is ``f(w) = mean of the rows' losses + (l2/2) |weights|^2``; an intercept stands last and is not
penalised. Every quantity is written down directly: margins, their derivatives, then products with the feature matrix
(with a column of ones for the intercept). No product is saved and nothing is kept between calls.
"""

import numpy as np


def _logistic(z, y):
    sigma = 1 / (1 + np.exp(-z))
    return np.logaddexp(0, -y * z), sigma - (y > 0), sigma * (1 - sigma)


def _squared(z, y):
    return (z - y) ** 2 / 2, z - y, np.ones(len(z))


def _squared_hinge(z, y):
    gap = 1 - y * z
    inside = gap > 0
    return np.where(inside, gap**2, 0), np.where(inside, -2 * y * gap, 0), 2.0 * inside


def _huber(z, y):
    r = z - y
    near = abs(r) <= 1
    return np.where(near, r**2 / 2, abs(r) - 0.5), np.where(near, r, np.sign(r)), 1.0 * near


MARGIN = {"logistic": _logistic, "squared": _squared, "squared-hinge": _squared_hinge, "huber": _huber}


class Shard:
    """One shard: ``f``, ``g``, ``H`` of a point, ``rows`` N_k, ``holds`` (d,) bool, ``one_label``."""

    def __init__(self, name, A, y, l2, intercept=False, classes=None):
        self.name, self.y, self.classes = name, y, classes
        self.A = np.hstack([A, np.ones((len(y), 1))]) if intercept else A
        self.rows = len(y)
        columns = classes or 1
        penalised = np.ones((self.A.shape[1], columns))
        if intercept:
            penalised[-1] = 0
        self.penalty = l2 * penalised.ravel()
        self.holds = np.repeat((self.A != 0).any(axis=0), columns)
        self.one_label = self.rows > 0 and len(set(y.tolist())) == 1

    def _parts(self, w):
        """Return losses (rows,), first derivatives (rows, C), second derivatives (rows, C, C) by the margins."""
        if self.classes is None:
            loss, first, second = MARGIN[self.name](self.A @ w, self.y)
            return loss, first[:, None], second[:, None, None]
        Z = self.A @ w.reshape(-1, self.classes)
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        hot = np.eye(self.classes)[self.y.astype(int)]
        second = np.einsum("rc,cd->rcd", P, np.eye(self.classes)) - np.einsum("rc,rd->rcd", P, P)
        top = Z.max(axis=1)
        loss = top + np.log(np.exp(Z - top[:, None]).sum(axis=1)) - (Z * hot).sum(axis=1)
        return loss, P - hot, second

    def f(self, w):
        mean = self._parts(w)[0].mean() if self.rows else 0.0
        return mean + (self.penalty * w**2).sum() / 2

    def g(self, w):
        mean = (self.A.T @ self._parts(w)[1] / self.rows).ravel() if self.rows else 0
        return mean + self.penalty * w

    def H(self, w):
        if not self.rows:
            return np.diag(self.penalty)
        mean = np.einsum("ri,rcd,rj->icjd", self.A, self._parts(w)[2], self.A, optimize=True) / self.rows
        return mean.reshape(len(w), len(w)) + np.diag(self.penalty)


def shards_of(name, parts, l2, intercept=False, classes=None):
    """Return one `Shard` for each (features, labels) of ``parts``, features dense."""
    return [Shard(name, A, y, l2, intercept, classes) for A, y in parts]
