"""The only importer of mpi4py: MPI's life in this process, and who is given the module.

Importing this module initialises MPI. A caller's communicator is duplicated, so that the user's own messages and ours
never meet.
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from typing import ClassVar

from mpi4py import MPI

from mpi_opt.errors import MpiOptError, RankFailedError
from mpi_opt.network.base import Whereabouts
from mpi_opt.network.elastic import Crew, tolerant_launcher
from mpi_opt.network.measure import measure
from mpi_opt.network.probe import probe
from mpi_opt.network.processes import Processes
from mpi_opt.network.ranks import RankNetwork
from mpi_opt.scaling.fitted import Measurement

_LAST_WORDS_SECONDS = 0.2
"""Time for a traceback to get through the launcher before the ranks are ended."""

_END_SECONDS = 5.0
"""Time for the launcher to end a process that came back from Abort, so that nothing is told twice."""


class MpiNetwork(RankNetwork):
    """The node of this rank, and its neighbours, over the MPI that is loaded here."""

    mpi: ClassVar = MPI


def started() -> bool:
    """Return whether MPI runs in this process."""
    return bool(MPI.Is_initialized()) and not MPI.Is_finalized()


def initialize() -> None:
    """Start MPI where importing this module has not (see ``launch.start_mpi``)."""
    if not MPI.Is_initialized():
        MPI.Init_thread()


def world() -> MPI.Intracomm:
    """Return the communicator of all ranks: MPI's world, or those of an elastic run that live."""
    return MPI.COMM_WORLD if _crew is None else _crew.comm


_crew: Crew | None = None


def take_crew() -> Crew:
    """Make the ranks an elastic run's: `world` is from now on the communicator of those that live."""
    global _crew
    _crew = Crew(MPI.COMM_WORLD, MPI)
    return _crew


def leave(code: int) -> None:
    """End the process with ``code`` where ranks were lost: MPI's own end would wait for the dead."""
    if _crew is None or not _crew.cuts:
        return
    with contextlib.suppress(MPI.Exception):
        _crew.comm.Barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_LAST_WORDS_SECONDS)
    os._exit(code)


def collectives_of(comm: MPI.Intracomm, where: Whereabouts | None = None) -> Processes:
    """Return the collectives over a communicator, for checks before anything is set up."""
    return Processes(comm, MPI, where)


def library() -> str:
    """Return the MPI library's own version line."""
    return " ".join(MPI.Get_library_version().splitlines()[0].strip("\x00").split())


def thread_level() -> str:
    """Return how far threads of a process may call MPI: single, funneled, serialized or multiple."""
    names = {
        MPI.THREAD_SINGLE: "single",
        MPI.THREAD_FUNNELED: "funneled",
        MPI.THREAD_SERIALIZED: "serialized",
        MPI.THREAD_MULTIPLE: "multiple",
    }
    return names.get(MPI.Query_thread(), "unknown")


def probe_world() -> tuple[float, float]:
    """Return latency (s one way) and bandwidth (bytes/s) between the ranks of the world; called by all."""
    comm = MPI.COMM_WORLD.Dup()
    try:
        return probe(comm, MPI)
    finally:
        comm.Free()


def measure_world() -> Measurement:
    """Return the times of messages between the ranks of the world by size; called by all of several."""
    comm = MPI.COMM_WORLD.Dup()
    try:
        return measure(comm, MPI)
    finally:
        comm.Free()


def abort(code: int, comm: MPI.Intracomm | None = None) -> None:
    """End all ranks of ``comm`` (the world by default) at once with exit code ``code``; 1 under a tolerant launcher."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Launchers forward output through pipes, and may drop what is in them when a rank aborts.
    time.sleep(_LAST_WORDS_SECONDS)
    launcher = tolerant_launcher(os.environ)
    if launcher is not None:
        os.kill(launcher, signal.SIGTERM)
        time.sleep(_END_SECONDS)
    (MPI.COMM_WORLD if comm is None else comm).Abort(code)


@contextlib.contextmanager
def ending_all(comm: MPI.Intracomm) -> Iterator[None]:
    """End all ranks of ``comm`` when this one raises alone, so that nobody waits for it.

    An error that every rank raises together (it carries ``everywhere``) passes through.
    """
    try:
        yield
    except BaseException as error:
        if comm.size == 1 or getattr(error, "everywhere", False):
            raise
        sys.stderr.write(f"rank {comm.rank} of {comm.size} failed; ending all ranks\n{traceback.format_exc()}")
        abort(error.exit_code if isinstance(error, MpiOptError) else RankFailedError.exit_code, comm)
        time.sleep(_END_SECONDS)  # some libraries come back from Abort and end the process a little later
        raise
