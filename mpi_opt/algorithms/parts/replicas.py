"""Check mode: the copies of the neighbours' estimates that the running sum folds away, kept to be compared."""

from dataclasses import dataclass

import numpy as np

from mpi_opt.requests import Inbox
from mpi_opt.types import Vector


@dataclass(slots=True)
class Replicas:
    """What this node believes each neighbour's xhat_j to be.

    Attributes
    ----------
    estimates : dict of int to ndarray, each shape (d,)
        By sender; a neighbour that never spoke is absent, its estimate is ``start``.
    start : ndarray, shape (d,), or None
        What all nodes' estimates start at; ``None`` is zero.
    """

    estimates: dict[int, Vector]
    start: Vector | None = None

    def absorb(self, inbox: Inbox) -> None:
        """Apply one round's messages, exactly as their senders did to their own estimate."""
        for j, q in inbox:
            if j not in self.estimates:
                self.estimates[j] = np.zeros(q.dim) if self.start is None else self.start.copy()
            q.add_to(self.estimates[j])
