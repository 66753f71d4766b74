"""The consensus part of the CHOCO family: estimates, their running weighted sum, and the pull towards it."""

from mpi_opt.algorithms.base import Node
from mpi_opt.compression.base import Message
from mpi_opt.requests import Inbox
from mpi_opt.types import Vector


def absorb(x_hat: Vector, mix: Vector, own: Message | None, inbox: Inbox, node: Node) -> None:
    """Apply one round's messages in place: ``xhat_i += q_i`` and ``mix_i += sum_j w_ij q_j``.

    Contributions to ``mix`` are added in ascending sender order, the own one in its place, so that the rounding, and
    with it the whole run, does not depend on arrival order.
    """
    i = node.index
    if own is None:
        senders = inbox
    else:
        own.add_to(x_hat)
        senders = tuple(sorted((*inbox, (i, own)), key=lambda pair: pair[0]))
    for j, q in senders:
        q.add_to(mix, node.weights[j])


def pull(x: Vector, x_hat: Vector, mix: Vector, gamma: float, spare: Vector) -> None:
    """Take the consensus step ``x += gamma (mix - xhat)`` in place.

    Rows of W sum to 1, so this adds ``gamma sum_j w_ij (xhat_j - xhat_i)``.
    """
    spare[:] = mix
    spare -= x_hat
    spare *= gamma
    x += spare
