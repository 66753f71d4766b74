"""What takes over from the local rounds of LocalNewton."""

from typing import Any, Protocol, runtime_checkable

from mpi_opt.algorithms.base import Node
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Steps
from mpi_opt.types import Vector


class Finish(Protocol):
    """A method that can go on from where the local rounds end: `FromAverage` or `FromKnown` beside this."""

    @property
    def needs(self) -> tuple[str, ...]:
        """See `algorithms.base.Algorithm`."""
        ...

    def init(self, problem: SecondOrder, x0: Vector) -> Any:
        """Return the state at a point of which nothing is known."""
        ...

    def step(self, state: Any, problem: SecondOrder, node: Node) -> Steps:
        """See `algorithms.base.Algorithm`."""
        ...

    def model(self, state: Any) -> Vector:
        """See `algorithms.base.Algorithm`."""
        ...


@runtime_checkable
class FromAverage(Finish, Protocol):
    """Takes over at the average of the first judged round."""

    def take_over(self, problem: SecondOrder, w: Vector, good: Vector | None, good_loss: float) -> Any:
        """Return the state that starts at ``w``, and goes back to ``good`` (loss ``good_loss``) if w is worse."""
        ...


@runtime_checkable
class FromKnown(Finish, Protocol):
    """Takes over at the last good point, of which loss and gradient are known."""

    def start_at(self, problem: SecondOrder, w: Vector, loss: float, g: Vector) -> Any:
        """Return the state that starts at ``w``."""
        ...
