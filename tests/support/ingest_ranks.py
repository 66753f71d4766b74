"""Read a set of text and its converted file on all ranks, in turns; rank 0 prints the fastest seconds of each, as JSON.

``ingest_ranks.py TEXT SHARDS ROUNDS``: from the barrier before to the slowest rank's end, opening included.
"""

import json
import sys
import time
from pathlib import Path

import h5py  # noqa: F401 - its import is no part of what is measured
from mpi4py import MPI

from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.spec import Reading
from mpi_opt.network.mpi import collectives_of


def main() -> None:
    comm = MPI.COMM_WORLD
    collectives = collectives_of(comm)
    words, rounds = sys.argv[1:3], int(sys.argv[3])
    seconds = {word: [] for word in words}
    for _ in range(rounds):
        for word in words:
            comm.Barrier()
            began = time.perf_counter()
            hold(word, [Path()], Reading(), collectives)
            seconds[word].append(float(collectives.max([time.perf_counter() - began])[0]))
    if comm.rank == 0:
        print(json.dumps([min(seconds[word]) for word in words]))


main()
