"""How fast virtual nodes compute: some are slower for good, some for a step. Drawn from the seed, node by node."""

import numpy as np

from mpi_opt.draws import Key, Purpose
from mpi_opt.types import Vector


class Pace:
    """What the seconds of computing are multiplied by, for each node and step.

    Parameters
    ----------
    nodes : int
        n.
    seed : int, optional
        Seed of the run.
    spread : float, optional
        sigma >= 0: a node's factor for the whole run is ``exp(sigma z)`` with z of a standard normal distribution, so
        that half of the nodes are slower than 1.
    share : float, optional
        Chance that a node is a straggler in a step, 0 to 1; drawn for each node and step.
    factor : float, optional
        What a straggler's seconds are multiplied by, besides.

    Node i's factors are the same whatever the number of nodes.
    """

    def __init__(
        self, nodes: int, seed: int = 0, *, spread: float = 0.0, share: float = 0.0, factor: float = 1.0
    ) -> None:
        self._seed, self._share, self._factor = seed, share, factor
        self.speeds = np.ones(nodes)
        """The factors for the whole run, shape (n,)."""
        if spread:
            self.speeds = np.exp(spread * Key(seed, 0, Purpose.SPEED, 0).generator().standard_normal(nodes))

    def at(self, step: int) -> Vector:
        """Return the factors of ``step``, float64 shape (n,)."""
        if not self._share:
            return self.speeds
        drawn = Key(self._seed, 0, Purpose.STRAGGLER, step).generator().random(self.speeds.size)
        return np.where(drawn < self._share, self._factor * self.speeds, self.speeds)
