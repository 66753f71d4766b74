"""Rank script: second-order cases over MPI, in rank order and in MPI's own. ``second_order_ranks.py OUT NAME...``.

Each rank keeps its models after every step, what the package counted, and what a wrapper of the communicator saw it
hand over.
"""

import sys

import numpy as np
from support import second_order

from mpi_opt.network import mpi


class Counting:
    """A communicator that adds up the bytes and messages it is given; a call it does not know is an error."""

    def __init__(self, comm, seen=None):
        self._comm = comm
        self.seen = {"bytes": 0, "messages": 0, "answers": 0} if seen is None else seen
        self.rank, self.size = comm.rank, comm.size

    def Dup(self):
        return Counting(self._comm.Dup(), self.seen)

    def Free(self):
        self._comm.Free()

    def _give(self, buffer, copies):
        self.seen["bytes"] += memoryview(buffer).nbytes * copies
        self.seen["messages"] += copies

    def Reduce(self, mine, total, op, root):
        self._give(mine, int(self.rank != root))
        self._comm.Reduce(mine, total, op=op, root=root)

    def Send(self, buffer, dest, tag):
        self._give(buffer, 1)
        self._comm.Send(buffer, dest=dest, tag=tag)

    def Recv(self, buffer, source, tag):
        self._comm.Recv(buffer, source=source, tag=tag)

    def Bcast(self, buffer, root):
        self.seen["answers"] += 1
        self._give(buffer, self.size - 1 if self.rank == root else 0)
        self._comm.Bcast(buffer, root=root)


def main(out, *names):
    for number, name in enumerate(names):
        for mode in ("ordered", "mpi"):
            one(f"{out}/{mode}_{number}", name, mode)


def one(path, name, mode):
    comm = Counting(mpi.world())
    made = second_order.make(name, comm.size)
    network = mpi.MpiNetwork(comm, (), None, ordered=mode == "ordered")
    seen, _ = second_order.drive(made, network, second_order.CASES[name].steps)
    t = network.traffic[0]
    np.savez(
        f"{path}_{comm.rank}.npz",
        w=[step.w[0] for step in seen],
        counts=[[step.rounds, step.short] for step in seen],
        ended=seen[-1].ended,
        ours=[t.payload_bytes + t.header_bytes, t.messages, t.rounds + t.short_rounds],
        theirs=[comm.seen["bytes"], comm.seen["messages"], comm.seen["answers"]],
    )
    network.close()


main(*sys.argv[1:])
