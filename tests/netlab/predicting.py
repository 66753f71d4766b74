"""``python -m netlab.predicting JOB NETWORK``: what the model says of a step on four nodes, in seconds.

One node's own work is timed here, three times, and the middle taken; the network is what ``mpi-opt info --network
--json`` wrote, or, for ``-``, none.
"""

import sys
from pathlib import Path

from mpi_opt.build import build
from mpi_opt.forecast.calibrate import work_of_job
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.scaling.fitted import read_network
from mpi_opt.scaling.stepmodel import predict_step


def main(job: str, network: str) -> int:
    """Print it."""
    profile = NetworkProfile(0.0, float("inf")) if network == "-" else read_network(Path(network)).profile
    built = build(load_job(Path(job)), Solo(), 4, range(4))
    # Long enough for whole courses, or the reductions that begin one would count for more steps than they are part of.
    said = [predict_step(work_of_job(built, seconds=0.4, split=False), profile).total for _ in range(3)]
    print(sorted(said)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
