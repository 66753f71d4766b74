"""GIANT: Wang, Roosta, Xu, Mahoney 2018, arXiv 1709.03528, Algorithm 1 with a global line search.

| paper      | here       | shape  | meaning                                                          |
|------------|------------|--------|------------------------------------------------------------------|
| w          | ``w``      | (d,)   | iterate, the same on all nodes                                   |
| g          | ``g``      | (d,)   | global gradient                                                  |
| H_k        | ``problem``|        | local Hessian                                                    |
| p_k        | ``p_k``    | (d,)   | ``(H_k + mu I)^-1 g``                                            |
| p          | ``p``      | (d,)   | mean of the p_k                                                  |
| alpha      | ``a``      |        | first candidate that passes Armijo's test on the GLOBAL loss     |

An iteration is two rounds (gradient with loss; directions) and a short one (the losses at all candidates, one message).
As a finish of LocalNewton the first gradient has come with the local rounds.

Deviations: means are weighted by rows; damping and averaging by support serve shards that lack features; where no
candidate passes the model stays, and the method says so instead of taking the smallest.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_range
from mpi_opt.algorithms.parts.averaging import Holders, average
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.damping import damping_of
from mpi_opt.algorithms.parts.line_search import Backtracking
from mpi_opt.algorithms.parts.solver import Cheaper, Solver
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Steps, Sum
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what the next iteration needs.

    Attributes
    ----------
    t : int
        Iterations so far.
    w : ndarray, shape (d,)
        Iterate.
    g, loss : ndarray or None, and float
        Global gradient and loss at w, where they are known already: after a take-over only.
    holders : Holders or None
        For averaging by support.
    mu : float
        This shard's damping.
    """

    t: int
    w: Vector
    g: Vector | None
    loss: float
    holders: Holders | None
    mu: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Giant:
    """Globally improved approximate Newton.

    Parameters
    ----------
    tolerance : Tolerance
        When the global gradient counts as zero.
    solver : Solver
        Finds the local direction.
    search : Backtracking
        The global line search.
    damping : float or None
        mu, added to the direction's Hessian; ``None`` lets each shard decide (`parts.damping`).
    by_support : bool
        Average each coordinate of the directions over the shards that hold its feature.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    solver: Solver = field(default_factory=Cheaper)
    search: Backtracking = field(default_factory=Backtracking)
    damping: float | None = 0.0
    by_support: bool = True

    needs: ClassVar[tuple[str, ...]] = (
        "gradient",
        "value",
        "value_along",
        "hessian",
        "hessian_diagonal",
        "hvp_at",
        "support",
        "center",
    )

    def __post_init__(self) -> None:
        check_range("damping", self.damping or 0.0, "at least 0, or None", (self.damping or 0.0) >= 0)

    @property
    def batch(self) -> None:
        """Every iteration sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first iteration."""
        return self._at(problem, x0.copy(), None, np.inf)

    def start_at(self, problem: SecondOrder, w: Vector, loss: float, g: Vector) -> State:
        """Return the state at a point whose global loss and gradient are known: a round less to the first step."""
        return self._at(problem, w, g, loss)

    def _at(self, problem: SecondOrder, w: Vector, g: Vector | None, loss: float) -> State:
        holders = Holders(problem.rows * problem.support()) if self.by_support else None
        return State(0, w, g, loss, holders, damping_of(self.damping, problem))

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one iteration."""
        w, n_k = state.w, problem.rows
        g, loss = state.g, state.loss
        if g is None:
            total = yield Sum(np.concatenate([n_k * problem.gradient(w), [n_k * problem.value(w), n_k]]))
            total = total / total[-1]
            g, loss = total[:-2], float(total[-2])
        ended = self.tolerance.reached(g)
        if ended:
            return replace(state, t=state.t + 1), Info(synced=True, fired=True, ended=ended)
        p_k = self.solver.direction(problem, w, g, state.mu) if n_k else np.zeros_like(g)
        # Where no shard holds a feature, H is the penalty alone: one step takes its coordinate out.
        alone = g / problem.l2 if problem.l2 else g
        p, _, holders = yield from average(p_k, np.empty(0), n_k, state.holders, alone)
        state = replace(state, t=state.t + 1, g=None, holders=holders)
        slope = float(p @ g)
        if not slope > 0:
            return state, Info(synced=True, fired=True, ended=self.tolerance.stalled(g, "no descent direction"))
        value, lengths = problem.value_along(w, p), self.search.lengths
        losses = yield Sum(np.array([n_k * value(-a) for a in lengths] + [n_k]), short=True)
        a = self.search.choose(losses[:-1] / losses[-1], lengths, loss, slope)
        if not a:
            return state, Info(
                synced=True, fired=True, ended=self.tolerance.stalled(g, "no step length lowers the loss")
            )
        return replace(state, w=w - a * p), Info(synced=True, fired=True)

    def settle(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return w."""
        return state.w
