"""Pure compressed gossip from N(0, 1), counted in rounds: the trial behind ``consensus_rate = "auto"``."""

from dataclasses import dataclass, field

import numpy as np

from mpi_opt.compression.base import Compressor
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DivergedError
from mpi_opt.types import Vector

TARGET = 0.01
"""Squared consensus error aimed at, relative to the one at the start."""


def exact_rounds(rates: Vector, gamma: float) -> float:
    """Return the rounds (a real number) that gossip without compression takes to ``TARGET``.

    Parameters
    ----------
    rates : ndarray, shape (n - 1,)
        1 - lambda_k of the modes, all of which start with the same energy.
    gamma : float
        Consensus rate.
    """
    shrink = (1.0 - gamma * rates) ** 2
    low, high = 0.0, 1.0
    while np.mean(shrink**high) > TARGET:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.mean(shrink**middle) > TARGET else (low, middle)
    return high


@dataclass
class Gossip:
    """Trials of one operator on one graph, with slow modes made faster.

    The modes of W that would need many rounds only follow; whether a rate is too large is decided by the fast ones. So
    the rates 1 - lambda_k are raised to ``floor`` where they are smaller, which bounds the rounds of a trial.

    Parameters
    ----------
    w : ndarray, shape (n, n)
        Mixing matrix.
    operator : Compressor
        C.
    dim, seed : int
        Dimension and seed of the trials.
    floor : float
        Smallest rate of a mode.
    most_work : int
        Node-rounds after which trials end at once.

    Attributes
    ----------
    rates : ndarray, shape (n - 1,)
        Rates of the modes as simulated, ascending.
    work : int
        Node-rounds (one compression each) simulated so far.
    """

    w: Vector
    operator: Compressor
    dim: int
    seed: int
    floor: float
    most_work: int
    rates: Vector = field(init=False)
    work: int = field(init=False, default=0)
    _laplacian: Vector = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.w)
        # Rates are at most 2: adding 4 to the constant mode's makes it the last, to be left out.
        rates, modes = np.linalg.eigh(np.eye(n) - self.w + 4.0 / n)
        self.rates = np.maximum(rates[:-1], self.floor)
        self._laplacian = (modes[:, :-1] * self.rates) @ modes[:, :-1].T

    @property
    def nodes(self) -> int:
        """Number of nodes simulated."""
        return len(self.w)

    @property
    def spent(self) -> bool:
        """Whether the work is used up."""
        return self.work >= self.most_work

    def rounds(self, gamma: float, draw: int, limit: int, longer: int = 1) -> int | None:
        """Return the rounds to ``TARGET``, or None if there are more than ``limit`` or the error grows.

        Parameters
        ----------
        gamma : float
            Consensus rate.
        draw : int
            Number of the start; trials with the same number start alike.
        limit : int
            Most rounds.
        longer : int
            When so many times the rounds have passed, the error must be at most twice the target (dense signs hover).
        """
        n = len(self.w)
        x = Key(self.seed, draw, Purpose.GOSSIP, 2).generator().standard_normal((n, self.dim))
        xhat = np.zeros_like(x)
        start, reached, round = _error(x), None, 0
        # Streams of random operators: apart from each other and from those of the run.
        stream = 3 + draw * 1_000_000
        while reached is None or round < longer * reached:
            if (reached is None and round >= limit) or self.spent:
                return None
            for i in range(n):
                try:
                    message = self.operator.compress(x[i] - xhat[i], Key(self.seed, i, Purpose.GOSSIP, stream + round))
                except DivergedError:
                    return None
                message.add_to(xhat[i])
            self.work += n
            x -= gamma * (self._laplacian @ xhat)
            round += 1
            error = _error(x)
            if not error < 10.0 * start:
                return None
            if reached is None and error <= TARGET * start:
                reached = round
        return reached if error <= 2.0 * TARGET * start else None


def _error(x: Vector) -> float:
    """Return the squared consensus error, the sum over nodes of |x_i - mean|^2."""
    away = x - x.mean(axis=0)
    return float(np.vdot(away, away))
