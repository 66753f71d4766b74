"""Check mode: every neighbour's idea of xhat_i must equal node i's own, bit for bit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpi_opt.errors import RankFailedError
from mpi_opt.network.base import Network


def replica_check(network: Network) -> Callable[[int, Sequence[Any]], None]:
    """Return a check of the SPARQ-SGD engine's states (built with ``check``), to be called by all processes at once.

    The check raises `RankFailedError` naming the two nodes and the first coordinate that differs.
    """

    def check(step: int, states: Sequence[Any]) -> None:
        shared = network.share([state.x_hat for state in states])
        for node, state, theirs in zip(network.local, states, shared, strict=True):
            for j, x_hat in theirs.items():
                replica = state.replicas.estimates.get(j)
                if replica is None:
                    start = state.replicas.start
                    replica = np.zeros_like(x_hat) if start is None else start
                if not np.array_equal(replica, x_hat):
                    at = int(np.flatnonzero(replica != x_hat)[0])
                    raise RankFailedError(
                        f"step {step}: coordinate {at} of node {j}'s estimate is {replica[at]!r} at node {node}, "
                        f"but {x_hat[at]!r} at node {j} itself: the replicas have drifted apart"
                    )

    return check
