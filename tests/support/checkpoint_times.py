"""Rank script: the command, with the time that each checkpoint took on its slowest rank. Arguments: mpi-opt's."""

import sys
import time

from mpi4py import MPI

from mpi_opt.cli import main
from mpi_opt.run.loop import Run

plain, times = Run._checkpoint, []


def timed(self):
    MPI.COMM_WORLD.Barrier()
    began = time.perf_counter()
    plain(self)
    times.append(time.perf_counter() - began)


Run._checkpoint = timed
code = main(sys.argv[1:])
longest = MPI.COMM_WORLD.reduce(times, op=lambda a, b: list(map(max, a, b)))
if MPI.COMM_WORLD.rank == 0:
    print("checkpoints", *(f"{seconds:.4f}" for seconds in longest))
sys.exit(code)
