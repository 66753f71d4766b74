"""The virtual clock of a job that is simulated: made of its table ``[clock]``, and in words."""

import msgspec
import numpy as np

from mpi_opt.build import Built
from mpi_opt.job import Job
from mpi_opt.network.clock import Clock
from mpi_opt.network.pace import Pace
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.scaling.profiles import parse_profile
from mpi_opt.types import Vector

IGNORED = "the job's table [clock] is for mpi-opt simulate: here seconds are measured"

_COMPUTING = {"counted": "counted by operations", "measured": "as measured in this process"}


def clock_of(built: Built) -> Clock | None:
    """Return the clock that the job asks for, at zero; ``None`` where it asks for none."""
    table, job, phases = built.job.clock, built.job, built.phases
    if table is None:
        return None

    def meter() -> tuple[Vector, Vector]:
        return np.array([each.compute for each in phases]), np.array([each.compress for each in phases])

    fixed = not isinstance(table.compute, str)
    stragglers = table.stragglers
    pace = Pace(
        len(phases),
        job.seed,
        spread=table.speed_spread,
        share=0.0 if stragglers is None else stragglers.share,
        factor=1.0 if stragglers is None else stragglers.factor,
    )
    return Clock(
        built.neighbours(),
        network_of(job),
        pace=pace,
        meter=None if fixed else meter,
        step_seconds=float(table.compute) if fixed else 0.0,
    )


def network_of(job: Job) -> NetworkProfile:
    """Return the network of a job with a clock."""
    assert job.clock is not None
    return parse_profile(job.clock.network)[1]


def in_words(job: Job) -> str:
    """Return how the seconds of a simulated run came about; empty without a clock."""
    table = job.clock
    if table is None:
        return ""
    name, profile = parse_profile(table.network)
    network = str(profile) if "=" in name else f"{name} ({profile})"
    computing = _COMPUTING[table.compute] if isinstance(table.compute, str) else f"{table.compute:g} s a step"
    parts = [f"network {network}", f"computing {computing}"]
    if table.speed_spread:
        parts.append(f"speeds spread by {table.speed_spread:g}")
    if table.stragglers is not None:
        parts.append(f"a share of {table.stragglers.share:g} straggles by {table.stragglers.factor:g}")
    return f"simulated: {', '.join(parts)}"


def without_clock(job: Job) -> Job:
    """Return the job without its table ``[clock]``."""
    return job if job.clock is None else msgspec.structs.replace(job, clock=None)
