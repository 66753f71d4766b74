"""What the rates are measured on: three small functions, each the mean of its nodes' parts, made from a seed.

Rows are on a sphere, in random directions; labels are drawn from a planted model, so that much noise stays in a
gradient of one row even at the optimum. All nodes hold equally many rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mpi_opt.draws import Key, Purpose
from mpi_opt.problems.base import Curved
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic
from mpi_opt.problems.saturating import SaturatingPenalty
from mpi_opt.problems.tanh_network import TanhNetwork
from mpi_opt.types import Indices, Vector

STRONGLY_CONVEX = "strongly convex"
BY_LABEL = "strongly convex, sorted by label"
SATURATING = "saturating penalty"
NETWORK = "small network"


@dataclass(frozen=True, slots=True)
class Ground:
    """A function F and its parts.

    Attributes
    ----------
    whole : Curved
        F itself.
    part : callable
        Function of some rows and a scale, for nodes.
    order : ndarray of int64, shape (rows,)
        Rows in the order in which nodes take theirs.
    start : ndarray, shape (d,)
        Where all nodes begin.
    least : float or None
        F* where it is known.
    convexity, smoothness : float
        mu, and L at the start of the run; NaN where nothing asks for them.
    words : str
        What it is, for the page.
    """

    whole: Curved
    part: Callable[[Indices, float], Curved]
    order: Indices
    start: Vector
    words: str
    least: float | None = None
    convexity: float = np.nan
    smoothness: float = np.nan

    @property
    def offset(self) -> float | None:
        """The a of the theorem's step size, ``32 L / mu``; ``None`` where F is not strongly convex."""
        return None if np.isnan(self.convexity) else 32.0 * self.smoothness / self.convexity

    def shards(self, nodes: int) -> Sequence[Curved]:
        """Return the nodes' functions f_i, of which F is the mean."""
        held = np.array_split(self.order, nodes)
        return [self.part(rows, nodes / self.order.size) for rows in held]


def strongly_convex(rows: int = 4096, features: int = 40, l2: float = 0.1, *, by_label: bool = False) -> Ground:
    """Return logistic regression with a sizeable penalty; ``by_label`` sorts the rows by label over the nodes."""
    A, draw = _rows(rows, features, 2.0, 1)
    y = _labels(A @ draw.normal(size=features), draw)

    def part(held: Indices, scale: float) -> Curved:
        return LinearProblem(A[held], y[held], Logistic(), l2=l2, scale=scale)

    whole = LinearProblem(A, y, Logistic(), l2=l2, scale=1.0 / rows)
    x = np.zeros(features)
    for _ in range(30):
        x -= np.linalg.solve(whole.hessian(x), whole.gradient(x))
    assert np.linalg.norm(whole.gradient(x)) < 1e-12  # Newton from zero on so round a function: to rounding
    L = float(np.linalg.eigvalsh(whole.hessian(np.zeros(features)))[-1])
    order = np.argsort(y, kind="stable") if by_label else np.arange(rows)
    words = (
        f"logistic regression, {rows} rows in random directions of length 2, d = {features}, l2 = mu = {l2:g}, "
        f"L/mu = {L / l2:.2f}" + (", rows sorted by label: a node sees one class" if by_label else "")
    )
    return Ground(whole, part, order, np.zeros(features), words, whole.value(x), l2, L)


def saturating(rows: int = 1024, features: int = 20, weight: float = 0.1) -> Ground:
    """Return logistic regression with a penalty that levels off, begun where its Hessian has negative eigenvalues."""
    A, draw = _rows(rows, features, 2.0, 2)
    y = _labels(A @ (1.5 * draw.normal(size=features)), draw)

    def part(held: Indices, scale: float) -> Curved:
        return SaturatingPenalty(LinearProblem(A[held], y[held], Logistic(), l2=0.0, scale=scale), weight)

    start = 1.5 * draw.normal(size=features)
    whole = part(np.arange(rows), 1.0 / rows)
    words = (
        f"logistic regression and {weight:g} sum x^2/(1 + x^2), {rows} rows of length 2, d = {features}, least "
        f"eigenvalue of the Hessian at the start {_least_curvature(whole, start):.3f}"
    )
    return Ground(whole, part, np.arange(rows), start, words)


def network(rows: int = 1024, features: int = 8, hidden: int = 4, l2: float = 0.01) -> Ground:
    """Return a network with one hidden layer, which learns the labels of another of its kind."""
    A, draw = _rows(rows, features, np.sqrt(features), 3)
    teacher = np.tanh(A @ draw.normal(size=(features, hidden)) * (1.5 / np.sqrt(features)))
    y = _labels(2.0 * teacher @ np.where(np.arange(hidden) % 2, 1.0, -1.0), draw)

    def part(held: Indices, scale: float) -> Curved:
        return TanhNetwork(A[held], y[held], Logistic(), hidden=hidden, l2=l2, scale=scale)

    whole = part(np.arange(rows), 1.0 / rows)
    start = 0.5 * draw.normal(size=whole.dim)
    words = (
        f"network {features}-{hidden}-1 with tanh, logistic loss, {rows} rows, d = {whole.dim}, l2 = {l2:g}, least "
        f"eigenvalue of the Hessian at the start {_least_curvature(whole, start):.3f}"
    )
    return Ground(whole, part, np.arange(rows), start, words)


def make_ground(name: str) -> Ground:
    """Return the ground called ``name``, at the size of the page."""
    made: dict[str, Callable[[], Ground]] = {
        STRONGLY_CONVEX: strongly_convex,
        BY_LABEL: lambda: strongly_convex(by_label=True),
        SATURATING: saturating,
        NETWORK: network,
    }
    return made[name]()


def _rows(rows: int, features: int, length: float, which: int) -> tuple[Vector, np.random.Generator]:
    draw = Key(0, 0, Purpose.SYNTHETIC, which).generator()
    A = draw.normal(size=(rows, features))
    A *= length / np.linalg.norm(A, axis=1, keepdims=True)
    return A, draw


def _labels(z: Vector, draw: np.random.Generator) -> Vector:
    """Return labels -1/+1, +1 with the probability that the logistic model gives margin ``z``."""
    return np.where(draw.random(z.size) * (1.0 + np.exp(-z)) < 1.0, 1.0, -1.0)


def _least_curvature(problem: Curved, x: Vector) -> float:
    product = problem.hvp_at(x)
    H = np.array([product(e) for e in np.eye(problem.dim)])
    return float(np.linalg.eigvalsh((H + H.T) / 2)[0])
