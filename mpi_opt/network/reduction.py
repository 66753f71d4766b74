"""Sums over all ranks at the master, and their answer to everybody.

The answer is broadcast, never computed twice, so that it has the same bits everywhere: plain Allreduce does not promise
that.
"""

from typing import Any

import numpy as np

from mpi_opt.types import Vector

MASTER = 0
_TAG = 5


class Reduction:
    """Sum and weighted mean of vectors over the ranks of a communicator; work buffers are kept by size.

    Parameters
    ----------
    comm : communicator
    mpi : module
        ``mpi4py.MPI``.
    ordered : bool
        Add in rank order at the master (reproducible whatever the MPI library) instead of by MPI's Reduce.
    """

    def __init__(self, comm: Any, mpi: Any, *, ordered: bool) -> None:
        self._comm, self._mpi, self._ordered = comm, mpi, ordered
        self._buffers: dict[int, tuple[Vector, Vector]] = {}

    def sum(self, array: Vector) -> Vector:
        """Return the sum over ranks, shape of ``array``; valid until the next call of this size."""
        mine, total = self._work(array.size)
        mine[:] = array
        self._reduce(mine, total)
        self._comm.Bcast(total, root=MASTER)
        return total

    def average(self, vector: Vector, weight: float) -> Vector:
        """Return ``sum weight * vector / sum weight``; the weight rides behind the vector in one message."""
        d = vector.size
        mine, total = self._work(d + 1)
        np.multiply(vector, weight, out=mine[:d])
        mine[d] = weight
        self._reduce(mine, total)
        mean = total[:d]
        if self._comm.rank == MASTER:
            mean /= total[d]
        self._comm.Bcast(mean, root=MASTER)
        return mean

    def _work(self, size: int) -> tuple[Vector, Vector]:
        if size not in self._buffers:
            self._buffers[size] = (np.empty(size), np.empty(size))
        return self._buffers[size]

    def _reduce(self, mine: Vector, total: Vector) -> None:
        """Leave the sum in ``total`` at the master; ``mine`` is used up."""
        comm = self._comm
        if not self._ordered:
            comm.Reduce(mine, total, op=self._mpi.SUM, root=MASTER)
        elif comm.rank != MASTER:
            comm.Send(mine, dest=MASTER, tag=_TAG)
        else:
            total[:] = mine
            for j in range(1, comm.size):
                comm.Recv(mine, source=j, tag=_TAG)
                total += mine
