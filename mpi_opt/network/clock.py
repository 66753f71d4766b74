"""A virtual clock of n nodes: what their computing and their messages would take on a modelled network.

Event by event: a node computes, hands its message over, and goes on when what it needs is there. Nothing is measured
or sent here; `network.lockstep` tells the clock what its virtual nodes do, and models are the same bits without it.

A neighbour exchange in which node j hands ``m_j`` bytes to each of its ``d_j`` neighbours at its own time ``t_j``:

- the copies leave through j's one link together, and are out at ``t_j + d_j m_j / bandwidth``;
- the first byte is at a neighbour at ``t_j + latency``, the last one ``latency`` after it is out;
- a node receives through one link as well: first come, first served, each message ``m_j / bandwidth``;
- the node goes on when its own copies are out and all neighbours' messages are in; each message but the first costs
  it ``overhead`` of its processor.

Silence is a message of no bytes, which still takes the latency. Messages of different rounds do not queue behind each
other at a receiver (a neighbour can be one round ahead). Where all nodes are at the same time and hand over as much,
an exchange takes `scaling.cost.exchange_seconds`. A reduction begins when the last node has come, and all go on
`scaling.cost.reduction_seconds` later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpi_opt.network.pace import Pace
from mpi_opt.scaling.cost import NetworkProfile, reduction_seconds
from mpi_opt.types import Vector

Meter = Callable[[], tuple[Vector, Vector]]
"""Returns seconds of computing and compressing of each node since the start of the run, at pace 1."""


@dataclass(slots=True)
class Times:
    """What the clock knows of one node: seconds since the start of the run.

    Attributes
    ----------
    now : float
        The node's own time; the sum of the next four, but for rounding.
    compute, compress : float
        Computing and compressing, at the node's own pace.
    communicate : float
        In messages: of what the node was held up, at most what they take where all neighbours begin together.
    wait : float
        The rest: for nodes that were late.
    arrival, alone : float or None
        Of the exchange in flight: when all of it is there, and its seconds where all neighbours begin together.
    """

    now: float = 0.0
    compute: float = 0.0
    compress: float = 0.0
    communicate: float = 0.0
    wait: float = 0.0
    arrival: float | None = None
    alone: float | None = None


class Clock:
    """The nodes' times.

    Parameters
    ----------
    neighbours : sequence of tuple of int
        Neighbours of each node; its length is the number of nodes.
    profile : NetworkProfile
        The network between any two of them.
    pace : Pace, optional
        How fast each computes; by default all alike.
    meter : callable, optional
        Says what was computed, for `computed`.
    step_seconds : float, optional
        Seconds of computing that every step takes, besides what the meter says.
    """

    def __init__(
        self,
        neighbours: Sequence[tuple[int, ...]],
        profile: NetworkProfile,
        *,
        pace: Pace | None = None,
        meter: Meter | None = None,
        step_seconds: float = 0.0,
    ) -> None:
        n = len(neighbours)
        self.profile = profile
        self.now = np.zeros(n)
        self.compute, self.compress = np.zeros(n), np.zeros(n)
        self.communicate, self.wait = np.zeros(n), np.zeros(n)
        self._pace = Pace(n) if pace is None else pace
        self._factors = self._pace.at(0)
        self._meter, self._step_seconds = meter, step_seconds
        self._metered = (np.zeros(n), np.zeros(n)) if meter is None else meter()
        # One entry for each message of a round, by receiver.
        self._degrees = np.array([len(around) for around in neighbours], dtype=np.float64)
        self._senders = np.array([j for around in neighbours for j in around], dtype=np.intp)
        self._receivers = np.repeat(np.arange(n), self._degrees.astype(np.intp))
        self._reached = np.flatnonzero(self._degrees)
        self._starts = np.searchsorted(self._receivers, self._reached)
        self._overheads = np.maximum(self._degrees - 1.0, 0.0) * profile.overhead
        self._flight: tuple[Vector, Vector] | None = None

    @property
    def latest(self) -> float:
        """Time of the node that is last."""
        return float(self.now.max())

    # --- computing ---

    def begin(self, step: int) -> None:
        """Begin a step: who is a straggler in it follows from its number."""
        self._factors = self._pace.at(step)
        if self._step_seconds:
            self.spend(self._step_seconds)

    def computed(self) -> None:
        """Move every node on by what it has computed since the last call, by the meter and at its own pace."""
        if self._meter is None:
            return
        total = self._meter()
        before, self._metered = self._metered, total
        self.spend(total[0] - before[0], total[1] - before[1])

    def spend(self, compute: Vector | float, compress: Vector | float = 0.0) -> None:
        """Move every node on by seconds of computing and compressing, at its own pace."""
        computing, compressing = compute * self._factors, compress * self._factors
        self.compute += computing
        self.compress += compressing
        self.now += computing + compressing

    # --- messages ---

    def exchange(self, nbytes: Vector) -> None:
        """Let every node hand its message to each of its neighbours, and wait for theirs.

        Parameters
        ----------
        nbytes : ndarray of float64, shape (n,)
            Size of each node's message; 0 for silence.
        """
        self.post(nbytes)
        self.collect()

    def post(self, nbytes: Vector) -> None:
        """Let every node hand its message over, as in `exchange`, and go on."""
        link = nbytes / self.profile.bandwidth
        out = self._degrees * link
        arrival, alone = self.now + out, out.copy()
        if self._senders.size:
            latency, reached = self.profile.latency, self._reached
            begin = (self.now + latency)[self._senders]
            order = np.lexsort((begin, self._receivers))
            served, work = self._received(begin[order], link[self._senders[order]])
            whole = np.maximum.reduceat((arrival + latency)[self._senders], self._starts)
            together = np.maximum.reduceat(out[self._senders], self._starts)
            arrival[reached] = np.maximum(arrival[reached], np.maximum(served, whole))
            alone[reached] = np.maximum(alone[reached], latency + np.maximum(work, together))
        self._flight = arrival, alone

    def _received(self, begin: Vector, link: Vector) -> tuple[Vector, Vector]:
        """Return when each receiver's link is done, and its seconds at work.

        The messages lie by receiver, and for each in the order in which they are served: ``begin`` is when they are
        there, ``link`` what they take. The last one is done when the link has served, without a pause, from some
        message on: ``max_k begin_k + sum_{l >= k} link_l``.
        """
        work = np.add.reduceat(link, self._starts)
        upto = np.cumsum(link)
        counts = np.diff(np.append(self._starts, link.size))
        ends = np.repeat(upto[np.append(self._starts[1:], link.size) - 1], counts)
        return np.maximum.reduceat(begin + (ends - upto + link), self._starts), work

    def collect(self) -> None:
        """Let every node go on when its own message is out and its neighbours' are there."""
        if self._flight is None:
            return
        arrival, alone = self._flight
        self._flight = None
        held = np.maximum(arrival - self.now, 0.0)
        sending = np.minimum(held, alone)
        self.wait += held - sending
        self.communicate += sending + self._overheads
        self.now = np.maximum(self.now, arrival) + self._overheads

    def reduce(self, nbytes: float) -> None:
        """Let all nodes together reduce ``nbytes`` bytes of each, and get the answer."""
        latest, seconds = self.latest, reduction_seconds(nbytes, self.now.size, self.profile)
        self.wait += latest - self.now
        self.communicate += seconds
        self.now[:] = latest + seconds

    # --- what is known of it ---

    def values(self, node: int) -> dict[str, float]:
        """Return a node's seconds under the names of the metrics' series."""
        return {
            "seconds": float(self.now[node]),
            "compute_seconds": float(self.compute[node]),
            "compress_seconds": float(self.compress[node]),
            "communicate_seconds": float(self.communicate[node]),
            "wait_seconds": float(self.wait[node]),
        }

    def hold(self) -> list[Times]:
        """Return all that is known of each node, to go on from there."""
        flight = [(None, None)] * self.now.size if self._flight is None else list(zip(*self._flight, strict=True))
        columns = (self.now, self.compute, self.compress, self.communicate, self.wait)
        return [
            Times(*map(float, own), *(None if value is None else float(value) for value in way))
            for own, way in zip(zip(*columns, strict=True), flight, strict=True)
        ]

    def give(self, times: Sequence[Times]) -> None:
        """Go on from what `hold` returned in an earlier process; the meter is read anew."""
        for k, (now, compute, compress, communicate, wait) in enumerate(
            (each.now, each.compute, each.compress, each.communicate, each.wait) for each in times
        ):
            self.now[k], self.compute[k], self.compress[k] = now, compute, compress
            self.communicate[k], self.wait[k] = communicate, wait
        arrivals = [(each.arrival, each.alone) for each in times if each.arrival is not None]
        self._flight = (np.array([a for a, _ in arrivals]), np.array([b for _, b in arrivals])) if arrivals else None
        if self._meter is not None:
            self._metered = self._meter()
