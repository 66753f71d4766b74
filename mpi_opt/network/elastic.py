"""Going on without ranks that died: notice, revoke, shrink, agree (ULFM, Open MPI 5 under ``--with-ft ulfm``).

What is known of that MPI and kept to here: after a death every outstanding request is waited for by itself, each in its
own ``try``, for a Waitall that fails ends the process; the first error revokes the communicator, so that ranks which
wait for living neighbours wake up as well; only then is it shrunk. Old communicators are never freed, and MPI is not
finalized after a death: both may hang.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpi_opt.errors import GarbledError
from mpi_opt.types import Bytes

_TAG = 1

_ANCESTORS = 8
"""How far up the launcher is looked for: a script may stand between it and a rank."""


def wait_each(
    requests: Iterable[Any], statuses: list[Any] | None = None, failed: Callable[[], None] | None = None
) -> None:
    """Wait for all requests, one by one, also behind one that fails; raise the first error at the end.

    Parameters
    ----------
    requests : iterable of request
    statuses : list of Status, optional
        Filled in the order of the requests.
    failed : callable, optional
        Called at the first error, so that the rest comes to an end too.
    """
    first: Exception | None = None
    for at, request in enumerate(requests):
        try:
            request.Wait(None if statuses is None else statuses[at])
        except RuntimeError as error:  # mpi4py's exceptions are of this kind
            if first is None:
                first = error
                if failed is not None:
                    failed()
    if first is not None:
        raise first


class PatientExchange:
    """`exchange.NeighbourExchange` for a network that may lose ranks; parameters as there."""

    def __init__(self, comm: Any, mpi: Any, neighbours: tuple[int, ...], max_bytes: int) -> None:
        self._comm, self._mpi, self._neighbours, self._max_bytes = comm, mpi, neighbours, max_bytes
        self._outgoing = [np.empty(max_bytes, dtype=np.uint8) for _ in range(2)]
        self._incoming = [[np.empty(max_bytes, dtype=np.uint8) for _ in neighbours] for _ in range(2)]
        self._receives = [self._post(parity) for parity in range(2)]
        self._statuses = [mpi.Status() for _ in range(2 * len(neighbours))]
        self._requests: list[Any] = []
        self._left: list[int] = []

    def _post(self, parity: int) -> list[Any]:
        return [
            self._comm.Irecv([buffer, self._max_bytes, self._mpi.BYTE], source=j, tag=_TAG + parity)
            for j, buffer in zip(self._neighbours, self._incoming[parity], strict=True)
        ]

    @property
    def in_flight(self) -> bool:
        """Whether a round was started and is not known to be complete."""
        return bool(self._left)

    def outgoing(self, round: int) -> Bytes:
        """Return the buffer that the message of ``round`` is to be written into."""
        return self._outgoing[round % 2]

    def start(self, round: int, nbytes: int) -> None:
        """Hand the first ``nbytes`` of the outgoing buffer to every neighbour, without waiting."""
        parity = round % 2
        message = [self._outgoing[parity], nbytes, self._mpi.BYTE]
        self._requests = list(self._receives[parity])
        for j in self._neighbours:
            self._requests.append(self._comm.Isend(message, j, _TAG + parity))
        self._left = list(range(len(self._requests)))

    def poke(self) -> None:
        """Let the round in flight move on."""
        self._left = [at for at in self._left if not self._requests[at].Test(self._statuses[at])]

    def finish(self, round: int) -> list[tuple[int, Bytes]]:
        """Wait for the round; return ``(sender, bytes)`` of those who spoke, in ascending order, until ``release``."""
        left, self._left = self._left, []
        statuses = [self._statuses[at] for at in left]
        wait_each((self._requests[at] for at in left), statuses, self._comm.Revoke)
        self._requests = []
        buffers = zip(self._neighbours, self._incoming[round % 2], self._statuses, strict=False)
        return [(j, buffer[: status.count]) for j, buffer, status in buffers if status.count]

    def release(self, round: int) -> None:
        """Post the receives of ``round + 2`` into the buffers that ``finish`` showed."""
        self._receives[round % 2] = self._post(round % 2)

    def free(self) -> None:
        """Cancel what is posted."""
        for request in (*self._receives[0], *self._receives[1]):
            request.Cancel()
            request.Wait()
        self._receives = [[], []]

    def outstanding(self) -> list[Any]:
        """Return every request that may not be complete."""
        return [*self._receives[0], *self._receives[1], *self._requests]


def tolerant_launcher(environ: Mapping[str, str]) -> int | None:
    """Return the process that started this one, where it tolerates deaths; else ``None``.

    Under ``--with-ft ulfm`` MPI_Abort hangs on all ranks as long as none has died. The launcher itself, or its daemon
    on another host, then has to be ended: the ranks go with it.
    """
    if environ.get("OMPI_MCA_mpi_ft_enable", "").lower() not in ("1", "true", "yes"):
        return None
    pid = os.getppid()
    for _ in range(_ANCESTORS):
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            return None
        if name.startswith("prte"):
            return pid
        pid = int(rest.split()[1])
    return None


class Cut(NamedTuple):
    """What the survivors agreed on.

    Attributes
    ----------
    lost : tuple of int
        Ranks of the old communicator that died; empty where the error was none of a death.
    survivors : tuple of int
        The others, in the order of their new ranks.
    items : list of object
        What each of them handed over, in that order.
    """

    lost: tuple[int, ...]
    survivors: tuple[int, ...]
    items: list[Any]


class Crew:
    """The ranks that live.

    Parameters
    ----------
    comm : communicator
        Of all ranks; duplicated. ``Crew.comm`` is the one of those who live.
    mpi : module
        ``mpi4py.MPI``.

    Attributes
    ----------
    faults : tuple of exception classes
        What a call raises in which a death is noticed. Which error it is says little: after a death, others than the
        one of a failed process come up too, and a collective may end without one, and without its data. So every MPI
        error, and objects that cannot be read, lead to a `cut`, which tells whether anybody died.
    members : tuple of int
        Numbers that the ranks of ``comm`` had at the start.
    cuts : int
        How often ranks were lost.
    """

    def __init__(self, comm: Any, mpi: Any) -> None:
        self._mpi = mpi
        self.comm = comm.Dup()
        self.faults: tuple[type[Exception], ...] = (mpi.Exception, GarbledError)
        self.members = tuple(range(self.comm.size))
        self.cuts = 0
        self._abandon: Callable[[], None] | None = None
        self._kept: list[Any] = []
        self._agreed = False

    def watch(self, abandon: Callable[[], None]) -> None:
        """Have ``abandon`` called in a `cut`: it ends what a network has outstanding."""
        self._abandon = abandon

    def agree(self, over: bool) -> bool:
        """Return whether all ranks are at the end of training, and alive; the same on all that live.

        Called once by each rank on each communicator, by way of `cut` where training met an error.
        """
        self._agreed = True
        try:
            return bool(self.comm.Agree(int(over)))
        except self._mpi.Exception:
            return False

    def cut(self, item: Any) -> Cut:
        """Leave the dead behind; called by all survivors, each of which hands over an ``item``.

        Ranks that die meanwhile are left behind as well: what is returned holds for all who return.
        """
        old, mpi = self.comm, self._mpi
        old.Revoke()
        if self._abandon is not None:
            self._abandon()
            self._abandon = None
        if not self._agreed:
            self.agree(False)
        self._kept.append(old)
        fresh, packed = old.Shrink(), mpi.pickle.dumps((old.rank, item))
        while True:
            fine, came = 1, []
            try:
                came = [mpi.pickle.loads(each) for each in fresh.allgather(packed)]
            except Exception:  # of MPI, or of what it left unfilled; what is packed is whole
                fine = 0
                fresh.Revoke()
            try:
                fine = fresh.Agree(fine)
            except mpi.Exception:
                fine = 0
            if fine:
                break
            self._kept.append(fresh)
            fresh = fresh.Shrink()
        survivors = tuple(rank for rank, _ in came)
        lost = tuple(sorted(set(range(old.size)) - set(survivors)))
        self.members = tuple(self.members[rank] for rank in survivors)
        self.comm, self._agreed, self.cuts = fresh, False, self.cuts + 1
        return Cut(lost, survivors, [item for _, item in came])
