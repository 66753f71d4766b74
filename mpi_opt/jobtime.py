"""When the SLURM job that a run belongs to will be ended, and how long before that the run pauses."""

import math
import shutil
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime

from mpi_opt.network.collectives import Collectives

_SHARE, _LEAST, _MOST = 0.05, 15.0, 120.0
"""Margin: this share of the time left at the start, within these bounds, s."""

_ASKED_SECONDS = 20.0
"""Time for SLURM's answer; its controller may be busy, but a run does not wait for it."""


def end_of_job(environ: Mapping[str, str], collectives: Collectives) -> float:
    """Return the wall time (as by ``time.time``) at which the run is to pause; inf outside SLURM or without a limit.

    Called by all processes together; the first one asks for all.

    Parameters
    ----------
    environ : mapping
        The process's environment.
    collectives : Collectives
    """
    until = math.inf
    if collectives.rank == 0 and environ.get("SLURM_JOB_ID"):
        end = environ.get("SLURM_JOB_END_TIME", "")
        until = float(end) if end.isdecimal() else _ask(environ)
        if until < math.inf:
            now = time.time()
            until -= min(max(_SHARE * (until - now), _LEAST), _MOST)
    return float(collectives.broadcast(until))


def _ask(environ: Mapping[str, str]) -> float:
    """Return the end of the job by ``squeue``'s word; inf where it gives none."""
    program = shutil.which("squeue", path=environ.get("PATH"))
    if program is None:
        return math.inf
    try:
        done = subprocess.run(
            [program, "--noheader", "--jobs", environ["SLURM_JOB_ID"], "--format", "%e"],
            env={**environ, "SLURM_TIME_FORMAT": "standard"},  # people set others
            capture_output=True,
            text=True,
            timeout=_ASKED_SECONDS,
            check=False,
        )
        return datetime.fromisoformat(done.stdout.split()[0]).timestamp()
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return math.inf
