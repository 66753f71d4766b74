"""Mixing matrices W on a graph: symmetric, doubly stochastic, and how fast they mix."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mpi_opt.errors import JobError
from mpi_opt.topology.graphs import Graph
from mpi_opt.types import Indices, Vector

TOLERANCE = 1e-12
"""Largest deviation of a row sum from 1, and of w_ij from w_ji."""

DENSE_NODES = 2000
"""Up to this many nodes the spectrum comes from a dense solver, beyond from a Lanczos iteration."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """A mixing matrix W of shape ``(n, n)``, kept by rows.

    Attributes
    ----------
    graph : Graph
        Where W may be non-zero off its diagonal.
    weights : str
        Which rule made it: ``"metropolis"``, ``"uniform"``, ``"lazy"`` or ``"edges"``.
    starts : ndarray, shape (n + 1,)
        int64; row i occupies ``starts[i]:starts[i + 1]`` of the two below.
    columns, values : ndarray, shape (n + 2 |edges|,)
        int64 and float64; columns ascend in each row, the own weight included.

    Raises
    ------
    JobError
        W is not symmetric, not doubly stochastic, has a negative weight, or does not mix (an eigenvalue -1).
    """

    graph: Graph
    weights: str
    starts: Indices
    columns: Indices
    values: Vector

    def __post_init__(self) -> None:
        name, n = f"weights {self.weights!r} on graph {self.graph.name}", self.n
        rows = np.repeat(np.arange(n), np.diff(self.starts))
        turned = np.lexsort((rows, self.columns))
        same = np.array_equal(rows[turned], self.columns) and np.array_equal(self.columns[turned], rows)
        if not same or np.any(np.abs(self.values[turned] - self.values) > TOLERANCE):
            raise JobError(f"{name}: W is not symmetric; allowed: w_ij = w_ji")
        off = np.abs(np.add.reduceat(self.values, self.starts[:-1]) - 1.0)
        if not off.max() <= TOLERANCE:
            worst = int(off.argmax())
            raise JobError(
                f"{name}: W is not doubly stochastic: row {worst} is off by {off[worst]:.3g}; allowed: sum 1"
            )
        if self.values.min() < 0.0:
            worst = int(rows[self.values.argmin()])
            raise JobError(
                f"{name}: W has the negative weight {self.values.min():.6g} in row {worst}; "
                "allowed: weights of a node's edges that add up to at most 1"
            )
        if self.spectral_gap <= TOLERANCE:
            raise JobError(
                f"{name}: W does not mix (|lambda_2| = {1.0 - self.spectral_gap:.6g}); "
                'allowed: every |lambda| but the first below 1; graph.weights = "lazy" or "metropolis" gives that'
            )

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.graph.n

    def row(self, i: int) -> dict[int, float]:
        """Return row ``i`` without its zeros, columns ascending; the own weight ``w_ii`` is always in it."""
        part = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return dict(zip(self.columns[part].tolist(), self.values[part].tolist(), strict=True))

    def matrix(self) -> Vector:
        """Return W as a new dense float64 array of shape ``(n, n)``."""
        dense = np.zeros((self.n, self.n))
        dense[np.repeat(np.arange(self.n), np.diff(self.starts)), self.columns] = self.values
        return dense

    def sparse(self) -> Any:
        """Return W as a new ``scipy.sparse.csr_array`` of shape ``(n, n)``."""
        from scipy.sparse import csr_array

        return csr_array((self.values.copy(), self.columns.copy(), self.starts.copy()), shape=(self.n, self.n))

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the second largest eigenvalue of W; ``(1, 0)`` for a single node, where both are empty."""
        if self.n == 1:
            return 1.0, 0.0
        if self.n <= DENSE_NODES:
            spectrum = np.linalg.eigvalsh(self.matrix())
            return float(spectrum[0]), float(spectrum[-2])
        return _sparse_extremes(self.sparse())

    @property
    def spectral_gap(self) -> float:
        """``delta = 1 - max_{k >= 2} |lambda_k|``; 1 for a single node."""
        low, second = self.extremes
        return 1.0 if self.n == 1 else 1.0 - max(abs(low), abs(second))

    @property
    def beta(self) -> float:
        """``beta = max_k (1 - lambda_k) = ||I - W||_2``, in [0, 2]."""
        return 1.0 - self.extremes[0]


def _sparse_extremes(w: Any) -> tuple[float, float]:
    """Return the smallest and the second largest eigenvalue of a large sparse W."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    n = w.shape[0]
    start = np.sin(1.0 + np.arange(n))  # fixed, so that every rank finds the same bits
    low = float(eigsh(w, k=1, which="SA", v0=start, return_eigenvectors=False)[0])
    try:
        # Without the constant vector, the second eigenvalue is the largest one.
        rest = LinearOperator((n, n), matvec=lambda x: w @ x - x.mean(), dtype=np.float64)
        second = float(eigsh(rest, k=1, which="LA", v0=start, maxiter=200, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        # Long rings crowd below 1: look from just above it instead.
        second = float(np.sort(eigsh(w.tocsc(), k=2, sigma=1.0 + 1e-9, v0=start, return_eigenvectors=False))[0])
    return low, second


def _metropolis(graph: Graph) -> Vector:
    degrees = np.array(graph.degrees, dtype=np.float64)
    ends = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    weights: Vector = 1.0 / (1.0 + np.maximum(degrees[ends[:, 0]], degrees[ends[:, 1]]))
    return weights


def _uniform(graph: Graph) -> Vector:
    low, high = min(graph.degrees), max(graph.degrees)
    if low != high:
        raise JobError(
            f'graph.weights = "uniform" on graph {graph.name}, whose degrees run from {low} to {high}; '
            'allowed on regular graphs only; take "metropolis"'
        )
    return np.full(len(graph.edges), 1.0 / (1.0 + low))


def _lazy(graph: Graph) -> Vector:
    return 0.5 * _metropolis(graph)


def _own(graph: Graph) -> Vector:
    if graph.weights is None:
        raise JobError(f'graph.weights = "edges", but the edges of graph {graph.name} have no weights (a third column)')
    return np.array(graph.weights, dtype=np.float64)


WEIGHTS: Mapping[str, Callable[[Graph], Vector]] = {
    "metropolis": _metropolis,
    "uniform": _uniform,
    "lazy": _lazy,
    "edges": _own,
}
"""Rules for the weights of a graph's edges, float64 shape ``(|edges|,)``."""


def make_mixing(graph: Graph, weights: str | None = None) -> Mixing:
    """Return the mixing matrix of ``graph``; own weights are ``w_ii = 1 - sum_j w_ij``.

    Parameters
    ----------
    graph : Graph
        The graph.
    weights : str or None
        ``"metropolis"``: ``w_ij = 1 / (1 + max(deg_i, deg_j))``; ``"uniform"``: ``1 / (deg + 1)`` on regular graphs;
        ``"lazy"``: ``(I + W_metropolis) / 2``; ``"edges"``: the edge list's own. ``None`` takes the edge list's own
        weights where it brought some, else metropolis.

    Raises
    ------
    JobError
        An unknown rule, one that does not fit the graph, or a W that fails a check of ``Mixing``.
    """
    if weights is None:
        weights = "metropolis" if graph.weights is None else "edges"
    rule = WEIGHTS.get(weights)
    if rule is None:
        raise JobError(f"graph.weights = {weights!r}; allowed: {', '.join(WEIGHTS)}")
    if graph.weights is not None and weights != "edges":
        raise JobError(
            f'graph.weights = {weights!r}, but graph {graph.name} brings its own weights; allowed: "edges", '
            "or an edge list without a third column"
        )
    n = graph.n
    ends = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    between = rule(graph)
    own = np.ones(n)
    np.subtract.at(own, ends[:, 0], between)
    np.subtract.at(own, ends[:, 1], between)
    # Subtraction may leave a rounding error below a weight of exactly 0.
    own[np.abs(own) < TOLERANCE / 10] = 0.0
    rows = np.concatenate([ends[:, 0], ends[:, 1], np.arange(n)])
    columns = np.concatenate([ends[:, 1], ends[:, 0], np.arange(n)])
    order = np.lexsort((columns, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    values = np.concatenate([between, between, own])[order]
    return Mixing(graph, weights, starts, columns[order], values)
