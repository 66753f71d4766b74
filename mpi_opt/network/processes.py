"""The collectives of ``collectives.py`` over a communicator: set-up, reading and evaluation, never a step."""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt import errors
from mpi_opt.network.base import Whereabouts


class Processes:
    """Collectives among the ranks of a communicator.

    Parameters
    ----------
    comm : communicator
    mpi : module
        ``mpi4py.MPI``.
    where : Whereabouts, optional
        Where waits are noted.
    chunk : int
        Most elements handed to one MPI call for each pair of ranks: MPI 3 counts in 32-bit integers.
    """

    def __init__(self, comm: Any, mpi: Any, where: Whereabouts | None = None, chunk: int = 2**27) -> None:
        self._comm, self._mpi, self._chunk = comm, mpi, chunk
        self.where = Whereabouts() if where is None else where
        self.rank, self.size = int(comm.rank), int(comm.size)

    def max(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the element-wise maximum over ranks."""
        mine = np.ascontiguousarray(values, dtype=np.float64)
        out = np.empty_like(mine)
        with self._waiting():
            self._comm.Allreduce(mine, out, op=self._mpi.MAX)
        return out

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the element-wise sum over ranks, added in rank order."""
        mine = np.ascontiguousarray(values)
        all_of_them = np.empty((self.size, *mine.shape), dtype=mine.dtype)
        with self._waiting():
            self._comm.Allgather(mine, all_of_them)
        total: npt.NDArray[Any] = all_of_them[0].copy()
        for part in all_of_them[1:]:
            total += part
        return total

    def gather(self, item: Any) -> list[Any]:
        """Return every rank's item, in rank order.

        Raises
        ------
        GarbledError
            What came is no pickled object.
        """
        with self._waiting(), self._whole():
            return list(self._comm.allgather(item))

    def broadcast(self, item: Any, root: int = 0) -> Any:
        """Return the root's item; raises as `gather` does."""
        with self._waiting(), self._whole():
            return self._comm.bcast(item, root=root)

    def all_to_all(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Send ``arrays[p]`` to rank p and return what came, in pieces that fit MPI's counts."""
        dtype = arrays[0].dtype
        lengths = np.array([array.size for array in arrays], dtype=np.int64)
        coming = np.empty_like(lengths)
        with self._waiting():
            self._comm.Alltoall(lengths, coming)
        received = [np.empty(length, dtype=dtype) for length in coming]
        most = int(self.max([lengths.max()])[0])
        for at in range(0, most, self._chunk):
            out = [np.ascontiguousarray(array[at : at + self._chunk]) for array in arrays]
            came = [array[at : at + self._chunk] for array in received]
            requests = [self._comm.Irecv(part, source=p, tag=9) for p, part in enumerate(came) if part.size]
            requests += [self._comm.Isend(part, dest=p, tag=9) for p, part in enumerate(out) if part.size]
            with self._waiting():
                self._mpi.Request.Waitall(requests)
        return received

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Note the wait inside; where it fails, nobody is waited for any more."""
        self.where.wait("all ranks")
        try:
            yield
        finally:
            self.where.wait("")

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Tell unreadable objects from errors of MPI: under ULFM a collective may end well, but without data."""
        try:
            yield
        except self._mpi.Exception:
            raise
        except Exception as error:
            raise errors.GarbledError(
                f"what came from other ranks cannot be read ({type(error).__name__}: {error}); one may have died"
            ) from error

    def check(self, error: Exception | None) -> None:
        """Raise on every rank if any has an error; the first rank's message is the one shown.

        The error raised carries ``everywhere = True``: nobody needs to be ended by force.
        """
        mine = None if error is None else (type(error).__name__, str(error), _trace(error))
        found = [(rank, item) for rank, item in enumerate(self.gather(mine)) if item is not None]
        if not found:
            return
        rank, (kind, text, trace) = found[0]
        known = getattr(errors, kind, None)
        if known is not None:
            shared: errors.MpiOptError = known(text)
        else:
            shared = errors.RankFailedError(f"rank {rank} failed: {kind}: {text}\n{trace}")
        shared.everywhere = True
        raise shared from error


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))
