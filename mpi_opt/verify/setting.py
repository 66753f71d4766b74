"""Where the checks run: ranks or virtual nodes, and a folder for a while."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpi_opt.compression.base import Codec
from mpi_opt.network.base import Network, Whereabouts
from mpi_opt.network.collectives import Collectives

VIRTUAL_NODES = 4
"""Nodes where no launcher started any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every check is handed.

    Attributes
    ----------
    collectives : Collectives
        Among the processes.
    nodes : int
        n: the ranks, or the virtual nodes of this one process.
    local : tuple of int
        Nodes that this process carries.
    comm : communicator or None
        Of all ranks; ``None`` without MPI.
    folder : Path
        An empty folder of our own.
    shared : str
        Empty where all processes see the folder; else what is wrong with it.
    seconds : float
        Longest time of one check, s.
    where : Whereabouts
        What this process's main thread waits for.
    """

    collectives: Collectives
    nodes: int
    local: tuple[int, ...]
    comm: Any
    folder: Path
    shared: str
    seconds: float
    where: Whereabouts = field(default_factory=Whereabouts)

    @property
    def first(self) -> bool:
        """Whether this is the process that compares and tells."""
        return self.collectives.rank == 0

    def connect(
        self, neighbours: Sequence[tuple[int, ...]], codec: Codec | None, *, ordered: bool = True, comm: Any = None
    ) -> Network:
        """Return a network of the nodes, over ``comm`` instead of all ranks' own where one is given."""
        if self.comm is None:
            return virtual(neighbours, codec)
        from mpi_opt.network.mpi import MpiNetwork

        chosen = self.comm if comm is None else comm
        return MpiNetwork(chosen, neighbours[self.comm.rank], codec, ordered=ordered, where=self.where)


def virtual(neighbours: Sequence[tuple[int, ...]], codec: Codec | None) -> Network:
    """Return a network of virtual nodes in this process."""
    from mpi_opt.network.lockstep import Lockstep

    return Lockstep(neighbours, codec)
