"""Exact distributed Newton: gradient, loss and the Hessian's upper triangle are summed in ONE message a round.

| symbol | here    | shape  | meaning                                             |
|--------|---------|--------|-----------------------------------------------------|
| w      | ``w``   | (d,)   | iterate, the same on all nodes                      |
| F, g, H|         |        | global loss, gradient, Hessian at w                 |
| p      | ``p``   | (d,)   | Newton direction ``H^-1 g``, solved alike everywhere |

The full step is taken at once; its loss comes with the next sum. If it was no good (Armijo), one short round with the
losses at all shorter candidates finds the step from the point before. By itself this is the round-optimal exact method
where d is small; as a finish it starts from LocalNewton's average.

Deviations from the textbook: ``hessian_every`` reuses the factor of an earlier Hessian (a chord step) to send d numbers
instead of d^2/2.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_counts
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.line_search import Backtracking
from mpi_opt.algorithms.parts.solver import solve_symmetric
from mpi_opt.algorithms.parts.triangle import fold, unfold
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Steps, Sum
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what the next round needs.

    Attributes
    ----------
    t : int
        Rounds so far.
    w : ndarray, shape (d,)
        Iterate; its loss comes with the next sum.
    good, loss : ndarray or None, and float
        The iterate before, and its loss; the start has none.
    p, slope : ndarray and float
        ``w = good - p`` and p.g there.
    hessian : ndarray, shape (d (d + 1) / 2,), or None
        Upper triangle kept for reuse.
    """

    t: int
    w: Vector
    good: Vector | None
    loss: float
    p: Vector
    slope: float
    hessian: Vector | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Newton:
    """Newton's method on the global Hessian.

    Parameters
    ----------
    tolerance : Tolerance
        When the global gradient counts as zero.
    search : Backtracking
        Test of the full step, and the candidates if it fails.
    hessian_every : int
        Rounds for which a Hessian is used; 1 is Newton's method.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    search: Backtracking = field(default_factory=Backtracking)
    hessian_every: int = 1

    needs: ClassVar[tuple[str, ...]] = ("gradient", "value", "value_along", "hessian", "center")

    def __post_init__(self) -> None:
        check_counts(hessian_every=self.hessian_every)

    @property
    def batch(self) -> None:
        """Every round sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first round."""
        return self.take_over(problem, x0.copy(), None, np.inf)

    def take_over(self, problem: SecondOrder, w: Vector, good: Vector | None, good_loss: float) -> State:
        """Return the state that starts at ``w``, and searches between it and ``good`` if w is worse."""
        if good is None or not np.isfinite(good_loss):
            return State(0, w, None, np.inf, np.zeros_like(w), 0.0)
        if not np.isfinite(w).all():  # between a point and no point nothing can be searched
            return State(0, good, None, np.inf, np.zeros_like(w), 0.0)
        return State(0, w, good, good_loss, good - w, 0.0)

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one round."""
        w, n_k = state.w, problem.rows
        fresh = state.hessian is None or state.t % self.hessian_every == 0
        parts = [n_k * problem.gradient(w), np.array([n_k * problem.value(w), n_k])]
        if fresh:
            parts.append(n_k * fold(problem.hessian(w)))
        total = yield Sum(np.concatenate(parts))
        d, rows = w.size, total[w.size + 1]
        g, loss = total[:d] / rows, float(total[d] / rows)
        state = replace(state, t=state.t + 1)
        if state.good is not None and not self.search.passes(loss, state.loss, 1.0, state.slope):
            return (yield from self._shorten(state, problem, g))
        ended = self.tolerance.reached(g)
        if ended:
            return replace(state, good=w, loss=loss), Info(synced=True, fired=True, ended=ended)
        triangle = total[d + 2 :] / rows if fresh or state.hessian is None else state.hessian
        p = solve_symmetric(unfold(triangle, d), g)
        problem.center(p)
        slope = float(p @ g)
        if not slope > 0:
            return state, Info(synced=True, fired=True, ended=self.tolerance.stalled(g, "no descent direction"))
        kept = triangle if self.hessian_every > 1 else None
        return replace(state, w=w - p, good=w, loss=loss, p=p, slope=slope, hessian=kept), Info(synced=True, fired=True)

    def _shorten(self, state: State, problem: SecondOrder, g: Vector) -> Steps:
        """Search between the last good point and the step that went too far; one short round."""
        assert state.good is not None
        lengths = self.search.lengths[1:]
        value, n_k = problem.value_along(state.good, state.p), problem.rows
        losses = yield Sum(np.array([n_k * value(-a) for a in lengths] + [n_k]), short=True)
        a = self.search.choose(losses[:-1] / losses[-1], lengths, state.loss, state.slope)
        back = replace(state, w=state.good - a * state.p, good=None, loss=np.inf, hessian=None)
        if a:
            return back, Info(synced=True, fired=True)
        if state.slope:
            return back, Info(
                synced=True, fired=True, ended=self.tolerance.stalled(g, "no step length lowers the loss")
            )
        return back, Info(synced=True, fired=True)  # a take-over that was no good: go on from the point before

    def settle(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return w."""
        return state.w
