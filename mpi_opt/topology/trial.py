"""A small stand-in for a run's gossip: the compression operator at a trial dimension, on at most a few nodes.

Both keep what decides how large a consensus rate may be: the share of the entries that travels and the operator's
measured accuracy; the local shape of the graph and the upper end of the spectrum of I - W.
"""

import dataclasses
from typing import Any, NamedTuple, cast

import numpy as np

from mpi_opt.compression.base import Compressor
from mpi_opt.draws import Key, Purpose
from mpi_opt.topology.graphs import Graph, simple
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.types import Vector

TRIAL_DIM = 1000
"""Largest dimension of a trial."""

LEAST_SHARE = 0.02
"""Sparser operators are tried at this share of entries, and the rate found is scaled down in proportion.

Below a few percent only gamma d/k matters: an entry then travels about every d/k rounds, between which a model moves in
proportion to gamma. Trials at k/d = 0.1 % would need tens of thousands of rounds to say the same.
"""

SMALLEST_OMEGA = 1e-4
"""Measured accuracies count as this at least (an operator may lose more than it sends for a while)."""

PROBE_DIM = 1_000_000
"""Largest dimension at which the operator's accuracy is measured."""

PROBES = 64
"""Most draws of which the accuracy is the mean, and ``PROBE_ENTRIES`` the entries kept in all of them that are enough.

One draw of an operator that keeps a single random entry says next to nothing: its share of the energy is a chi-squared
number of one degree of freedom.
"""

PROBE_ENTRIES = 64

MOST_NODES = 24
"""Graphs up to this size are tried as they are."""

PIECE_NODES = 16
"""Nodes of the piece of a larger graph that is tried in its place."""


class Trial(NamedTuple):
    """An operator to simulate with, and what its rate is multiplied with for the real one."""

    operator: Compressor
    dim: int
    omega: float
    """Accuracy measured at v ~ N(0, 1): the mean of 1 - |v - C(v)|^2 / |v|^2."""
    factor: float
    lossless: bool


def trial_operator(compressor: Compressor, dim: int, seed: int) -> Trial:
    """Return ``compressor`` of dimension ``dim`` as an operator of dimension ``min(dim, TRIAL_DIM)``.

    A block-wise operator is judged by its largest block, in which a fixed k is the smallest share. A field ``k`` (an
    integer or ``"1%"``) is set so that the share of entries stays, or is ``LEAST_SHARE`` where it is smaller.
    ``factor`` is the smaller of two ratios, real to trial, at most 1: of the shares, and of the measured omega.

    Raises
    ------
    JobError
        The operator does not fit ``dim``.
    """
    inner = getattr(compressor, "inner", None)
    if inner is not None:
        return trial_operator(cast(Compressor, inner), max(cast(Any, compressor).sizes), seed)
    small, probe = min(dim, TRIAL_DIM), min(dim, PROBE_DIM)
    k = getattr(compressor, "k", None)
    share = least = 1.0
    if k is not None:
        share = float(k.strip().removesuffix("%")) / 100.0 if isinstance(k, str) else k / dim
        least = max(share, LEAST_SHARE)
    real = compressor if probe == dim else _with_share(compressor, share, probe)
    tried = compressor if small == dim and share == least else _with_share(compressor, least, small)
    omega = _accuracy(real, probe, seed)
    lossless = omega > 1.0 - 1e-10
    if tried is real and probe == small:
        return Trial(tried, small, omega, 1.0, lossless)
    # What the trial keeps is its rounded k, not the share asked for.
    tried_share = 1.0 if k is None else cast(Any, tried).k / small
    tried_omega = _accuracy(tried, small, seed)
    return Trial(tried, small, tried_omega, min(1.0, share / tried_share, omega / tried_omega), lossless)


def _with_share(compressor: Compressor, share: float, dim: int) -> Compressor:
    """Return the operator with k = share x dim, where it has a k."""
    if getattr(compressor, "k", None) is None:
        return compressor
    return cast(Compressor, dataclasses.replace(cast(Any, compressor), k=max(1, min(dim, round(share * dim)))))


def _accuracy(compressor: Compressor, dim: int, seed: int) -> float:
    """Return the mean omega of draws of N(0, 1), or ``SMALLEST_OMEGA`` where it is less."""
    measured, kept = [], 0
    for draw in range(PROBES):
        v = Key(seed, dim + draw, Purpose.GOSSIP, 0).generator().standard_normal(dim)
        rest = v.copy()
        message = compressor.compress(v, Key(seed, draw, Purpose.GOSSIP, 1))
        message.add_to(rest, -1.0)
        measured.append(1.0 - float(rest @ rest) / float(v @ v))
        kept += message.count
        if kept >= PROBE_ENTRIES or not message.count:
            break
    return max(sum(measured) / len(measured), SMALLEST_OMEGA)


def trial_mixing(mixing: Mixing) -> Mixing:
    """Return ``mixing`` itself up to ``MOST_NODES`` nodes, else W of the same rule on a piece of its graph.

    The piece is the ``PIECE_NODES`` nodes nearest to a node of largest degree: what makes a rate too large happens
    between neighbours, wherever the rest of the graph ends. Weights of an edge list are kept, and those of edges that
    leave the piece go to its nodes' own weights.
    """
    if mixing.n <= MOST_NODES:
        return mixing
    graph = mixing.graph
    start = max(range(graph.n), key=graph.degree)
    piece = {start: 0}
    queue = [start]
    for node in queue:
        for other in graph.neighbours(node):
            if other not in piece and len(piece) < PIECE_NODES:
                piece[other] = len(piece)
                queue.append(other)
    edges = simple((piece[i], piece[j]) for i in piece for j in graph.neighbours(i) if j in piece)
    weights = None
    if graph.weights is not None:
        number = {at: node for node, at in piece.items()}
        weights = tuple(mixing.row(number[i])[number[j]] for i, j in edges)
    part = Graph(f"piece of {graph.name}", len(piece), edges, weights)
    # A piece of a regular graph is not regular; metropolis is uniform wherever uniform exists.
    return make_mixing(part, "metropolis" if mixing.weights == "uniform" else mixing.weights)


def decay(mixing: Mixing) -> Vector:
    """Return 1 - lambda_k for k >= 2, ascending, shape ``(n - 1,)``."""
    values = np.linalg.eigvalsh(mixing.matrix())
    return np.asarray(1.0 - values[:-1][::-1], dtype=np.float64)
