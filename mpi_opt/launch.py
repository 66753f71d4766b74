"""How this process was started: read from the launcher's environment, checked against what MPI found.

Nothing here imports MPI at the top, so that help and job errors cost no start-up. The environment is always handed in.
"""

import os
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from mpi_opt.errors import LaunchError

if TYPE_CHECKING:
    from mpi_opt.network.collectives import Collectives
    from mpi_opt.network.processes import Processes

_SIZES = ("OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE")
_RANKS = ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
_CHOICE = ("MPI4PY_LIBMPI", "MPI4PY_MPIABI")
KNOWN_VARIABLES = _SIZES + _RANKS + _SLURM + _CHOICE + _THREADS
"""Variables that say how a process was started and what it runs with."""

_REMEDIES = (
    "(1) start with the mpiexec that belongs to this MPI; "
    "(2) under SLURM, srun --mpi=pmi2 or --mpi=pmix, or that mpiexec inside the allocation; "
    "(3) install the MPI wheel with its own mpiexec: pip install 'mpi_opt[mpi]' (not on top of a cluster's MPI)"
)


def _in_step(environ: Mapping[str, str]) -> bool:
    """Return whether srun started this process: a batch script has a SLURM_PROCID too, but is no step of tasks."""
    return "SLURM_PROCID" in environ and ("SLURM_STEP_ID" in environ or "SLURM_STEP_NUM_TASKS" in environ)


def _number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    found = (environ[name] for name in names if environ.get(name, "").isdecimal())
    return next(map(int, found), None)


def launcher_size(environ: Mapping[str, str]) -> int | None:
    """Return how many processes the launcher says it started; ``None`` where no launcher is seen or it does not say.

    PMIx alone names no size; ``srun --mpi=pmix`` is seen by SLURM's own variables.
    """
    size = _number(environ, _SIZES)
    if size is None and _in_step(environ):
        size = _number(environ, ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))
    return size


def rank_from_environ(environ: Mapping[str, str]) -> int | None:
    """Return this process's rank by the launcher's word; ``None`` where no launcher is seen."""
    rank = _number(environ, _RANKS)
    if rank is None and _in_step(environ):
        rank = _number(environ, ("SLURM_PROCID",))
    return rank


def check_launch(size: int, environ: Mapping[str, str]) -> None:
    """Refuse a world of one process where the launcher started more.

    Parameters
    ----------
    size : int
        Size of MPI's world.
    environ : mapping
        The process's environment.

    Raises
    ------
    LaunchError
        Each process thinks it is alone: the launcher belongs to another MPI than the one loaded. Names the remedies.
    """
    started = launcher_size(environ)
    if size == 1 and started is not None and started > 1:
        raise LaunchError(
            f"the launcher started {started} processes, but each finds itself alone in MPI: "
            f"the launcher and the MPI library that is loaded do not belong together. Remedies: {_REMEDIES}"
        )


def check_library(library: str, environ: Mapping[str, str]) -> None:
    """Refuse an MPI library that the launcher cannot start.

    Parameters
    ----------
    library : str
        The library's own version line.
    environ : mapping
        The process's environment.

    Raises
    ------
    LaunchError
        Open MPI's launcher with another library, or a launcher of MPICH's kind with Open MPI. Names the remedies.
    """
    theirs = "Open MPI" in library
    by_open_mpi = any(name in environ for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
    by_hydra = "PMI_SIZE" in environ and not by_open_mpi and "PMIX_RANK" not in environ
    if (by_open_mpi and not theirs) or (by_hydra and theirs):
        launcher = "Open MPI's mpiexec" if by_open_mpi else "an mpiexec of MPICH's kind"
        raise LaunchError(f"{launcher} started this process, but the MPI loaded is {library}. Remedies: {_REMEDIES}")


def without_ulfm(library: str, environ: Mapping[str, str]) -> str:
    """Return why the death of a rank cannot be outlived here (ULFM); empty where it can.

    Parameters
    ----------
    library : str
        The library's own version line.
    environ : mapping
        The process's environment.
    """
    found = re.search(r"Open MPI v(\d+)", library)
    if found is None or int(found[1]) < 5:
        return f"it needs Open MPI 5 or newer, this is {library}"
    if environ.get("OMPI_MCA_mpi_ft_enable", "").lower() not in ("1", "true", "yes"):
        return "Open MPI has to be started for it: mpiexec --with-ft ulfm ..."
    return ""


def leave(code: int) -> int:
    """Return ``code``, unless ranks were lost: then end the process with it, since MPI's own end would hang."""
    if "mpi4py.MPI" in sys.modules:
        from mpi_opt.network.mpi import leave as go

        go(code)
    return code


def check_alone(command: str, environ: Mapping[str, str]) -> None:
    """Refuse several processes for a command that runs in one.

    Raises
    ------
    LaunchError
        A launcher started more than one.
    """
    started = launcher_size(environ)
    if started is not None and started > 1:
        raise LaunchError(
            f"'mpi-opt {command}' runs in one process, but the launcher started {started}; start it without mpiexec"
        )


def processes(environ: Mapping[str, str]) -> "Collectives":
    """Return the collectives of the processes that the launcher started; alone, MPI is not loaded.

    Raises
    ------
    LaunchError
        See `start_mpi`.
    """
    if launcher_size(environ) in (None, 1):
        from mpi_opt.network.collectives import Solo

        return Solo()
    return start_mpi(environ)


def start_mpi(environ: Mapping[str, str]) -> "Processes":
    """Start MPI, check the launch, and return the collectives of the world.

    Raises
    ------
    LaunchError
        No MPI library is found, or see `check_launch`.
    """
    # Loaded, but not started yet: a launcher of another MPI would end us in MPI_Init with words of its own.
    wanted = {"MPI4PY_RC_INITIALIZE": "false", "MPI4PY_RC_FINALIZE": "true"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        from mpi_opt.network.mpi import initialize, library, world
    except (ImportError, RuntimeError) as error:
        # mpi4py raises one or the other, by how it was built
        raise LaunchError(
            f"MPI cannot be loaded ({str(error).strip().splitlines()[0]}); allowed: the MPI wheel "
            "(pip install 'mpi_opt[mpi]'), a cluster's MPI module loaded first, or MPI4PY_LIBMPI=/path/to/libmpi.so"
        ) from error
    finally:
        for name, value in before.items():  # not for processes that this one starts
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    from mpi_opt.network.processes import Processes

    check_library(library(), environ)
    initialize()
    comm = world()
    check_launch(comm.size, environ)
    return Processes(comm, sys.modules["mpi4py.MPI"])


def running_world() -> Any | None:
    """Return MPI's world communicator if MPI was started and has more than one rank, else ``None``; starts nothing."""
    if "mpi4py.MPI" not in sys.modules:
        return None
    from mpi_opt.network.mpi import started, world

    if not started():
        return None
    comm = world()
    return comm if comm.size > 1 else None


def all_arrive(comm: Any, seconds: float) -> bool:
    """Return whether every rank of ``comm`` calls this within ``seconds``.

    Tells an error that all ranks found alike from one that a single rank has, without a call that could hang. Where
    the answer is no, the barrier is left pending: the caller ends all ranks.
    """
    barrier, until = comm.Ibarrier(), time.monotonic() + seconds
    while not barrier.Test():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def limit_threads(environ: MutableMapping[str, str]) -> None:
    """Give each rank one BLAS thread, unless the user has chosen; to be called before NumPy is imported.

    OpenBLAS, MKL and BLIS all follow ``OMP_NUM_THREADS`` where their own variable is not set. Only where a launcher is
    seen: a single process may use the machine.
    """
    launched = rank_from_environ(environ) is not None
    if launched and not any(name in environ for name in _THREADS):
        environ["OMP_NUM_THREADS"] = "1"


def own_cores() -> frozenset[int]:
    """Return the numbers of the cores this process may run on.

    A launcher may bind each rank to its own: what a host offers a job is the union over its ranks.
    """
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def thread_warning(ranks_on_host: int, threads: int, cores: int) -> str | None:
    """Return a warning where ranks x threads is more than the cores of the host, with the remedy; else ``None``.

    Parameters
    ----------
    ranks_on_host, threads, cores : int
        Ranks on one host, BLAS threads of each, cores the ranks may use together.
    """
    if ranks_on_host * threads <= cores:
        return None
    load = f"{ranks_on_host} ranks x {threads} thread{'s' * (threads > 1)} on {cores} core{'s' * (cores > 1)}"
    if threads > 1:
        return f"{load}: set OMP_NUM_THREADS=1 (or leave it unset: mpi-opt then takes one thread a rank)"
    return f"{load}: the ranks take turns, so timings say nothing about scaling; start fewer ranks a host"
