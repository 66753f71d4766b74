"""Figures of merit of a scaling test: medians over repeats, speed-up, efficiency, serial fraction, marks. Pure.

Speed-up is by the rows that all ranks get through in a second, so that it means the same for steps over all rows and
for steps of a mini-batch a node, which are more rows with more ranks. With the time T(p) of one pass over the rows it
is ``S = T(1) / T(p)`` in strong scaling; in weak scaling, where p ranks have p times the rows, ``p T(1) / T(p)``.
"""

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mpi_opt.scaling.points import Plan

NOISE = 0.10
"""Spread over repeats, (largest - least) / median, above which a point counts as noisy."""

OVERSUBSCRIBED, NOISY, ONCE = "oversubscribed", "noisy", "one run"
"""Marks: more ranks (or threads) than cores; repeats apart by more than `NOISE`; a spread that is not known."""

PHASES = ("compute", "compress", "communicate", "wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run showed, its warm-up left out.

    Attributes
    ----------
    ranks, repeat : int
    steps : int
        Steps that were looked at.
    step : float
        Seconds a step by the run clock, which leaves evaluation and writing out; the slowest node's.
    passes : float
        Passes over the training rows in a second.
    shares : tuple of float
        Of ``PHASES``: mean over the nodes of their share of the run clock.
    sent : float
        Bytes, payload and headers, a step and node.
    """

    ranks: int
    repeat: int
    steps: int
    step: float
    passes: float
    shares: tuple[float, float, float, float]
    sent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Merit:
    """The figures of one number of ranks; medians over its runs, ``None`` where nothing is known.

    Attributes
    ----------
    ranks, runs : int
        ``runs``: how many ended well.
    step, least, most : float or None
        Seconds a step, and the range over the runs.
    spread : float or None
        (most - least) / median; of one run ``None``.
    speedup, efficiency : float or None
        Against the fewest ranks that have runs, which count as perfectly efficient.
    serial : float or None
        Serial fraction; see `karp_flatt` and `gustafson`.
    shares : tuple of float or None
        Of ``PHASES``.
    sent : float or None
        Bytes a step and node.
    marks : tuple of str
        Why the point is not to be trusted; empty where there is no reason.
    """

    ranks: int
    runs: int
    step: float | None = None
    least: float | None = None
    most: float | None = None
    spread: float | None = None
    speedup: float | None = None
    efficiency: float | None = None
    serial: float | None = None
    shares: tuple[float, ...] | None = None
    sent: float | None = None
    marks: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the point was measured and nothing speaks against it: only such ones enter fits."""
        return self.step is not None and not self.marks


def karp_flatt(speedup: float, ranks: int) -> float:
    """Return the experimentally determined serial fraction, ``(1/S - 1/p) / (1 - 1/p)`` (Karp, Flatt 1990).

    Growing with p it tells overhead that grows; constant, work that does not divide. Negative where S > p.
    """
    return (1.0 / speedup - 1.0 / ranks) / (1.0 - 1.0 / ranks)


def gustafson(speedup: float, ranks: int) -> float:
    """Return the serial fraction of a problem that grows with the ranks, ``(p - S) / (p - 1)`` (Gustafson 1988)."""
    return (ranks - speedup) / (ranks - 1.0)


def merits(plan: Plan, samples: Sequence[Sample], crowded: Collection[int] = ()) -> tuple[Merit, ...]:
    """Return the figures of every number of ranks of the plan, in its order.

    Parameters
    ----------
    plan : Plan
    samples : sequence of Sample
        Of the runs that ended well.
    crowded : collection of int
        Numbers of ranks that had fewer cores than they would have used.
    """
    by_ranks = {ranks: [sample for sample in samples if sample.ranks == ranks] for ranks in plan.ranks}
    base = next((ranks for ranks in plan.ranks if by_ranks[ranks]), None)
    rates = {
        ranks: statistics.median(sample.passes for sample in found) * (plan.rows_on(ranks) or 1)
        for ranks, found in by_ranks.items()
        if found
    }
    return tuple(
        _merit(plan, ranks, by_ranks[ranks], None if base is None else base * rates[ranks] / rates[base], crowded, base)
        if by_ranks[ranks]
        else Merit(ranks=ranks, runs=0)
        for ranks in plan.ranks
    )


def _merit(
    plan: Plan,
    ranks: int,
    found: Sequence[Sample],
    speedup: float | None,
    crowded: Collection[int],
    base: int | None,
) -> Merit:
    times = [sample.step for sample in found]
    step, least, most = statistics.median(times), min(times), max(times)
    spread = (most - least) / step if len(times) > 1 and step > 0 else None
    marks = [OVERSUBSCRIBED] if ranks in crowded else []
    if len(times) == 1:
        marks.append(ONCE)
    elif spread is not None and spread > NOISE:
        marks.append(NOISY)
    serial = None
    if base == 1 and ranks > 1 and speedup:
        serial = (karp_flatt if plan.mode == "strong" else gustafson)(speedup, ranks)
    return Merit(
        ranks=ranks,
        runs=len(found),
        step=step,
        least=least,
        most=most,
        spread=spread,
        speedup=speedup,
        efficiency=None if speedup is None else speedup / ranks,
        serial=serial,
        shares=tuple(statistics.median(sample.shares[k] for sample in found) for k in range(len(PHASES))),
        sent=statistics.median(sample.sent for sample in found),
        marks=tuple(marks),
    )
