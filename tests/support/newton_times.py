"""Rank script: seconds until a job's method has the objective within a gap of the optimum, without any evaluation.

``newton_times.py JOB OPTIMUM GAP REPEATS LAUNCHED`` prints one JSON line on rank 0. ``LAUNCHED`` is the time of day at
which the ranks were started. The clock runs while steps run: it stops while the objective is looked at, which happens
after each step, and the fastest of the repeats counts. With ``OPTIMUM = -inf`` the run goes on to the job's last step
and the least objective seen is told: that is how an optimum is found. Memory is the largest of the ranks', in bytes:
``peak`` above the interpreter with everything imported and MPI started, ``shard`` the arrays of features, labels and
row numbers.
"""

import sys
import time
from pathlib import Path

LAUNCHED = float(sys.argv[5])


def resident_peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def shard_bytes(shard):
    parts = ("data", "indices", "indptr") if hasattr(shard.features, "indptr") else ()
    features = sum(getattr(shard.features, name).nbytes for name in parts) if parts else shard.features.nbytes
    return features + shard.labels.nbytes + shard.rows.nbytes


def main(path, optimum, gap, repeats):
    import json
    import os

    import numpy as np
    import scipy.linalg
    import scipy.sparse  # noqa: F401  as a run will need it

    from mpi_opt import launch
    from mpi_opt.build import build
    from mpi_opt.job import load_job
    from mpi_opt.network import mpi
    from mpi_opt.scaling.cost import NetworkProfile

    job = load_job(Path(path))
    collectives = launch.start_mpi(os.environ)
    comm = mpi.world()
    started = time.time() - LAUNCHED
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is resident now
    base = resident_peak()
    began = time.perf_counter()
    built = build(job, collectives, comm.size, (comm.rank,), lambda: NetworkProfile(*mpi.probe_world()))
    comm.Barrier()
    read = time.perf_counter() - began
    (problem,), (node,), (algorithm) = built.timed, built.nodes, built.algorithm
    share = problem.rows / built.loaded.info.rows

    def objective(x):
        mine = share * (problem.value(x) - problem.penalty(x))
        return comm.allreduce(mine) + problem.penalty(x)

    def train():
        network = mpi.MpiNetwork(comm, (), None)
        state, seconds, trace = algorithm.init(problem, np.zeros(problem.dim)), 0.0, []
        for _ in range(job.stop.steps):
            comm.Barrier()
            start = time.perf_counter()
            ((state, info),) = network.advance([algorithm.step(state, problem, node)])
            comm.Barrier()
            seconds += time.perf_counter() - start
            traffic = network.traffic[0]
            value = objective(algorithm.model(state))
            trace.append((seconds, traffic.rounds, value))
            if value - optimum <= gap or info.ended or info.diverged:
                break
        result = {
            "train": seconds,
            "value": min(value for *_, value in trace),
            "steps": len(trace),
            "rounds": traffic.rounds,
            "short_rounds": traffic.short_rounds,
            "bytes": traffic.payload_bytes,
            "wait": traffic.wait_seconds,
            "ended": info.ended,
            "trace": trace,
        }
        network.close()
        return result

    best = min((train() for _ in range(repeats)), key=lambda run: run["train"])
    memory = {
        "peak": comm.allreduce(resident_peak() - base, mpi.MPI.MAX),
        "shard": comm.allreduce(shard_bytes(built.loaded.train[0]), mpi.MPI.MAX),
        "dim": problem.dim,
    }
    if comm.rank == 0:
        print("TIMES " + json.dumps({"start": started, "read": read, "notes": built.notes, **memory, **best}))


main(sys.argv[1], *map(float, sys.argv[2:4]), int(sys.argv[4]))
