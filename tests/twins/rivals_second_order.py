"""Newton-CG with trust region, L-BFGS and consensus ADMM, each on the WHOLE data in one process.

The first two do not know nodes at all: the distributed methods are exact, so every split must follow them. ADMM is
written for all nodes at once, X and U of shape (n, d). ``Objective`` gives value, gradient and Hessian of
F(x) = mean loss + (l2 / 2) |x|^2 over some rows; the Hessian is formed, never multiplied by pieces.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Objective:
    """``loss`` is "logistic" (labels -1, +1) or "softmax" (labels 0 to classes - 1, x is (features, classes))."""

    A: np.ndarray
    y: np.ndarray
    l2: float
    classes: int = 0

    @property
    def dim(self):
        return self.A.shape[1] * (self.classes or 1)

    def f(self, x):
        return self._losses(x) + self.l2 / 2 * x @ x

    def _losses(self, x):
        if not len(self.y):
            return 0.0
        if not self.classes:
            return np.logaddexp(0, -self.y * (self.A @ x)).mean()
        Z = self.A @ x.reshape(-1, self.classes)
        return (np.logaddexp.reduce(Z, axis=1) - Z[np.arange(len(self.y)), self.y.astype(int)]).mean()

    def _probabilities(self, x):
        Z = self.A @ x.reshape(-1, self.classes)
        return np.exp(Z - np.logaddexp.reduce(Z, axis=1)[:, None])

    def g(self, x):
        if not len(self.y):
            return self.l2 * x
        if not self.classes:
            slope = -self.y * np.exp(-np.logaddexp(0, self.y * (self.A @ x)))
            return self.A.T @ slope / len(self.y) + self.l2 * x
        slope = self._probabilities(x) - np.eye(self.classes)[self.y.astype(int)]
        return (self.A.T @ slope / len(self.y)).ravel() + self.l2 * x

    def H(self, x):
        eye = np.eye(self.dim)
        if not len(self.y):
            return self.l2 * eye
        if not self.classes:
            s = np.exp(-np.logaddexp(0, -self.A @ x))
            return self.A.T @ ((s * (1 - s))[:, None] * self.A) / len(self.y) + self.l2 * eye
        P = self._probabilities(x)
        W = np.einsum("jc,ce->jce", P, np.eye(self.classes)) - P[:, :, None] * P[:, None, :]
        return np.einsum("jp,jce,jq->pcqe", self.A, W, self.A).reshape(eye.shape) / len(self.y) + self.l2 * eye


def trust_region(F, x0, *, steps, forcing, precondition="diagonal"):
    """TRON. Return the trial points, row t that after iteration t, and how many were rejected."""
    x, radius, trials, rejected = np.array(x0, dtype=float), np.inf, [], 0
    f, g, H = F.f(x), F.g(x), F.H(x)
    for _ in range(steps):
        M = _preconditioner(H, F.classes, precondition)
        s, at_edge = _steihaug(H, g, M, radius, forcing)
        trials.append(x + s)
        predicted = -(g @ s + s @ H @ s / 2)
        change = F.f(x + s) - f
        length = np.sqrt(s @ M @ s)
        if radius == np.inf:
            radius = length
        bend = change - g @ s
        alpha = 4.0 if bend <= 0 else max(0.25, -(g @ s) / (2 * bend))
        ratio = -change / predicted
        if ratio <= 1e-4:
            radius = min(alpha * length, radius / 2)
        elif ratio < 0.25:
            radius = max(radius / 4, min(alpha * length, radius / 2))
        elif ratio < 0.75:
            radius = max(radius / 4, min(alpha * length, 4 * radius))
        elif at_edge:
            radius = 4 * radius
        else:
            radius = max(radius, min(alpha * length, 4 * radius))
        if ratio > 1e-4:
            x = x + s
            f, g, H = F.f(x), F.g(x), F.H(x)
        else:
            rejected += 1
    return np.array(trials), rejected


def _preconditioner(H, classes, name):
    if name == "identity":
        return np.eye(len(H))
    if name == "diagonal" or not classes:
        return np.diag(np.diag(H))
    shared = sum(H[c::classes, c::classes] for c in range(classes)) / classes
    return np.kron(shared, np.eye(classes))


def _steihaug(H, g, M, radius, forcing):
    """Conjugate gradients in the variables of M^(1/2), cut off at the sphere."""
    back = np.linalg.inv(np.linalg.cholesky(M)).T
    B, b = back.T @ H @ back, back.T @ g
    s, r = np.zeros_like(b), -b
    d = r
    for _ in range(max(len(b), 5)):
        if np.linalg.norm(r) <= forcing * np.linalg.norm(b):
            break
        a = (r @ r) / (d @ B @ d)
        if np.linalg.norm(s + a * d) > radius:
            # |s + tau d| = radius, the positive root
            quadratic = [d @ d, 2 * s @ d, s @ s - radius**2]
            return back @ (s + np.roots(quadratic).real.max() * d), True
        s, before = s + a * d, r @ r
        r = r - a * (B @ d)
        d = r + (r @ r) / before * d
    return back @ s, False


def lbfgs(F, x0, *, steps, memory, beta=0.1, ratio=0.25, count=10):
    """Return the points, row t that after evaluation t; the inverse Hessian is formed as a matrix, pair by pair.

    A full step is tried first; it counts as an evaluation of its own where it fails.
    """
    x, pairs, points = np.array(x0, dtype=float), [], []
    eye = np.eye(len(x))

    def lowest(p, lengths):
        f, slope = F.f(x), p @ F.g(x)
        values = [(F.f(x - a * p), a) for a in lengths if F.f(x - a * p) <= f - beta * a * slope]
        return min(values)[1]

    while len(points) < steps:
        B = eye
        if pairs:
            s, y = pairs[-1]
            B = (s @ y) / (y @ y) * eye
        for s, y in pairs:
            V = eye - np.outer(y, s) / (s @ y)
            B = V.T @ B @ V + np.outer(s, s) / (s @ y)
        p = B @ F.g(x)
        if not pairs:
            a = lowest(p, [4.0**i for i in range(12, -13, -1)])
        elif F.f(x - p) <= F.f(x) - beta * p @ F.g(x):
            a = 1.0
        else:
            points.append(x - p)
            a = lowest(p, [ratio**i for i in range(1, count)])
        new = x - a * p
        points.append(new)
        pairs = [*pairs, (new - x, F.g(new) - F.g(x))][-memory:]
        x = new
    return np.array(points[:steps])


def admm(parts, x0, *, steps, pull, balance=np.inf, factor=2.0):
    """Consensus ADMM on a list of `Objective`. Return z (steps, d) and rho (steps,), both after each iteration.

    The proximal points are computed to rounding by undamped Newton steps from z, halved while the value rises.
    """
    share = np.array([len(part.y) for part in parts], dtype=float)
    share /= share.sum()
    z = np.array(x0, dtype=float)
    X, U = np.tile(z, (len(parts), 1)), np.zeros((len(parts), len(z)))
    rho = pull * sum(w * np.trace(part.H(z)) / len(z) for w, part in zip(share, parts, strict=True))
    all_z, all_rho = [], []
    for _ in range(steps):
        X = np.array([_proximal(part, z, z - u, rho) for part, u in zip(parts, U, strict=True)])
        before, z = z, share @ (X + U)
        size = np.sqrt(share @ (U**2).sum(axis=1))
        U = U + X - z
        change = 1.0
        if size > 1e-12 * np.linalg.norm(z):
            primal = np.sqrt(share @ ((X - z) ** 2).sum(axis=1)) / np.linalg.norm(z)
            dual = np.linalg.norm(z - before) / size
            change = factor if primal > balance * dual else 1 / factor if dual > balance * primal else 1.0
        rho *= change
        U /= change
        all_z.append(z)
        all_rho.append(rho)
    return np.array(all_z), np.array(all_rho)


def _proximal(part, x, v, rho):
    def value(x):
        return part.f(x) + rho / 2 * (x - v) @ (x - v)

    for _ in range(60):
        g = part.g(x) + rho * (x - v)
        p = np.linalg.solve(part.H(x) + rho * np.eye(len(x)), g)
        if np.linalg.norm(p) <= 1e-14 * (1 + np.linalg.norm(x)):
            break
        a = 1.0
        while value(x - a * p) > value(x) + 1e-14 and a > 1e-6:
            a /= 2
        x = x - a * p
    return x
