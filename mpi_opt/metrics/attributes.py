"""Where a result came from: the root attributes of a metrics file."""

import functools
import importlib.metadata
import math
import platform
import shlex
from collections.abc import Sequence


@functools.cache
def version_of(package: str) -> str:
    """Return the version of an installed package, ``"not installed"`` for one that runs from its source folder."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def run_attributes(
    *,
    job: str,
    name: str,
    seed: int,
    node: int,
    nodes: int,
    mpi_library: str,
    threads: int,
    command: Sequence[str],
    started: str,
    graph: str = "",
    spectral_gap: float = math.nan,
    consensus_rate: float = math.nan,
    clock: str = "",
) -> dict[str, str | int | float]:
    """Return the attributes named in ``schema.ATTRIBUTES``; versions and host are those of this process.

    Parameters
    ----------
    job : str
        The resolved job as TOML text.
    name : str
        The job's name.
    seed, node, nodes : int
        Seed of the run, number of this node and of all nodes.
    mpi_library : str
        What the MPI library calls itself; ``"lockstep"`` without MPI.
    threads : int
        BLAS threads of the process.
    command : sequence of str
        The command line's words.
    started : str
        Start of the run, ISO 8601 in UTC, the same text on every node.
    graph : str, optional
        Name of the graph; empty for methods that reduce over all nodes.
    spectral_gap, consensus_rate : float, optional
        Of the mixing matrix, and gamma as used; NaN where there is none.
    clock : str, optional
        How seconds were simulated; empty where they were measured.
    """
    import h5py

    return {
        "job": job,
        "name": name,
        "seed": seed,
        "node": node,
        "nodes": nodes,
        "version_mpi_opt": version_of("mpi_opt"),
        "version_python": platform.python_version(),
        "version_numpy": version_of("numpy"),
        "version_scipy": version_of("scipy"),
        "version_h5py": str(h5py.version.version),
        "version_hdf5": str(h5py.version.hdf5_version),
        "host": platform.node(),
        "mpi_library": mpi_library,
        "threads": threads,
        "command": shlex.join(command),
        "started": started,
        "graph": graph,
        "spectral_gap": spectral_gap,
        "consensus_rate": consensus_rate,
        "clock": clock,
    }
