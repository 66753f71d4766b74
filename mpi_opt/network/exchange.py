"""The neighbour exchange as a plan: buffers and receives are set up once, a round is a few MPI calls.

Every round each node hands one message to every neighbour, a zero-byte one where it stays silent. A neighbour can be
one round ahead, never two (its next send needs our message), so buffers and tags alternate between two parities, and
the receives of both are always posted, with the largest size.
"""

from typing import Any

import numpy as np

from mpi_opt.types import Bytes

_TAG = 1


class NeighbourExchange:
    """Rounds of messages with fixed neighbours.

    Parameters
    ----------
    comm : communicator
        Private to the package.
    mpi : module
        ``mpi4py.MPI``, handed over by its one importer.
    neighbours : tuple of int
        Ranks, ascending.
    max_bytes : int
        Largest message.
    """

    def __init__(self, comm: Any, mpi: Any, neighbours: tuple[int, ...], max_bytes: int) -> None:
        self._comm, self._mpi, self._neighbours = comm, mpi, neighbours
        self._outgoing = [np.empty(max_bytes, dtype=np.uint8) for _ in range(2)]
        self._incoming = [[np.empty(max_bytes, dtype=np.uint8) for _ in neighbours] for _ in range(2)]
        self._receives = [
            [
                comm.Recv_init([buffer, max_bytes, mpi.BYTE], source=j, tag=_TAG + parity)
                for j, buffer in zip(neighbours, self._incoming[parity], strict=True)
            ]
            for parity in range(2)
        ]
        self._statuses = [mpi.Status() for _ in range(2 * len(neighbours))]
        self._requests: list[Any] = []
        self._complete = False
        self._start = mpi.Prequest.Startall
        for receives in self._receives:
            self._start(receives)

    @property
    def in_flight(self) -> bool:
        """Whether a round was started and is not known to be complete."""
        return bool(self._requests) and not self._complete

    def outgoing(self, round: int) -> Bytes:
        """Return the buffer that the message of ``round`` is to be written into."""
        return self._outgoing[round % 2]

    def start(self, round: int, nbytes: int) -> None:
        """Hand the first ``nbytes`` of the outgoing buffer to every neighbour, without waiting."""
        parity = round % 2
        message = [self._outgoing[parity], nbytes, self._mpi.BYTE]
        isend, tag = self._comm.Isend, _TAG + parity
        self._requests = self._receives[parity] + [isend(message, j, tag) for j in self._neighbours]
        self._complete = False

    def poke(self) -> None:
        """Let the round in flight move on."""
        self._complete = self._mpi.Request.Testall(self._requests, self._statuses)

    def finish(self, round: int) -> list[tuple[int, Bytes]]:
        """Wait for the round; return ``(sender, bytes)`` of those who spoke, in ascending order.

        The bytes are views, valid until ``release``.
        """
        if not self._complete:
            self._mpi.Request.Waitall(self._requests, self._statuses)
        self._requests = []
        arrived = []
        for j, buffer, status in zip(self._neighbours, self._incoming[round % 2], self._statuses, strict=False):
            nbytes = status.count
            if nbytes:
                arrived.append((j, buffer[:nbytes]))
        return arrived

    def release(self, round: int) -> None:
        """Post the receives of ``round + 2`` into the buffers that ``finish`` showed."""
        self._start(self._receives[round % 2])

    def free(self) -> None:
        """Cancel what is posted and give the requests back."""
        for request in (*self._receives[0], *self._receives[1]):
            request.Cancel()
            request.Wait()
            request.Free()
        self._receives = [[], []]
