"""n virtual nodes in one process, moved on together request by request.

For tests, for experiments with more nodes than cores, and as the second opinion on the MPI network: both give the same
bits. Messages are really encoded and decoded, so bytes are counted from the same buffers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpi_opt.compression.base import Codec, Message
from mpi_opt.network.base import Traffic, Whereabouts
from mpi_opt.network.clock import Clock
from mpi_opt.network.collectives import Solo
from mpi_opt.requests import Average, Collect, Exchange, Inbox, Post, Steps, Sum
from mpi_opt.types import Vector


class Lockstep:
    """A network of virtual nodes.

    Parameters
    ----------
    neighbours : sequence of tuple of int
        Neighbours of each node, ascending; its length is the number of nodes.
    codec : Codec or None
        Wire format of the messages; ``None`` where the method exchanges none.
    clock : Clock or None
        Is told what the nodes do, where their seconds are to be simulated; it changes nothing else.
    """

    def __init__(self, neighbours: Sequence[tuple[int, ...]], codec: Codec | None, clock: Clock | None = None) -> None:
        self.neighbours = tuple(neighbours)
        self.nodes = len(self.neighbours)
        self.local = tuple(range(self.nodes))
        self.traffic = [Traffic() for _ in self.local]
        self.collectives = Solo()
        self.where = Whereabouts()
        self.clock = clock
        self._sizes = np.zeros(self.nodes)
        self._codec = codec
        self._buffer = np.empty(codec.max_bytes if codec else 0, dtype=np.uint8)
        self._wire: list[Message | None] = [None] * self.nodes
        self._posted: list[Inbox] | None = None
        self._total = np.empty(0)
        self._weight = 0.0
        self._short = False
        self._control = np.zeros(0)
        self._kinds: dict[type, tuple[Callable[[int, Any], None], Callable[[], Sequence[Any]]]] = {
            Exchange: (self._take_message, self._exchange),
            Post: (self._take_message, self._post),
            Collect: (self._take_nothing, self._collect),
            Average: (self._fold_weighted, self._divide),
            Sum: (self._fold, self._give_sum),
        }

    def advance(self, steps: Sequence[Steps]) -> list[tuple[Any, Any]]:
        """Drive the nodes' running steps to their end, performing their requests together.

        A request is taken in before the next node moves: nodes share their work arrays, and a reduction is folded
        node by node, so that a thousand nodes need one vector for it.
        """
        results: list[Any] = [None] * self.nodes
        answers: Sequence[Any] = [None] * self.nodes
        while True:
            asked, kind = 0, None
            for i, step in enumerate(steps):
                try:
                    request = step.send(answers[i])
                except StopIteration as end:
                    results[i] = end.value
                    continue
                if asked != i or (kind is not None and type(request) is not kind):
                    raise RuntimeError(f"nodes disagree: node {i} asks for {type(request).__name__}, earlier ones not")
                kind = type(request)
                self._kinds[kind][0](i, request)
                asked += 1
            if self.clock is not None:
                self.clock.computed()
            if kind is None:
                return results
            if asked != self.nodes:
                raise RuntimeError(f"nodes disagree: {asked} of {self.nodes} ask for {kind.__name__}")
            answers = self._kinds[kind][1]()

    def _take_message(self, sender: int, request: Exchange | Post) -> None:
        """Put one node's message through the wire, and count what was handed over."""
        degree, traffic, q = len(self.neighbours[sender]), self.traffic[sender], request.message
        traffic.rounds += 1
        self._wire[sender] = None
        self._sizes[sender] = 0.0
        if q is None:
            traffic.silences += degree
            return
        if self._codec is None:
            raise RuntimeError("this network was built without a codec")
        size = self._codec.encode(q, self._buffer)
        traffic.count(size, degree, q.floor_bits())
        self._sizes[sender] = size.header + size.payload
        self._wire[sender] = self._codec.decode(self._buffer[: size.header + size.payload], sender, request.round)

    def _exchange(self) -> list[Inbox]:
        if self.clock is not None:
            self.clock.exchange(self._sizes)
        return self._deliver()

    def _deliver(self) -> list[Inbox]:
        wire = self._wire
        return [tuple((j, q) for j in around if (q := wire[j]) is not None) for around in self.neighbours]

    def _post(self) -> list[None]:
        if self.clock is not None:
            self.clock.post(self._sizes)
        self._posted = self._deliver()
        return [None] * self.nodes

    def _take_nothing(self, node: int, request: Collect) -> None:
        if self._posted is None:
            raise RuntimeError(f"node {node} collects round {request.round}, but nothing was posted")

    def _collect(self) -> list[Inbox]:
        if self.clock is not None:
            self.clock.collect()
        inboxes, self._posted = self._posted or [], None
        return inboxes

    def hold(self) -> list[Inbox | None]:
        """Return what was posted and is not collected yet; it stays there."""
        return [None] * self.nodes if self._posted is None else list(self._posted)

    def give(self, inboxes: Sequence[Inbox | None]) -> None:
        """Take over what was posted in an earlier process."""
        arrived = [inbox for inbox in inboxes if inbox is not None]
        self._posted = arrived or None

    def _fold_weighted(self, node: int, request: Average) -> None:
        term = request.vector * request.weight
        if node == 0:
            self._total, self._weight = term, request.weight
        else:
            self._total += term
            self._weight += request.weight

    def _divide(self) -> list[Vector]:
        self._total /= self._weight
        return self._reduced(self._total.nbytes + 8, self._total.nbytes)

    def _fold(self, node: int, request: Sum) -> None:
        self._short = request.short
        if node == 0:
            self._total = request.array.copy()
        else:
            self._total += request.array

    def _give_sum(self) -> list[Vector]:
        return self._reduced(self._total.nbytes, self._total.nbytes, short=self._short)

    def _reduced(self, up: int, down: int, *, short: bool = False) -> list[Vector]:
        for i, traffic in enumerate(self.traffic):
            traffic.count_reduction(up, down, i, self.nodes, short=short)
        if self.clock is not None:
            self.clock.reduce(up)
        return [self._total] * self.nodes

    def control_start(self, flags: Vector) -> None:
        """Start a reduction of control flags (largest wins)."""
        self._control = flags.copy()

    def control_finish(self) -> Vector:
        """Return the reduced flags of the last ``control_start``."""
        return self._control

    def poke(self) -> None:
        """Nothing is ever on its way."""

    def share(self, arrays: Sequence[Vector]) -> list[dict[int, Vector]]:
        """Return for each node what its neighbours hold, by neighbour; for checks."""
        for traffic, around in zip(self.traffic, self.neighbours, strict=True):
            traffic.evaluation_bytes += arrays[0].nbytes * len(around)
        return [{j: arrays[j] for j in around} for around in self.neighbours]

    def rotate(self, arrays: Sequence[Vector]) -> list[Vector]:
        """Hand each node's array to the next node."""
        if self.nodes > 1:
            for traffic in self.traffic:
                traffic.evaluation_bytes += arrays[0].nbytes
        return [arrays[i - 1] for i in range(self.nodes)]

    def mean(self, arrays: Sequence[Vector]) -> Vector:
        """Return the mean over nodes, added in node order."""
        total = arrays[0].copy()
        for array in arrays[1:]:
            total += array
        total /= self.nodes
        for i, traffic in enumerate(self.traffic):
            traffic.count_evaluation(total.nbytes, i, self.nodes)
        return total

    def close(self) -> None:
        """Nothing is held."""
