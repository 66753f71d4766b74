"""The contract of a problem: a smooth function of one flat vector, on one shard. No rank is known here.

``f(x) = scale * sum_{j in shard} omega_j loss(x; row_j) + (l2 / 2) |weights of x|^2`` (intercept not penalised);
``omega_j`` is the row's weight, 1 unless the job weights rows or classes.
With ``scale = n / N`` this is SPARQ-SGD's node function, ``F = (1/n) sum_i f_i`` for unequal shards too; with
``scale = 1 / N_i`` it is LocalNewton's local mean. A shard may have no rows.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from mpi_opt.draws import Key
from mpi_opt.types import Indices, Vector


class Figures(NamedTuple):
    """Sums over the rows of one shard at one model; sums over shards add up to the global figures."""

    loss: float
    """Sum of the losses, each by its row's weight, unscaled and without the l2 term."""
    wrong: int
    """Rows predicted wrongly (classification; 0 for regression)."""
    rows: int


class Problem(Protocol):
    """One node's function. All vectors are float64 of shape ``(dim,)``."""

    @property
    def dim(self) -> int: ...
    @property
    def rows(self) -> int: ...

    def value(self, x: Vector) -> float:
        """Return f(x)."""
        ...

    def gradient(self, x: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at x, written to ``out`` where given."""
        ...

    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Vector:
        """Return the gradient with the row sum replaced by ``(N_i / len(rows)) * (sum over rows)``; None: all rows."""
        ...

    def figures(self, x: Vector) -> Figures:
        """Return loss sum, errors and rows of the shard at x, for evaluation."""
        ...

    def penalty(self, x: Vector) -> float:
        """Return ``(l2 / 2) |weights of x|^2``."""
        ...


@runtime_checkable
class Drawing(Problem, Protocol):
    """A problem whose gradients draw random numbers of their own, such as dropout."""

    def draw_from(self, key: Key) -> None:
        """Let the next gradients draw from ``key``: they are the same for the same key."""
        ...


@runtime_checkable
class Started(Problem, Protocol):
    """A problem that says where runs start, the same on all nodes; others start at zero."""

    @property
    def start(self) -> Vector:
        """The point, shape ``(dim,)``; not to be written to."""
        ...


class Curved(Problem, Protocol):
    """A problem with products by its Hessian."""

    def hvp_at(self, x: Vector) -> Callable[[Vector], Vector]:
        """Return the map v -> (Hessian of f at x) v; the curvature at x is computed once."""
        ...


class SecondOrder(Curved, Protocol):
    """A problem that local Newton methods can work on; checked by build before a run starts."""

    @property
    def l2(self) -> float: ...
    @property
    def nonzeros(self) -> int: ...
    @property
    def varied(self) -> bool:
        """Whether the shard's labels differ: one with a single class is separable, its own optimum is far away."""
        ...

    def value_along(self, x: Vector, p: Vector) -> Callable[[float], float]:
        """Return the map a -> f(x + a p); the margins of x and p are computed once, a trial costs no product."""
        ...

    def hessian(self, x: Vector) -> Vector:
        """Return the Hessian of f at x, dense, shape ``(dim, dim)``, C-ordered, a new array."""
        ...

    def hessian_diagonal(self, x: Vector) -> Vector:
        """Return the diagonal of the Hessian of f at x, shape ``(dim,)``, for preconditioning."""
        ...

    @property
    def columns(self) -> int:
        """Columns of the model, C; x holds them side by side, ``(dim / C, C)`` in C order."""
        ...

    def shared_curvature(self, x: Vector, rows: int) -> Vector:
        """Return the mean over columns of the Hessian's diagonal blocks, about ``rows`` rows standing for all.

        Shape ``(dim / C, dim / C)``, the penalty included.
        """
        ...

    def support(self) -> Vector:
        """Return 1.0 for each coordinate that some row of the shard touches, else 0.0, shape ``(dim,)``."""
        ...

    def center(self, p: Vector) -> None:
        """Take out of a direction, in place, what changes neither a margin difference nor the penalty.

        Softmax has such directions: a common shift of all classes' intercepts. A singular Hessian leaves them to
        rounding.
        """
        ...
