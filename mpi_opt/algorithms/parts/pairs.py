"""The memory of L-BFGS: the last few steps and changes of the gradient, and the direction they give."""

from dataclasses import dataclass

import numpy as np

from mpi_opt.types import Vector

TOO_FLAT = 1e-10
"""Least cosine between s and y; a convex function with condition kappa has at least 2 / sqrt(kappa)."""


@dataclass(slots=True)
class Pairs:
    """A ring of pairs (s, y), changed in place; the same on every node that is fed the same vectors.

    Attributes
    ----------
    s, y : ndarray, shape (m, d)
        Steps, and changes of the gradient along them.
    inner : ndarray, shape (m,)
        s.y of each pair, positive.
    added : int
        Pairs taken in so far; the newest is in row ``(added - 1) % m``.
    """

    s: Vector
    y: Vector
    inner: Vector
    added: int = 0

    @classmethod
    def empty(cls, memory: int, dim: int) -> "Pairs":
        """Return room for ``memory`` pairs of vectors of length ``dim``."""
        return cls(np.zeros((memory, dim)), np.zeros((memory, dim)), np.zeros(memory))

    def add(self, s: Vector, y: Vector) -> None:
        """Take in a pair in place of the oldest, unless it shows no curvature (rounding)."""
        inner = float(s @ y)
        if not inner > TOO_FLAT * float(np.linalg.norm(s)) * float(np.linalg.norm(y)):
            return
        row = self.added % self.inner.size
        self.s[row], self.y[row], self.inner[row] = s, y, inner
        self.added += 1

    def direction(self, g: Vector) -> Vector:
        """Return H g, a new vector, by the two-loop recursion; g itself while there is no pair.

        The recursion starts from ``s.y / y.y`` times I, of the newest pair.
        """
        memory = self.inner.size
        rows = [i % memory for i in range(max(self.added - memory, 0), self.added)]
        p, shares = g.copy(), np.empty(memory)
        for row in reversed(rows):
            shares[row] = (self.s[row] @ p) / self.inner[row]
            p -= shares[row] * self.y[row]
        if rows:
            p *= self.inner[rows[-1]] / (self.y[rows[-1]] @ self.y[rows[-1]])
        for row in rows:
            p += (shares[row] - (self.y[row] @ p) / self.inner[row]) * self.s[row]
        return p
