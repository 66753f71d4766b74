"""What performs the requests of steps, and what it counts while it does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from mpi_opt.compression.base import Size
from mpi_opt.network.clock import Clock
from mpi_opt.network.collectives import Collectives
from mpi_opt.requests import Inbox, Steps
from mpi_opt.types import Vector


@dataclass(slots=True)
class Traffic:
    """Running counts of one node since the start of the run. Bytes are those handed to MPI.

    A message to three neighbours counts three times. A reduction counts the bytes a worker hands over for it; the
    answer counts at the master, once for every other node.
    """

    rounds: int = 0
    """Exchanges, averages and sums taken part in, short ones not."""
    short_rounds: int = 0
    """Reductions of a few numbers: line searches and set-up."""
    messages: int = 0
    """Non-empty messages handed over, per receiver."""
    silences: int = 0
    """Zero-byte messages handed over, per receiver."""
    payload_bytes: int = 0
    header_bytes: int = 0
    floor_bits: float = 0.0
    """Information-theoretic size of what was sent, per receiver."""
    control_bytes: int = 0
    """Stop decisions and other control, apart."""
    evaluation_bytes: int = 0
    """Models and figures moved for evaluation, apart."""
    communicate_seconds: float = 0.0
    """Packing, unpacking and posting."""
    wait_seconds: float = 0.0
    """Waiting for others."""

    def count(self, size: Size, receivers: int, floor_bits: float) -> None:
        """Count one message handed over once for each of ``receivers``."""
        self.messages += receivers
        self.header_bytes += size.header * receivers
        self.payload_bytes += size.payload * receivers
        self.floor_bits += floor_bits * receivers

    def count_reduction(self, up: int, down: int, node: int, nodes: int, *, short: bool = False) -> None:
        """Count one reduction: ``up`` bytes from each worker to the master (node 0), ``down`` from it to each."""
        self.rounds += not short
        self.short_rounds += short
        self.messages += _reduction_messages(node, nodes)
        nbytes = up if node else (nodes - 1) * down
        self.payload_bytes += nbytes
        self.floor_bits += 8.0 * nbytes

    def count_evaluation(self, nbytes: int, node: int, nodes: int) -> None:
        """Count one reduction of ``nbytes`` and its answer, which serve evaluation, apart."""
        self.evaluation_bytes += _reduction_messages(node, nodes) * nbytes


def _reduction_messages(node: int, nodes: int) -> int:
    """Messages a node hands over in a reduction to node 0 and back: one a worker, one to each worker by the master."""
    return 1 if node else nodes - 1


@dataclass(slots=True)
class Whereabouts:
    """What this process's main thread does, for another thread that watches it; written without a lock, a word a time.

    Attributes
    ----------
    step : int
        Steps completed.
    waiting : str
        For whom or what it waits; empty while it computes.
    moves : int
        Waits begun and ended.
    asked : bool
        The process was told to end, by SIGTERM.
    """

    step: int = 0
    waiting: str = ""
    moves: int = 0
    asked: bool = False

    def wait(self, what: str) -> None:
        """Note that a wait for ``what`` begins; for nothing, that it is over."""
        self.waiting = what
        self.moves += 1

    @contextmanager
    def wait_in(self, what: str) -> Iterator[None]:
        """Note a wait for as long as the context lasts, also where it ends in an error."""
        self.wait(what)
        try:
            yield
        finally:
            self.wait("")


def drive(step: Steps, perform: Mapping[type, Callable[[Any], Any]]) -> tuple[Any, Any]:
    """Drive the running step of one node to its end and return its result.

    Parameters
    ----------
    step : Steps
    perform : mapping of type to callable
        Takes a request of that type, and returns its answer.
    """
    answer: Any = None
    while True:
        try:
            request = step.send(answer)
        except StopIteration as end:
            result: tuple[Any, Any] = end.value
            return result
        answer = perform[type(request)](request)


class Network(Protocol):
    """n nodes, of which this process carries ``local`` (one over MPI, all in lockstep)."""

    @property
    def nodes(self) -> int: ...
    @property
    def local(self) -> tuple[int, ...]: ...
    @property
    def traffic(self) -> Sequence[Traffic]: ...
    @property
    def collectives(self) -> Collectives: ...
    @property
    def where(self) -> Whereabouts: ...
    @property
    def clock(self) -> Clock | None:
        """The virtual clock that stands for the real one; ``None`` where seconds are measured."""
        ...

    def advance(self, steps: Sequence[Steps]) -> list[tuple[Any, Any]]:
        """Drive one running step of each local node to its end, performing its requests; return their results."""
        ...

    def hold(self) -> list[Inbox | None]:
        """Complete the exchange in flight, and keep for each local node what arrived for its next ``Collect``.

        Returns what is kept, ``None`` where nothing was in flight; all processes call it together.
        """
        ...

    def give(self, inboxes: Sequence[Inbox | None]) -> None:
        """Let the next ``Collect`` of each local node answer with what ``hold`` returned in an earlier process."""
        ...

    def poke(self) -> None:
        """Let messages in flight move on; cheap enough to be called between any two local steps."""
        ...

    def control_start(self, flags: Vector) -> None:
        """Start a nonblocking reduction of this process's control flags, float64 ``(m,)``; the largest wins."""
        ...

    def control_finish(self) -> Vector:
        """Complete the reduction last started and return the reduced flags, the same everywhere."""
        ...

    def share(self, arrays: Sequence[Vector]) -> list[dict[int, Vector]]:
        """Return, for each local node, what its graph neighbours hold; counted as evaluation. For checks."""
        ...

    def rotate(self, arrays: Sequence[Vector]) -> list[Vector]:
        """Hand each local node's array to the next node (i to i+1 mod n) and return what came; counted as evaluation.

        All arrays have one shape; the arrays given may be reused as the ones returned.
        """
        ...

    def mean(self, arrays: Sequence[Vector]) -> Vector:
        """Return the plain mean over all nodes, added in node order; counted as evaluation."""
        ...

    def close(self) -> None:
        """Give back what is held (requests, communicators); the network must not be used afterwards."""
        ...
