"""A network that answers every request at once from what was sent: what a node costs besides the way of its messages.

It does what `MpiNetwork` does around its MPI calls, so that a node timed on it is as slow as one of a run but for
those. Neighbours seem to say what the node itself says; each of their messages is read back from the bytes.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from mpi_opt.compression.base import Codec
from mpi_opt.network.base import Traffic, Whereabouts, drive
from mpi_opt.network.clock import Clock
from mpi_opt.network.collectives import Solo
from mpi_opt.requests import Average, Collect, Exchange, Inbox, Post, Steps, Sum
from mpi_opt.types import Vector


class Clocks(Protocol):
    """Where the compute and compress seconds of the node are counted."""

    compute: float
    compress: float


class Mark(NamedTuple):
    """The start of a step: the time, the seconds by phase until then, and how often the node spoke."""

    time: float
    compute: float
    compress: float
    unpack: float
    spoken: int


class Echo:
    """The network of one node among echoes of itself.

    Parameters
    ----------
    codec : Codec or None
        Wire format of the messages; ``None`` where the method exchanges none.
    neighbours : sequence of int
    node, nodes : int
    clocks : Clocks
        Read at every mark.

    Attributes
    ----------
    marks : list of Mark
        The start of each step, and of the settling after the last.
    reductions : Counter
        How often a vector of so many bytes was reduced.
    spoken, silent : int
        Synchronisations at which the node spoke, and did not.
    nbytes : int
        Bytes of what it said, each message once.
    """

    def __init__(self, codec: Codec | None, neighbours: Sequence[int], node: int, nodes: int, clocks: Clocks) -> None:
        self.nodes, self.local = nodes, (node,)
        self.traffic, self.where, self.collectives = [Traffic()], Whereabouts(), Solo()
        self.clock: Clock | None = None
        self.marks: list[Mark] = []
        self.reductions: Counter[int] = Counter()
        self.spoken = self.silent = self.nbytes = 0
        self._codec, self._neighbours, self._clocks = codec, tuple(neighbours), clocks
        self._buffer = np.empty(0 if codec is None else codec.max_bytes, dtype=np.uint8)
        self._unpack, self._nbytes = 0.0, 0
        self._work: dict[int, Vector] = {}
        self._flags: Vector = np.zeros(0)
        self._perform: dict[type, Callable[[Any], Any]] = {
            Exchange: self._exchange,
            Post: self._post,
            Collect: self._collect,
            Average: self._average,
            Sum: self._sum,
        }

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The nodes that seem to answer."""
        return self._neighbours

    def advance(self, steps: Sequence[Steps]) -> list[tuple[Any, Any]]:
        """Drive the running step to its end, answering its requests; mark its start."""
        now, clocks = time.perf_counter(), self._clocks
        self.marks.append(Mark(now, clocks.compute, clocks.compress, self._unpack, self.spoken))
        (step,) = steps
        return [drive(step, self._perform)]

    def _exchange(self, request: Exchange) -> Inbox:
        self._post(request)
        return self._receive(request.round)

    def _collect(self, request: Collect) -> Inbox:
        return self._receive(request.round)

    def _post(self, request: Exchange | Post) -> None:
        if self._codec is None:
            raise RuntimeError("this network was built without a codec")
        began, traffic, q = time.perf_counter(), self.traffic[0], request.message
        traffic.rounds += 1
        self._nbytes = 0
        if q is None:
            traffic.silences += len(self._neighbours)
            self.silent += 1
        else:
            size = self._codec.encode(q, self._buffer)
            traffic.count(size, len(self._neighbours), q.floor_bits())
            self._nbytes = size.header + size.payload
            self.nbytes += self._nbytes
            self.spoken += 1
        traffic.communicate_seconds += time.perf_counter() - began

    def _receive(self, round: int) -> Inbox:
        if self._codec is None:
            raise RuntimeError("this network was built without a codec")
        self.where.wait("neighbours")
        self.where.wait("")
        began, data = time.perf_counter(), self._buffer[: self._nbytes]
        inbox = [(j, self._codec.decode(data, j, round)) for j in self._neighbours] if self._nbytes else []
        self._unpack += time.perf_counter() - began
        return tuple(inbox)

    def _average(self, request: Average) -> Vector:
        """Return the node's own vector; its product with the weight is part of a run's work."""
        d, weight = request.vector.size, request.weight or 1.0
        mean = self._take(d + 1)[:d]
        np.multiply(request.vector, weight, out=mean)
        mean /= weight
        return mean

    def _sum(self, request: Sum) -> Vector:
        total = self._take(request.array.size)
        total[:] = request.array
        return total

    def _take(self, size: int) -> Vector:
        self.reductions[8 * size] += 1
        self.where.wait("all ranks")
        self.where.wait("")
        self.traffic[0].count_reduction(8 * size, 8 * size, self.local[0], self.nodes)
        if size not in self._work:
            self._work[size] = np.empty(size)
        return self._work[size]

    def hold(self) -> list[Inbox | None]:
        """Nothing is in flight."""
        return [None]

    def give(self, inboxes: Sequence[Inbox | None]) -> None:
        """Nothing was in flight."""

    def poke(self) -> None:
        """Nothing is in flight."""

    def control_start(self, flags: Vector) -> None:
        """Take the flags as everybody's."""
        self._flags = flags

    def control_finish(self) -> Vector:
        """Return the flags."""
        return self._flags

    def share(self, arrays: Sequence[Vector]) -> list[dict[int, Vector]]:
        """Return the node's own array as each neighbour's."""
        return [dict.fromkeys(self._neighbours, arrays[0])]

    def rotate(self, arrays: Sequence[Vector]) -> list[Vector]:
        """Return the node's own array."""
        return list(arrays)

    def mean(self, arrays: Sequence[Vector]) -> Vector:
        """Return the node's own array."""
        return arrays[0]

    def close(self) -> None:
        """Nothing is held."""
