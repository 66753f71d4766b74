"""Rank script: every registered method over MPI. ``methods_ranks.py OUT`` keeps each rank's model and counts."""

import sys

import numpy as np
from support import methods

from mpi_opt.network import mpi


def main(out):
    comm = mpi.world()
    kept = {}
    for name in (*methods.NAMES, methods.OVERLAPPED):
        for empty in (False, True):
            made = methods.make(name, comm.size, empty=empty)
            network = mpi.MpiNetwork(comm, made.neighbours[comm.rank], made.codec, ordered=True)
            states, ended = methods.drive(made, network, methods.begin(made, network), methods.STEPS)
            states, _ = methods.advance(made, network, states, settle=True)
            kept[f"{name}/{empty}/model"] = methods.models(made, states)[0]
            kept[f"{name}/{empty}/counts"] = methods.counts(network.traffic[0])
            kept[f"{name}/{empty}/ended"] = ended
            network.close()
    np.savez(f"{out}/{comm.rank}.npz", **kept)


main(sys.argv[1])
