"""Rank script: run cases over MPI and keep each rank's iterates. ``trajectories.py OUT STEPS MODE NAME...``.

MODE is ``ordered`` or ``mpi`` (how sums are added), or ``poked``: ordered, with a pause and a look for arrivals between
any two steps.
"""

import sys
import time

import numpy as np
from support import cases

from mpi_opt.network import mpi


class Poked(mpi.MpiNetwork):
    """Counts the rounds that were found complete between steps, by Testall and not by waiting for them."""

    completed = 0

    def poke(self):
        if self._exchange is None or not self._exchange.in_flight:
            return
        time.sleep(2e-3)
        super().poke()
        self.completed += not self._exchange.in_flight


def main(out, steps, mode, *names):
    comm = mpi.world()
    if mode == "poked":
        mpi._POKE_SECONDS = 0.0
    for number, name in enumerate(names):
        made = cases.make(name, comm.size)
        kind = Poked if mode == "poked" else mpi.MpiNetwork
        network = kind(comm, made.neighbours[comm.rank], made.codec, ordered=mode != "mpi")
        X, fired, final, states = cases.drive(made, network, int(steps))
        traffic = network.traffic[0]
        np.savez(
            f"{out}/{number}_{comm.rank}.npz", X=X[:, 0], fired=fired[:, 0], final=final[0],
            sent=[traffic.messages, traffic.silences, traffic.payload_bytes, traffic.header_bytes],
            rounds=traffic.rounds, completed=getattr(network, "completed", 0),
        )  # fmt: skip
        network.close()


main(*sys.argv[1:])
