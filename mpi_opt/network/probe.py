"""Latency and bandwidth between the ranks that are actually there, measured once at start.

Rank 0 plays ping-pong with a few others, one after the other, while the rest sleep, so that ranks that share cores do
not disturb the clock. This is set-up: its messages are counted in no traffic.
"""

import time
from typing import Any

import numpy as np

_ECHO, _PAUSE, _STOP = 11, 12, 13
"""Tags: "answer with eight bytes", "sleep until the next message", "you are done"."""

_PARTNERS = 3
_SMALL, _LARGE = 8, 1 << 20
_PIECE = 1 << 16
"""Sizes in bytes: of a ping, of the largest message and of the one that large messages grow from, fourfold."""

_SECONDS = 0.03
"""For the pings with one partner, and for the messages of one size; at least one round trip."""

_LONG_ENOUGH = 0.02
"""Seconds on the wire after which a message need not grow further..."""

_PINGS = 4.0
"""... if they are also so many round trips: TCP opens its window by the round trip, so on a network of long ones a
short message measures latency once more (64 KiB at 10 ms and 100 Mbit/s: a seventh of the bandwidth)."""

_REPEATS = 40
_NAP = 5e-4
"""Seconds between two looks of a rank that waits."""


def probe(comm: Any, mpi: Any) -> tuple[float, float]:
    """Return latency (seconds one way) and bandwidth (bytes a second one way), the same on every rank. Collective.

    Latency is the largest over partners, since a tree of messages is as slow as its slowest edge, of the least over
    repeats, since noise only adds. Bandwidth is that to the partner with the largest latency. Where a message's time
    is hidden in the latency's jitter, bandwidth is a lower bound. Takes at most 0.2 s where the latency is under a
    few milliseconds, a dozen round trips where it is more. One rank: latency 0, bandwidth infinite.

    Parameters
    ----------
    comm : communicator
        Private to the package.
    mpi : module
        ``mpi4py.MPI``, handed over by its one importer.
    """
    if comm.size == 1:
        return 0.0, np.inf
    others = partners(comm.allgather(mpi.Get_processor_name()))
    result = np.empty(2)
    if comm.rank == 0:
        result[:] = _measure(comm, mpi, others)
    elif comm.rank in others:
        _answer(comm, mpi)
    request = comm.Ibcast(result, root=0)
    while not request.Test():
        time.sleep(_NAP)
    return float(result[0]), float(result[1])


def partners(hosts: list[str]) -> list[int]:
    """Return whom rank 0 measures with: first, middle and last of the other hosts, one rank each, else of the ranks.

    Parameters
    ----------
    hosts : list of str
        Host of each rank, at least two.
    """
    first: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        first.setdefault(host, rank)
    candidates = list(first.values())[1:] or list(range(1, len(hosts)))
    places = np.linspace(0, len(candidates) - 1, min(_PARTNERS, len(candidates)))
    return [candidates[int(place)] for place in places]


def _measure(comm: Any, mpi: Any, others: list[int]) -> tuple[float, float]:
    buffer = np.zeros(_LARGE, dtype=np.uint8)

    def round_trip(partner: int, size: int) -> float:
        """Return the seconds of ``size`` bytes there and eight back."""
        sent = mpi.Wtime()
        comm.Send([buffer, size, mpi.BYTE], dest=partner, tag=_ECHO)
        comm.Recv([buffer, _SMALL, mpi.BYTE], source=partner, tag=_ECHO)
        return float(mpi.Wtime() - sent)

    def least(partner: int, size: int) -> float:
        """Return the least of as many round trips as there is time for."""
        best, until = np.inf, mpi.Wtime() + _SECONDS
        for _ in range(_REPEATS):
            best = min(best, round_trip(partner, size))
            if mpi.Wtime() > until:
                break
        return best

    pings = []
    for partner in others:
        round_trip(partner, _SMALL)  # wakes it up, and opens the connection
        pings.append(least(partner, _SMALL))
        comm.Send([buffer, 0, mpi.BYTE], dest=partner, tag=_PAUSE)
    ping = max(pings)
    farthest, size = others[pings.index(ping)], _PIECE
    round_trip(farthest, _SMALL)
    while True:
        took = least(farthest, size)
        on_the_wire = max(took - ping, took / 10)
        if size >= _LARGE or on_the_wire > max(_LONG_ENOUGH, _PINGS * ping):
            break
        size *= 4
    for partner in others:
        comm.Send([buffer, 0, mpi.BYTE], dest=partner, tag=_STOP)
    return ping / 2, size / on_the_wire


def _answer(comm: Any, mpi: Any) -> None:
    """Answer rank 0 until it says stop; asleep while others have their turn."""
    buffer = np.empty(_LARGE, dtype=np.uint8)
    status = mpi.Status()

    def sleep() -> None:
        while not comm.Iprobe(source=0, tag=mpi.ANY_TAG):
            time.sleep(_NAP)

    sleep()
    while True:
        comm.Recv([buffer, _LARGE, mpi.BYTE], source=0, tag=mpi.ANY_TAG, status=status)
        if status.tag == _STOP:
            return
        if status.tag == _PAUSE:
            sleep()
        else:
            comm.Send([buffer, _SMALL, mpi.BYTE], dest=0, tag=_ECHO)
