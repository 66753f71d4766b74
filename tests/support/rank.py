"""What one rank of ``mpirun`` runs: keep its output apart, show its stack before the time limit, then the program.

Arguments: folder of the logs, time of day for the stacks, then what ``mpirun`` was given.
"""

import faulthandler
import os
import runpy
import sys
import time

_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def main() -> None:
    """Redirect, arm, run."""
    folder, stacks_at, *args = sys.argv[1:]
    rank = next((os.environ[name] for name in _RANK_VARIABLES if name in os.environ), "0")
    log = os.open(os.path.join(folder, f"rank_{rank}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(0.1, float(stacks_at) - time.time()))
    if args[0] == "mpi-opt":
        del sys.path[0]  # as for the installed command: neither this folder nor the working folder
        sys.argv = args
        runpy.run_module("mpi_opt", run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.getcwd()
    sys.argv = ["mpi4py", *args]
    runpy.run_module("mpi4py", run_name="__main__", alter_sys=True)


main()
