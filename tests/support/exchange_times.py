"""Rank script: seconds of a ring exchange of ready messages, by the package's plan and by bare Isend/Irecv.

``exchange_times.py BYTES ROUNDS`` prints one JSON line on rank 0: medians over blocks, the two taken in turns.
"""

import json
import statistics
import sys
import time

import numpy as np
from mpi4py import MPI

from mpi_opt.network.exchange import NeighbourExchange


def main(nbytes, rounds, blocks=30):
    comm = MPI.COMM_WORLD
    n, i = comm.size, comm.rank
    around = tuple(sorted({(i - 1) % n, (i + 1) % n} - {i}))
    plan = NeighbourExchange(comm.Dup(), MPI, around, nbytes)
    for r in range(2):
        plan.outgoing(r)[:] = i
    out = np.full(nbytes, i, dtype=np.uint8)
    into = [np.empty(nbytes, dtype=np.uint8) for _ in around]
    position = [0]

    def ours():
        for r in range(position[0], position[0] + rounds):
            plan.start(r, nbytes)
            plan.finish(r)
            plan.release(r)
        position[0] += rounds

    def bare():
        for _ in range(rounds):
            requests = [comm.Irecv([b, nbytes, MPI.BYTE], j, 1) for j, b in zip(around, into, strict=True)]
            requests += [comm.Isend([out, nbytes, MPI.BYTE], j, 1) for j in around]
            MPI.Request.Waitall(requests)

    times = {"ours": [], "bare": []}
    for _ in range(blocks + 2):
        for name, go in (("ours", ours), ("bare", bare)):
            comm.Barrier()
            began = time.perf_counter()
            go()
            times[name].append((time.perf_counter() - began) / rounds)
    plan.free()
    if i == 0:
        ratios = [a / b for a, b in zip(times["ours"][2:], times["bare"][2:], strict=True)]
        medians = {name: statistics.median(values[2:]) for name, values in times.items()}
        print("TIMES " + json.dumps({**medians, "ratio": statistics.median(ratios)}))


main(int(sys.argv[1]), int(sys.argv[2]))
