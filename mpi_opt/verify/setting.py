"""Where the checks run: ranks or virtual nodes, a folder for a while, and a limit on time."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mpi_opt.compression.base import Codec
from mpi_opt.errors import RankFailedError
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


class Limit:
    """Ends all processes when one check takes too long; a thread, since the main one may wait inside MPI.

    Parameters
    ----------
    setting : Setting
    end : callable
        Ends all processes with an exit code.
    """

    def __init__(self, setting: Setting, end: Callable[[int], None]) -> None:
        self._setting, self._end = setting, end
        self._check, self._since = "", 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="limit", daemon=True)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self.begin("")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def begin(self, check: str) -> None:
        """Note that a check begins."""
        self._check, self._since = check, time.monotonic()

    def give_up(self, why: str) -> None:
        """Say what is wrong, leave nothing behind, and end all processes."""
        rank, size = self._setting.collectives.rank, self._setting.collectives.size
        who = f"rank {rank} of {size}: " if size > 1 else ""
        sys.stderr.write(f"mpi-opt: error: verify: {self._check or 'start'}: {who}{why}\n")
        sys.stderr.flush()
        shutil.rmtree(self._setting.folder, ignore_errors=True)
        self._end(RankFailedError.exit_code)

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            if time.monotonic() - self._since <= self._setting.seconds:
                continue
            # The ranks come one after another, so that the first can end all before each says the same.
            if self._stop.wait(min(5.0, 0.5 * self._setting.collectives.rank)):
                return
            waits = self._setting.where.waiting
            self.give_up(
                f"not done within {self._setting.seconds:g} s{f', waits for {waits}' if waits else ''}. A rank has "
                "stopped, messages do not arrive, or the machine is very busy: try fewer ranks, then a longer --timeout"
            )
            return
