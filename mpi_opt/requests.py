"""What a step may ask for. An algorithm yields these and never sees a communicator (see ``algorithms/base.py``).

| request | answer | performed over MPI as |
|---|---|---|
| ``Exchange`` | the neighbours' messages, an ``Inbox`` | Irecv, Isend, Waitall of packed buffers |
| ``Post``, later ``Collect`` | ``None``, later an ``Inbox`` | the same, completed at the ``Collect`` |
| ``Average`` | the weighted mean over all nodes | Reduce to the master, division there, Bcast |
| ``Sum`` | the sum over all nodes | Reduce, Bcast |

Every node yields the same kind of request in the same order. Answers of ``Average`` and ``Sum`` carry the same bits on
every node; the array answered is the network's and only valid until the next request.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from mpi_opt.compression.base import Message
from mpi_opt.types import Vector

Inbox: TypeAlias = tuple[tuple[int, Message], ...]
"""``(sender, message)`` pairs in ascending sender order; silent neighbours are absent."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send ``message`` (or silence) to every neighbour and receive theirs. ``round`` counts exchanges from 0."""

    message: Message | None
    round: int


@dataclass(frozen=True, slots=True)
class Post:
    """Start an exchange and go on computing; the ``Collect`` of the same round completes it."""

    message: Message | None
    round: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Complete the posted exchange of ``round`` and receive the neighbours' messages."""

    round: int


@dataclass(frozen=True, slots=True)
class Average:
    """Ask for ``sum_i weight_i vector_i / sum_i weight_i``. ``vector`` has shape ``(d,)``; ``weight >= 0``."""

    vector: Vector
    weight: float


@dataclass(frozen=True, slots=True)
class Sum:
    """Ask for ``sum_i array_i``; ``array`` is one-dimensional float64.

    ``short`` marks the few numbers of a line search or a set-up, which are counted apart from rounds: a round moves a
    vector of the model's length or more.
    """

    array: Vector
    short: bool = False


Request: TypeAlias = Exchange | Post | Collect | Average | Sum
Steps: TypeAlias = Generator[Request, Any, Any]
"""A running step: yields requests, is sent the answers, returns ``(state, info)``."""
