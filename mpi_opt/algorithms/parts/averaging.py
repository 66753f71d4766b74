"""The weighted mean of the nodes' vectors, plain or by support, with a few numbers riding in the same message."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_opt.requests import Average, Request, Sum
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Holders:
    """Which nodes count for which coordinate.

    Attributes
    ----------
    mine : ndarray, shape (d,)
        N_k where this node's shard holds the feature, else 0.
    total : ndarray, shape (d,), or None
        Sum of ``mine`` over all nodes; ``None`` before the first average, which fetches it in the same round.
    """

    mine: Vector
    total: Vector | None = None


Averaging = Generator[Request, Any, tuple[Vector, Vector, Holders | None]]


def average(vector: Vector, riders: Vector, rows: int, holders: Holders | None, missing: Vector) -> Averaging:
    """Return the mean of ``vector`` over nodes, that of ``riders`` weighted by rows, and the holders; one round.

    Parameters
    ----------
    vector : ndarray, shape (d,)
        This node's vector.
    riders : ndarray, shape (m,)
        A few numbers, such as the local loss.
    rows : int
        N_k, the node's weight.
    holders : Holders or None
        Average each coordinate over the nodes whose shard holds its feature; ``None``: over all (the paper's average).
    missing : ndarray, shape (d,)
        Value of coordinates that no shard holds, the same on every node.
    """
    d = vector.size
    if holders is None:
        mean = yield Average(np.concatenate([vector, riders]), float(rows))
        return mean[:d].copy(), mean[d:].copy(), None
    parts = [holders.mine * vector, rows * riders, np.array([float(rows)])]
    total = holders.total
    if total is None:
        parts.append(holders.mine)
    summed = yield Sum(np.concatenate(parts))
    if total is None:
        total = summed[-d:].copy()
        holders = Holders(holders.mine, total)
    mean = missing.copy()
    np.divide(summed[:d], total, out=mean, where=total > 0)
    m = riders.size
    return mean, summed[d : d + m] / summed[d + m], holders
