"""Rank script: run cases over MPI and keep each rank's iterates. ``trajectories.py OUT STEPS MODE NAME...``."""

import sys

import numpy as np
from support import cases

from mpi_opt.network import mpi


def main(out, steps, mode, *names):
    comm = mpi.world()
    for number, name in enumerate(names):
        made = cases.make(name, comm.size)
        network = mpi.MpiNetwork(comm, made.neighbours[comm.rank], made.codec, ordered=mode == "ordered")
        X, fired, final, states = cases.drive(made, network, int(steps))
        traffic = network.traffic[0]
        np.savez(
            f"{out}/{number}_{comm.rank}.npz", X=X[:, 0], fired=fired[:, 0], final=final[0],
            sent=[traffic.messages, traffic.silences, traffic.payload_bytes, traffic.header_bytes],
        )  # fmt: skip
        network.close()


main(*sys.argv[1:])
