"""The search for a consensus rate that is fast and keeps its distance from those that diverge.

T(gamma), the rounds to a 100-fold smaller error, falls as 1/gamma until compression cannot follow, and rises steeply
there. Rates a little above the fastest diverge, some only after thousands of rounds, which no short trial shows. So the
rate chosen is the smallest whose T is within ``SLACK`` of the least: speed given up is distance kept.
"""

import math
from typing import NamedTuple

from mpi_opt.topology.gossip import Gossip, exact_rounds
from mpi_opt.types import Vector

SLACK = 1.6
"""Rounds given up for stability, relative to the fastest rate."""

LADDER = 1.33
"""Ratio of the rates tried one after another."""

STEP = 1.1
"""Ratio by which a rate is raised that other starts do not bear out."""

LEEWAY = 1.15
"""How far above what the first start took the rounds from other starts may lie."""

STARTS = 20
"""Most starts from which the rate chosen is checked, and ``CHECK_WORK`` the compressions this may take."""

CHECK_WORK = 6000

LONGER = (4, 10)
"""At least and at most so many times its rounds a rate one rung above the chosen one must keep the error down."""

LONGER_WORK = 20_000
"""Compressions for that, where the least is not more."""

LEAST_RATE = 1e-5
"""Trials end here."""

MOST_ROUNDS = 2000
"""Rounds of one trial."""

SLOW_START = 1000
"""The first rate is multiplied by ``RAISED`` where even exact gossip takes more rounds than this."""

RAISED = 2.0

MOST_WORK = 100_000
"""Compressions in all, each of a vector of length 1000 at most: two to four seconds of one core."""

LADDER_WORK = 60_000
"""Compressions after which only the checks of the rate found go on."""


class Found(NamedTuple):
    """A rate, its T, the fastest rate, and whether any trial reached the target (else the rate is a guess)."""

    gamma: float
    rounds: float
    fastest: float
    reached: bool


class Search:
    """Trials of rates on one ``Gossip``, remembered.

    Parameters
    ----------
    gossip : Gossip
        What is simulated.
    rates : ndarray, shape (n - 1,)
        1 - lambda_k of the real graph. Where the simulated modes are faster, the rounds that compression costs are
        measured, and added to those of exact gossip on the real graph.
    """

    def __init__(self, gossip: Gossip, rates: Vector) -> None:
        self._gossip = gossip
        self._rates = rates
        self._seen: dict[float, tuple[float, float]] = {}

    def run(self, start: float) -> Found:
        """Return the rate chosen; ``start``, in (0, 1], is the first one tried, or twice that where it is slow."""
        if exact_rounds(self._gossip.rates, start) > SLOW_START:
            # A trial would end before its target, and a ladder without any that got there leads nowhere.
            start = min(1.0, RAISED * start)
        fastest, least = self._fastest(start)
        if math.isinf(least):
            return Found(start / 4.0, exact_rounds(self._rates, start / 4.0), start, False)
        gamma = self._smallest(fastest, least, SLACK * least)
        return Found(*self._checked(gamma, fastest, SLACK * least), fastest, True)

    def _rounds(self, gamma: float, bound: float, draw: int = 0, longer: int = 1) -> float:
        """Return T(gamma) from one start; infinite where it is above ``bound``."""
        rest = exact_rounds(self._rates, gamma) - exact_rounds(self._gossip.rates, gamma)
        limit = int(min(bound - rest, MOST_ROUNDS))
        taken = self._gossip.rounds(gamma, draw, limit, longer) if limit > 0 else None
        return math.inf if taken is None else taken + rest

    def _first(self, gamma: float, bound: float) -> float:
        """Return T(gamma) of the first start, remembered; infinite above ``bound``, or once no work is left."""
        taken, tried = self._seen.get(gamma, (math.inf, 0.0))
        if math.isinf(taken) and tried < bound and self._gossip.work < LADDER_WORK:
            taken = self._rounds(gamma, bound)
            self._seen[gamma] = taken, bound
        return taken

    def _fastest(self, start: float) -> tuple[float, float]:
        """Return the rate of least T, and T, on a ladder up from ``start``, and down from it where that is faster."""
        best, least, misses, gamma = start, math.inf, 0, start
        while misses < 2:
            taken = self._first(gamma, 1.5 * least)
            misses = misses + 1 if taken > 1.5 * least or math.isinf(taken) else 0
            # Of equals the last: the rate chosen may then lie anywhere below it.
            if taken <= least and not math.isinf(taken):
                best, least = gamma, taken
            if gamma == 1.0:
                break
            gamma = min(1.0, LADDER * gamma)
        gamma = start
        while best == gamma and gamma > LEAST_RATE:
            gamma /= LADDER
            taken = self._first(gamma, least)
            if taken < least or math.isinf(least):
                best, least = gamma, taken
        for gamma in (best / math.sqrt(LADDER), min(1.0, best * math.sqrt(LADDER))):
            taken = self._first(gamma, least)
            if taken < least:
                best, least = gamma, taken
        return best, least

    def _smallest(self, fastest: float, least: float, target: float) -> float:
        """Return the smallest rate below ``fastest`` whose T is up to ``target``, by interpolation."""
        low, slow = fastest, least
        while slow <= target:
            high, quick = low, slow
            low = high / LADDER
            slow = self._first(low, 2.0 * target)
        if math.isinf(slow):
            slow = max(LADDER * quick, 1.01 * target)
        part = math.log(target / quick) / math.log(slow / quick)
        return high * math.exp(-part * math.log(LADDER))

    def _checked(self, gamma: float, fastest: float, target: float) -> tuple[float, float]:
        """Return ``gamma``, or the next rate that all starts bear out and that keeps the error down, and its T."""
        # Where T is no smooth function (dense signs settle at once or not at all) an edge may be near: the rate below
        # must still do.
        bound = LEEWAY * STEP * target
        while gamma < fastest and self._worst(gamma / STEP, bound) > bound and not self._gossip.spent:
            gamma *= STEP
        gamma = min(gamma, fastest)
        longer = min(max(int(LONGER_WORK / (target * self._gossip.nodes)), LONGER[0]), LONGER[1])
        while not self._gossip.spent and gamma > LEAST_RATE:
            if not math.isinf(self._rounds(min(1.0, LADDER * gamma), 2.0 * bound, longer=longer)):
                break
            gamma /= STEP
        taken = self._first(gamma, 2.0 * bound)
        return gamma, exact_rounds(self._rates, gamma) if math.isinf(taken) else taken

    def _worst(self, gamma: float, bound: float) -> float:
        """Return the largest T(gamma) of several starts, fewer where they are long; infinite above ``bound``."""
        worst = 0.0
        for draw in range(STARTS):
            worst = max(worst, self._rounds(gamma, bound, draw))
            if math.isinf(worst) or (draw + 2) * worst * self._gossip.nodes > CHECK_WORK:
                break
        return worst
