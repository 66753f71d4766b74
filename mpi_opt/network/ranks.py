"""The network of ranks: one rank is one node. It is handed the MPI module by that module's one importer, `mpi`."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from mpi_opt.compression.base import Codec
from mpi_opt.errors import RankFailedError
from mpi_opt.network.base import Traffic, Whereabouts, drive
from mpi_opt.network.elastic import PatientExchange, wait_each
from mpi_opt.network.exchange import NeighbourExchange
from mpi_opt.network.processes import Processes
from mpi_opt.network.reduction import Reduction
from mpi_opt.requests import Average, Collect, Exchange, Inbox, Post, Steps, Sum
from mpi_opt.types import Vector

_POKE_SECONDS = 1e-3
"""Messages in flight move only inside MPI calls; one test a millisecond is enough and costs nothing."""

_ALL = "all ranks, in a reduction"


class RankNetwork:
    """The node of this rank, and its neighbours.

    Parameters
    ----------
    comm : communicator
        One rank a node; duplicated here, given back by ``close``.
    neighbours : tuple of int
        This rank's graph neighbours, ascending.
    codec : Codec or None
        Wire format of the messages; ``None`` where the method exchanges none.
    ordered : bool
        Add reductions in rank order, for the bits that lockstep gives, instead of in MPI's own order.
    where : Whereabouts, optional
        Where waits are noted.
    patient : bool
        Wait in the way that outlives the death of a rank (`elastic`).
    """

    mpi: ClassVar[Any]
    """``mpi4py.MPI``, given by the subclass of its one importer."""

    def __init__(
        self,
        comm: Any,
        neighbours: tuple[int, ...],
        codec: Codec | None,
        *,
        ordered: bool = False,
        where: Whereabouts | None = None,
        patient: bool = False,
    ) -> None:
        self.where = Whereabouts() if where is None else where
        self.clock = None
        mpi = self.mpi
        with self.where.wait_in("all ranks, before training"):
            self._comm = comm.Dup()
        self.nodes = self._comm.size
        self.local = (self._comm.rank,)
        self.neighbours = neighbours
        self.traffic = [Traffic()]
        self.collectives = Processes(self._comm, mpi, self.where)
        self._around = "neighbours " + ", ".join(str(j) for j in neighbours)
        self._codec = codec
        self._exchange: NeighbourExchange | PatientExchange | None = None
        if codec is not None:
            made = PatientExchange if patient else NeighbourExchange
            self._exchange = made(self._comm, mpi, neighbours, codec.max_bytes)
        self._wait_all: Callable[[list[Any]], object] = wait_each if patient else mpi.Request.Waitall
        self._reduction = Reduction(self._comm, mpi, ordered=ordered)
        self._in_order = Reduction(self._comm, mpi, ordered=True)
        self._spare: Vector | None = None
        self._flags = self._agreed = np.zeros(0)
        self._control: Any = None
        self._poked = 0.0
        self._under_way: int | None = None
        self._held: Inbox | None = None
        self._perform: dict[type, Callable[[Any], Any]] = {
            Exchange: self._send_and_receive,
            Post: self._post,
            Collect: self._collect,
            Average: self._average,
            Sum: self._sum,
        }

    def advance(self, steps: Sequence[Steps]) -> list[tuple[Any, Any]]:
        """Drive this node's running step to its end, performing its requests."""
        (step,) = steps
        return [drive(step, self._perform)]

    # --- neighbour exchange ---

    def _send_and_receive(self, request: Exchange) -> Inbox:
        self._post(request)
        return self._receive(request.round)

    def _post(self, request: Exchange | Post) -> None:
        if self._exchange is None or self._codec is None:
            raise RuntimeError("this network was built without a codec")
        began, traffic, q = time.perf_counter(), self.traffic[0], request.message
        traffic.rounds += 1
        degree = len(self.neighbours)
        if q is None:
            traffic.silences += degree
            nbytes = 0
        else:
            size = self._codec.encode(q, self._exchange.outgoing(request.round))
            traffic.count(size, degree, q.floor_bits())
            nbytes = size.header + size.payload
        self._exchange.start(request.round, nbytes)
        self._under_way = request.round
        traffic.communicate_seconds += time.perf_counter() - began

    def _collect(self, request: Collect) -> Inbox:
        if self._held is None:
            return self._receive(request.round)
        inbox, self._held = self._held, None
        return inbox

    def hold(self) -> list[Inbox | None]:
        """Complete the exchange in flight, and keep what arrived for the next ``Collect``."""
        if self._under_way is not None:
            self._held = self._receive(self._under_way)
        return [self._held]

    def give(self, inboxes: Sequence[Inbox | None]) -> None:
        """Let the next ``Collect`` answer with what ``hold`` returned in an earlier process."""
        (self._held,) = inboxes

    def _receive(self, round: int) -> Inbox:
        if self._exchange is None or self._codec is None:
            raise RuntimeError("this network was built without a codec")
        began = time.perf_counter()
        self.where.wait(self._around)
        arrived = self._exchange.finish(round)
        self.where.wait("")
        self._under_way = None
        waited = time.perf_counter()
        inbox = []
        for j, data in arrived:
            try:
                inbox.append((j, self._codec.decode(data, j, round)))
            except ValueError as error:
                text = f"node {self.local[0]} cannot read round {round} of node {j} ({data.size} bytes): {error}"
                raise RankFailedError(text) from error
        self._exchange.release(round)
        self.traffic[0].wait_seconds += waited - began
        self.traffic[0].communicate_seconds += time.perf_counter() - waited
        return tuple(inbox)

    # --- reductions ---

    def _average(self, request: Average) -> Vector:
        began = time.perf_counter()
        self.where.wait(_ALL)
        mean = self._reduction.average(request.vector, request.weight)
        self.where.wait("")
        self.traffic[0].count_reduction(mean.nbytes + 8, mean.nbytes, self.local[0], self.nodes)
        self.traffic[0].wait_seconds += time.perf_counter() - began
        return mean

    def _sum(self, request: Sum) -> Vector:
        began = time.perf_counter()
        self.where.wait(_ALL)
        total = self._reduction.sum(request.array)
        self.where.wait("")
        nbytes = total.nbytes
        self.traffic[0].count_reduction(nbytes, nbytes, self.local[0], self.nodes, short=request.short)
        self.traffic[0].wait_seconds += time.perf_counter() - began
        return total

    # --- control ---

    def control_start(self, flags: Vector) -> None:
        """Start a nonblocking reduction of control flags (largest wins)."""
        if self._flags.size != flags.size:
            self._flags, self._agreed = np.empty(flags.size), np.empty(flags.size)
        self._flags[:] = flags
        self._control = self._comm.Iallreduce(self._flags, self._agreed, op=self.mpi.MAX)
        if self.nodes > 1:
            self.traffic[0].control_bytes += self._flags.nbytes

    def control_finish(self) -> Vector:
        """Complete the reduction last started."""
        if self._control is not None:
            self.where.wait("all ranks, in a control reduction")
            self._control.Wait()
            self.where.wait("")
            self._control = None
        return self._agreed

    def poke(self) -> None:
        """Let messages in flight move on; does nothing more often than once a millisecond."""
        if self._exchange is None or not self._exchange.in_flight:
            return
        now = time.perf_counter()
        if now - self._poked >= _POKE_SECONDS:
            self._poked = now
            self._exchange.poke()

    # --- evaluation ---

    def share(self, arrays: Sequence[Vector]) -> list[dict[int, Vector]]:
        """Return what the graph neighbours hold."""
        (mine,) = arrays
        theirs = {j: np.empty_like(mine) for j in self.neighbours}
        requests = [self._comm.Irecv(array, source=j, tag=7) for j, array in theirs.items()]
        requests += [self._comm.Isend(mine, dest=j, tag=7) for j in self.neighbours]
        self.where.wait(f"{self._around}, in a check")
        self._wait_all(requests)
        self.where.wait("")
        self.traffic[0].evaluation_bytes += mine.nbytes * len(self.neighbours)
        return [theirs]

    def rotate(self, arrays: Sequence[Vector]) -> list[Vector]:
        """Hand this node's array to the next node and return the one that came."""
        (mine,) = arrays
        if self.nodes == 1:
            return [mine]
        if self._spare is None or self._spare.shape != mine.shape:
            self._spare = np.empty_like(mine)
        came = self._spare
        i, n = self.local[0], self.nodes
        self.where.wait(f"rank {(i - 1) % n}, in an evaluation")
        self._comm.Sendrecv(mine, dest=(i + 1) % n, sendtag=8, recvbuf=came, source=(i - 1) % n, recvtag=8)
        self.where.wait("")
        self._spare = mine
        self.traffic[0].evaluation_bytes += mine.nbytes
        return [came]

    def mean(self, arrays: Sequence[Vector]) -> Vector:
        """Return the mean over nodes, added in node order."""
        self.where.wait("all ranks, in an evaluation")
        mean = self._in_order.sum(arrays[0]).copy()
        self.where.wait("")
        mean /= self.nodes
        self.traffic[0].count_evaluation(mean.nbytes, self.local[0], self.nodes)
        return mean

    def abandon(self) -> None:
        """End what is outstanding after a death; the network must not be used afterwards."""
        self._comm.Revoke()
        self.where.wait("")
        requests = self._exchange.outstanding() if isinstance(self._exchange, PatientExchange) else []
        with suppress(self.mpi.Exception):
            wait_each(requests if self._control is None else [*requests, self._control])
        self._control = None

    def close(self) -> None:
        """Cancel the receives still posted and give back the communicator."""
        self.control_finish()
        if self._exchange is not None:
            self._exchange.free()
        if not isinstance(self._exchange, PatientExchange):  # all ranks free it together: not where some may die
            with self.where.wait_in("all ranks, after training"):
                self._comm.Free()
