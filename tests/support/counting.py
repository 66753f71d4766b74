"""Rank script: count, apart from the package, what it hands to MPI. ``counting.py OUT STEPS NAME...``.

The wrapper stands where the package's communicator would, and adds up the sizes of the very buffers it is given.
"""

import json
import sys

from mpi4py import MPI
from support import cases

from mpi_opt.network import mpi


def nbytes(buffer):
    """Return the bytes of what MPI is told to send: an array, or [array, count, datatype]."""
    if isinstance(buffer, (list, tuple)):
        _, count, datatype = buffer
        return count * datatype.Get_size()
    return memoryview(buffer).nbytes


class Counting:
    """A communicator that counts; whatever moves no data passes through."""

    def __init__(self, comm, counts=None):
        self._comm = comm
        self.counts = {"bytes": 0, "messages": 0, "empty": 0, "control": 0} if counts is None else counts

    def __getattr__(self, name):
        if name in {"rank", "size", "Recv_init", "Recv", "Irecv", "Free"}:
            return getattr(self._comm, name)
        raise AttributeError(f"the package calls {name}, which nobody counts")

    def Dup(self):
        return Counting(self._comm.Dup(), self.counts)

    def _count(self, size, copies=1):
        self.counts["bytes"] += size * copies
        self.counts["messages" if size else "empty"] += copies

    def Isend(self, buffer, dest, tag=0):
        self._count(nbytes(buffer))
        return self._comm.Isend(buffer, dest, tag)

    def Send(self, buffer, dest, tag=0):
        self._count(nbytes(buffer))
        self._comm.Send(buffer, dest, tag)

    def Reduce(self, mine, total, op, root):
        if self._comm.rank != root:
            self._count(nbytes(mine))
        self._comm.Reduce(mine, total, op=op, root=root)

    def Bcast(self, buffer, root):
        if self._comm.rank == root:
            self._count(nbytes(buffer), self._comm.size - 1)
        self._comm.Bcast(buffer, root=root)

    def Iallreduce(self, mine, out, op):
        self.counts["control"] += nbytes(mine) if self._comm.size > 1 else 0
        return self._comm.Iallreduce(mine, out, op=op)


def main(out, steps, *names):
    result = []
    for name in names:
        for ordered in (False, True):
            comm = Counting(mpi.world())
            made = cases.make(name, comm.size)
            network = mpi.MpiNetwork(comm, made.neighbours[comm.rank], made.codec, ordered=ordered)
            cases.drive(made, network, int(steps))
            t = network.traffic[0]
            ours = {
                "bytes": t.payload_bytes + t.header_bytes,
                "messages": t.messages,
                "empty": t.silences,
                "control": t.control_bytes,
            }
            network.close()
            result.append({"name": name, "ours": ours, "theirs": comm.counts})
    with open(f"{out}/{MPI.COMM_WORLD.rank}.json", "w") as file:
        json.dump(result, file)


main(*sys.argv[1:])
