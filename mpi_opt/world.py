"""Where a job runs: its processes, and what connects and watches them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.build import Built
from mpi_opt.network.base import Network
from mpi_opt.network.collectives import Collectives
from mpi_opt.network.elastic import Crew
from mpi_opt.scaling.cost import NetworkProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where a job runs.

    Attributes
    ----------
    collectives : Collectives
        Among the processes.
    nodes : int
        n.
    local : tuple of int
        Nodes that this process carries.
    connect : callable
        Makes the network.
    measure : callable or None
        Measures the network.
    library : str
        What carries the messages.
    guard : callable
        Given a folder and seconds of silence, returns a context in which the other processes are watched.
    notes : sequence of str
        What a person should know of it.
    crew : Crew or None
        Cuts out ranks that die; ``None`` where a death ends the run.
    again : callable or None
        Returns the world of the crew's survivors after a cut.
    """

    collectives: Collectives
    nodes: int
    local: tuple[int, ...]
    connect: Callable[[Built], Network]
    measure: Callable[[], NetworkProfile] | None
    library: str
    guard: Callable[[Path, float], AbstractContextManager[object]]
    notes: Sequence[str] = ()
    crew: Crew | None = None
    again: "Callable[[], World] | None" = None
