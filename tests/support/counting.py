"""Rank script: count, apart from the package, what it hands to MPI. ``counting.py OUT STEPS NAME...``.

The wrapper stands where the package's communicator would, and adds up the sizes of the very buffers it is given.
Between steps, with messages in flight, control reductions run and models move as an evaluation moves them.
"""

import json
import sys

import numpy as np
from mpi4py import MPI
from support import cases

from mpi_opt.network import mpi

CONTROL_EVERY, EVALUATE_EVERY = 4, 7


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
        self.counts = (
            {"bytes": 0, "messages": 0, "empty": 0, "control": 0, "evaluation": 0, "evaluating": False}
            if counts is None
            else counts
        )

    def __getattr__(self, name):
        if name in {"rank", "size", "Recv_init", "Recv", "Irecv", "Free"}:
            return getattr(self._comm, name)
        raise AttributeError(f"the package calls {name}, which nobody counts")

    def Dup(self):
        return Counting(self._comm.Dup(), self.counts)

    def _count(self, size, copies=1):
        if self.counts["evaluating"]:
            self.counts["evaluation"] += size * copies
            return
        self.counts["bytes"] += size * copies
        self.counts["messages" if size else "empty"] += copies

    def Isend(self, buffer, dest, tag=0):
        self._count(nbytes(buffer))
        return self._comm.Isend(buffer, dest, tag)

    def Send(self, buffer, dest, tag=0):
        self._count(nbytes(buffer))
        self._comm.Send(buffer, dest, tag)

    def Sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag):
        self._count(nbytes(sendbuf))
        self._comm.Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag)

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


class Busy(mpi.MpiNetwork):
    """Between steps it does what the loop would: control, and what an evaluation moves; it checks what comes."""

    steps = 0

    def poke(self):
        super().poke()
        self.steps += 1
        n, i = self.nodes, self.local[0]
        if self.steps % CONTROL_EVERY == 0:
            if self.steps > CONTROL_EVERY:
                agreed = self.control_finish()
                assert agreed.tolist() == [n - 1.0, self.steps - CONTROL_EVERY, -self.steps + CONTROL_EVERY], agreed
            self.control_start(np.array([i, self.steps, -float(self.steps)]))
        if self.steps % EVALUATE_EVERY == 0:
            self._comm.counts["evaluating"] = True
            (came,) = self.rotate([np.full(19, float(i))])
            assert (came == (i - 1) % n).all()
            np.testing.assert_allclose(self.mean([np.full(11, float(i))]), (n - 1) / 2, rtol=1e-15)
            (shared,) = self.share([np.full(5, float(i))])
            assert {j: array.tolist() for j, array in shared.items()} == {j: [float(j)] * 5 for j in self.neighbours}
            self._comm.counts["evaluating"] = False


def main(out, steps, *names):
    result = []
    for name in names:
        for ordered in (False, True):
            comm = Counting(mpi.world())
            made = cases.make(name, comm.size)
            network = Busy(comm, made.neighbours[comm.rank], made.codec, ordered=ordered)
            cases.drive(made, network, int(steps))
            t = network.traffic[0]
            ours = {
                "bytes": t.payload_bytes + t.header_bytes,
                "messages": t.messages,
                "empty": t.silences,
                "control": t.control_bytes,
                "evaluation": t.evaluation_bytes,
            }
            network.close()
            theirs = {key: comm.counts[key] for key in ours}
            result.append({"name": name, "ours": ours, "theirs": theirs})
    with open(f"{out}/{MPI.COMM_WORLD.rank}.json", "w") as file:
        json.dump(result, file)


main(*sys.argv[1:])
