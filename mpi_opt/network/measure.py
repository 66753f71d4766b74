"""What messages cost between the ranks that are there: ping-pong, neighbour exchange, reduction, by size.

The exchange and the reduction are the package's own (``exchange.py``, ``reduction.py``), so that what Python and MPI
calls cost is in the times as it is in a run's. `probe.py` is the quick look at start; this is the thorough one.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpi_opt.network.exchange import NeighbourExchange
from mpi_opt.network.probe import partners
from mpi_opt.network.reduction import Reduction
from mpi_opt.scaling.curves import Curve
from mpi_opt.scaling.fitted import BETWEEN_HOSTS, SAME_HOST, Measurement, Pair
from mpi_opt.types import Vector

SIZES = (8, 64, 512, 2048, 8192, 16384, 32768, 65536, 131072, 262144, 1048576, 4194304)
"""Bytes."""

_SECONDS = 0.04
"""For the repeats of one size; at least `_LEAST` of them."""

_LONGEST = 0.3
"""Seconds of one message, exchange or reduction beyond which no larger ones are sent."""

_LEAST, _MOST = 3, 400

_SLOW_SECONDS = 2e-3
"""What takes longer is timed back to back, several a batch: one alone would be timed with what ranks leave a barrier
apart, which is a latency or two."""

_SLOW = ((0.05, 8), (0.2, 3), (math.inf, 2))
"""Repeats of such a batch, where one takes up to so many seconds."""

_SLOW_BATCHES = 2

_STIRRED = 1 << 20
"""Bytes that a rank changes before each of the faster ones, for a run's steps leave no buffer in the near caches: on
one host a message from warm caches takes half the time."""

_BUSY = 2.0
"""Medians of so many times the least are called disturbed."""

_PING, _ORDER = 21, 22
_NAP = 1e-3


def measure(comm: Any, mpi: Any) -> Measurement:
    """Return the times of messages by size, the same on every rank. Collective, two or more ranks.

    Takes 2 to 5 seconds on a fast network; at 10 ms and 100 Mbit/s, with the fewest repeats, half a minute.

    Parameters
    ----------
    comm : communicator
        Private to the package.
    mpi : module
        ``mpi4py.MPI``, handed over by its one importer.
    """
    pairs = [
        Pair(kind, ranks, _ping_pong(comm, mpi, *ranks))
        for kind, ranks in chosen_pairs(comm.allgather(mpi.Get_processor_name()))
    ]
    spread: list[float] = []
    degree, exchange, posting = _ring(comm, mpi, spread)
    reduction = _reductions(comm, mpi, spread)
    disturbed = float(np.median(spread))
    return Measurement(
        ranks=comm.size,
        pairs=tuple(pairs),
        degree=degree,
        exchange=exchange,
        posting=posting,
        reduction=reduction,
        cautions=(
            f"disturbed: median times are {disturbed:.1f} times the least; other programs share the cores, or the "
            "network",
        )
        if disturbed > _BUSY
        else (),
    )


def chosen_pairs(hosts: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
    """Return a pair of ranks of each kind that there is, two on one host and two on different ones.

    Parameters
    ----------
    hosts : sequence of str
        Host of each rank.
    """
    found: list[tuple[str, tuple[int, int]]] = []
    first: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        if host in first and not found:
            found.append((SAME_HOST, (first[host], rank)))
        first.setdefault(host, rank)
    if len(first) > 1:
        others = partners(list(hosts))
        found.append((BETWEEN_HOSTS, (0, others[len(others) // 2])))
    return found


def _ping_pong(comm: Any, mpi: Any, a: int, b: int) -> Curve:
    """Return half the usual round trip of messages between two ranks, while the others sleep."""
    buffer, order = np.zeros(SIZES[-1], dtype=np.uint8), np.zeros(1)
    measured: list[tuple[int, float]] | None = None

    def there_and_back(size: int) -> float:
        began = time.perf_counter()
        comm.Send([buffer, size, mpi.BYTE], dest=b, tag=_PING)
        comm.Recv([buffer, size, mpi.BYTE], source=b, tag=_PING)
        return time.perf_counter() - began

    def back(size: int) -> None:
        comm.Recv([buffer, size, mpi.BYTE], source=a, tag=_PING)
        comm.Send([buffer, size, mpi.BYTE], dest=a, tag=_PING)

    if comm.rank == a:
        measured = []
        for size in SIZES:
            there_and_back(size)  # opens the connection, and the window for this size
            trial = there_and_back(size)
            order[0] = _repeats(trial)
            comm.Send(order, dest=b, tag=_ORDER)
            half = _usual([there_and_back(size) for _ in range(int(order[0]))]) / 2
            measured.append((size, half))
            order[0] = half > _LONGEST
            comm.Send(order, dest=b, tag=_ORDER)
            if order[0]:
                break
    elif comm.rank == b:
        for size in SIZES:
            back(size)
            back(size)
            comm.Recv(order, source=a, tag=_ORDER)
            for _ in range(int(order[0])):
                back(size)
            comm.Recv(order, source=a, tag=_ORDER)
            if order[0]:
                break
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(_NAP)
    return _curve(comm.bcast(measured, root=a))


def _usual(seconds: Sequence[float] | Vector) -> float:
    """Return the lower quartile: disturbances only add, and the least of many is luck."""
    return float(np.quantile(seconds, 0.25, method="lower"))


def _repeats(seconds: float) -> int:
    """Return how many repeats of so many seconds there is time for."""
    return int(np.clip(_SECONDS / max(seconds, 1e-7), _LEAST, _MOST))


def _curve(measured: Sequence[tuple[int, float]]) -> Curve:
    return Curve(tuple(float(size) for size, _ in measured), tuple(seconds for _, seconds in measured))


def _together(comm: Any, mpi: Any, once: Callable[[int], None], spread: list[float]) -> Curve:
    """Return the seconds of ``once(size)`` as all ranks do it together, by size.

    The lower quartile over batches of the slowest rank's mean, for a run is as slow as its slowest rank; ``spread``
    gets the ratio of the median to the least batch.
    """
    measured, stirred = [], np.zeros(_STIRRED // 8)
    for size in SIZES:
        once(size)
        trial, slowest = np.array([_timed(lambda size=size: once(size), 1)]), np.empty(1)  # type: ignore[misc]
        comm.Allreduce(trial, slowest, op=mpi.MAX)
        each, batches, untimed = _batches(float(slowest[0]))
        mine, all_of_them = np.empty(batches), np.empty(batches)
        for batch in range(batches):
            stirred += 1.0
            comm.Barrier()
            for _ in range(untimed):
                once(size)
            mine[batch] = _timed(lambda size=size: once(size), each)  # type: ignore[misc]
        comm.Allreduce(mine, all_of_them, op=mpi.MAX)
        measured.append((size, _usual(all_of_them)))
        spread.append(float(np.median(all_of_them) / all_of_them.min()))
        if measured[-1][1] > _LONGEST:
            break
    return _curve(measured)


def _batches(seconds: float) -> tuple[int, int, int]:
    """Return how many repeats of so many seconds make a batch, how many batches there are, and what goes before one."""
    if seconds > _SLOW_SECONDS:
        return next(count for most, count in _SLOW if seconds <= most), _SLOW_BATCHES, 2
    return 1, _repeats(seconds), 0


def _timed(action: Callable[[], None], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - began) / times


def _ring(comm: Any, mpi: Any, spread: list[float]) -> tuple[int, Curve, float]:
    """Return neighbours, seconds of an exchange with them by bytes of a message, and those of its calls alone."""
    n, i = comm.size, comm.rank
    around = tuple(sorted({(i - 1) % n, (i + 1) % n} - {i}))
    exchange = NeighbourExchange(comm, mpi, around, SIZES[-1])
    round_ = 0
    posting: list[float] = []

    def once(size: int) -> None:
        nonlocal round_
        began = time.perf_counter()
        exchange.start(round_, size)
        posted = time.perf_counter()
        exchange.finish(round_)
        came = time.perf_counter()
        exchange.release(round_)
        round_ += 1
        if size == SIZES[0]:
            posting.append(posted - began + time.perf_counter() - came)

    curve = _together(comm, mpi, once, spread)
    exchange.free()
    mean = comm.allreduce(_usual(posting), op=mpi.SUM) / n
    return len(around), curve, float(mean)


def _reductions(comm: Any, mpi: Any, spread: list[float]) -> Curve:
    """Return the seconds of a sum at the master and its answer to all by bytes of the vector."""
    reduction, array = Reduction(comm, mpi, ordered=False), np.zeros(SIZES[-1] // 8)

    def once(size: int) -> None:
        reduction.sum(array[: size // 8])

    return _together(comm, mpi, once, spread)
