"""n virtual nodes in one process, moved on together request by request.

For tests, for experiments with more nodes than cores, and as the second opinion on the MPI network: both give the same
bits. Messages are really encoded and decoded, so bytes are counted from the same buffers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpi_opt.compression.base import Codec, Message
from mpi_opt.network.base import Traffic
from mpi_opt.network.collectives import Solo
from mpi_opt.requests import Average, Collect, Exchange, Inbox, Post, Request, Steps, Sum
from mpi_opt.types import Vector


class Lockstep:
    """A network of virtual nodes.

    Parameters
    ----------
    neighbours : sequence of tuple of int
        Neighbours of each node, ascending; its length is the number of nodes.
    codec : Codec or None
        Wire format of the messages; ``None`` where the method exchanges none.
    """

    def __init__(self, neighbours: Sequence[tuple[int, ...]], codec: Codec | None) -> None:
        self.neighbours = tuple(neighbours)
        self.nodes = len(self.neighbours)
        self.local = tuple(range(self.nodes))
        self.traffic = [Traffic() for _ in self.local]
        self.collectives = Solo()
        self._codec = codec
        self._buffer = np.empty(codec.max_bytes if codec else 0, dtype=np.uint8)
        self._posted: list[Inbox] | None = None
        self._control = np.zeros(0)
        self._perform: dict[type, Callable[[list[Any]], Sequence[Any]]] = {
            Exchange: self._exchange,
            Post: self._post,
            Collect: self._collect,
            Average: self._average,
            Sum: self._sum,
        }

    def advance(self, steps: Sequence[Steps]) -> list[tuple[Any, Any]]:
        """Drive the nodes' running steps to their end, performing their requests together."""
        results: list[Any] = [None] * self.nodes
        answers: Sequence[Any] = [None] * self.nodes
        while True:
            requests: list[Request] = []
            for i, step in enumerate(steps):
                try:
                    requests.append(step.send(answers[i]))
                except StopIteration as end:
                    results[i] = end.value
            if not requests:
                return results
            kinds = {type(request) for request in requests}
            if len(requests) != self.nodes or len(kinds) != 1:
                names = sorted(kind.__name__ for kind in kinds)
                raise RuntimeError(f"nodes disagree: {len(requests)} of {self.nodes} ask, for {names}")
            answers = self._perform[kinds.pop()](requests)

    def _exchange(self, requests: list[Exchange | Post]) -> list[Inbox]:
        wire = [self._through_the_wire(i, request) for i, request in enumerate(requests)]
        return [tuple((j, q) for j in around if (q := wire[j]) is not None) for around in self.neighbours]

    def _through_the_wire(self, sender: int, request: Exchange | Post) -> Message | None:
        """Return what the neighbours of ``sender`` read off the wire, and count what was handed over."""
        degree, traffic, q = len(self.neighbours[sender]), self.traffic[sender], request.message
        traffic.rounds += 1
        if q is None:
            traffic.silences += degree
            return None
        if self._codec is None:
            raise RuntimeError("this network was built without a codec")
        size = self._codec.encode(q, self._buffer)
        traffic.count(size, degree, q.floor_bits())
        return self._codec.decode(self._buffer[: size.header + size.payload], sender, request.round)

    def _post(self, requests: list[Exchange | Post]) -> list[None]:
        self._posted = self._exchange(requests)
        return [None] * self.nodes

    def _collect(self, requests: list[Collect]) -> list[Inbox]:
        if self._posted is None:
            raise RuntimeError(f"nothing was posted for round {requests[0].round}")
        inboxes, self._posted = self._posted, None
        return inboxes

    def _average(self, requests: list[Average]) -> list[Vector]:
        total, weights = requests[0].vector * requests[0].weight, requests[0].weight
        for request in requests[1:]:
            total += request.vector * request.weight
            weights += request.weight
        total /= weights
        self._count_reduction(8 * (total.size + 1))
        return [total] * self.nodes

    def _sum(self, requests: list[Sum]) -> list[Vector]:
        total = requests[0].array.copy()
        for request in requests[1:]:
            total += request.array
        self._count_reduction(8 * total.size)
        return [total] * self.nodes

    def _count_reduction(self, nbytes: int) -> None:
        for i, traffic in enumerate(self.traffic):
            traffic.count_reduction(nbytes, i, self.nodes)

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
