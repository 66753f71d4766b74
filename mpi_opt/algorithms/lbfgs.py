"""L-BFGS with reduced gradients: Liu and Nocedal 1989 (Math. Programming 45), two-loop recursion of Nocedal 1980.

| symbol   | here     | shape  | meaning                                                                           |
|----------|----------|--------|-----------------------------------------------------------------------------------|
| x_k      | ``w``    | (d,)   | iterate, the same on all nodes; its loss and gradient come with the next sum      |
| g_k      | ``g``    | (d,)   | global gradient                                                                   |
| s_i, y_i | ``pairs``| (m, d) | the last m steps and changes of the gradient                                      |
| H_k g_k  | ``p``    | (d,)   | direction, found on every node alike from the reduced gradients; the step is -a p |

An evaluation is one round: gradient, loss, rows. The full step a = 1 is taken at once and tested by what the next round
brings, as in dask-glm and DPLBFGS; only if it fails Armijo's test, and for the first step, whose scale nothing is known
of, one short round with the losses at all candidates along p chooses the length (the lowest of those that pass).

Choosing every length by such a short round needs a fifth fewer evaluations (a9a, w8a, ijcnn1 to a gap of 1e-6: 100, 37,
14 against 124, 44, 17), but as many short rounds again; where latency counts, that is the slower way.

Deviations: no Wolfe condition, since F is convex and s.y > 0 holds by itself, but for rounding; such pairs are left
out. Where rounding hides the decrease, the slope at the new point stands for the loss (Hager and Zhang 2005, SIAM J.
Optim. 16(1), the approximate Wolfe condition).
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_counts
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.line_search import ROUND_OFF, Backtracking
from mpi_opt.algorithms.parts.pairs import Pairs
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Steps, Sum
from mpi_opt.types import Vector

FIRST_LENGTHS = tuple(4.0**i for i in range(12, -13, -1))
"""Candidates for the step along the first gradient, 6e-8 to 2e7."""


@dataclass(frozen=True, slots=True)
class Base:
    """The point before, and the way on from it.

    Attributes
    ----------
    w, g : ndarray, shape (d,)
        The point and the global gradient there.
    loss : float
        Global loss there.
    p : ndarray, shape (d,)
        Direction.
    slope : float
        p.g > 0.
    tested : bool
        The length was chosen by the losses along p already.
    """

    w: Vector
    g: Vector
    loss: float
    p: Vector
    slope: float
    tested: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what the next round needs.

    Attributes
    ----------
    t : int
        Evaluations so far.
    w : ndarray, shape (d,)
        Iterate; its loss and gradient come with the next sum.
    base : Base or None
        The point before; the start has none.
    pairs : Pairs
        Changed in place by a step.
    """

    t: int
    w: Vector
    base: Base | None
    pairs: Pairs


@dataclass(frozen=True, kw_only=True, slots=True)
class LBFGS:
    """L-BFGS on the global objective.

    Parameters
    ----------
    tolerance : Tolerance
        When the global gradient counts as zero.
    search : Backtracking
        Test of the full step, and the candidates if it fails.
    memory : int
        m >= 1, pairs kept.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    search: Backtracking = field(default_factory=Backtracking)
    memory: int = 10

    needs: ClassVar[tuple[str, ...]] = ("gradient", "value", "value_along")

    def __post_init__(self) -> None:
        check_counts(memory=self.memory)

    @property
    def batch(self) -> None:
        """Every evaluation sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first evaluation."""
        return State(0, x0.copy(), None, Pairs.empty(self.memory, x0.size))

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one evaluation, and the step that follows from it."""
        w, base, n_k = state.w, state.base, problem.rows
        total = yield Sum(np.concatenate([n_k * problem.gradient(w), [n_k * problem.value(w), n_k]]))
        total = total / total[-1]
        g, loss = total[:-2], float(total[-2])
        state = replace(state, t=state.t + 1)
        ended = self.tolerance.reached(g)
        if ended:
            return replace(state, base=None), Info(synced=True, fired=True, ended=ended)
        if base is not None:
            if not base.tested and base.slope <= ROUND_OFF * abs(base.loss):
                if not abs(base.p @ g) <= (1.0 - 2.0 * self.search.beta) * base.slope:
                    return self._stalled(state, base, "the loss is flat to rounding")
            elif not base.tested and not self.search.passes(loss, base.loss, 1.0, base.slope):
                return (yield from self._search(state, problem, base, self.search.lengths[1:]))
            state.pairs.add(w - base.w, g - base.g)
        p = state.pairs.direction(g)
        base = Base(w, g, loss, p, float(p @ g))
        if not base.slope > 0:
            return self._stalled(state, base, "no descent direction")
        if not state.pairs.added:
            return (yield from self._search(state, problem, base, FIRST_LENGTHS))
        return replace(state, w=w - p, base=base), Info(synced=True, fired=True)

    def _search(self, state: State, problem: SecondOrder, base: Base, lengths: tuple[float, ...]) -> Steps:
        """Go to the lowest candidate along p that passes; one short round."""
        value, n_k = problem.value_along(base.w, base.p), problem.rows
        losses = yield Sum(np.array([n_k * value(-a) for a in lengths] + [n_k]), short=True)
        passing = [
            (loss, a)
            for loss, a in zip(losses[:-1] / losses[-1], lengths, strict=True)
            if self.search.passes(loss, base.loss, a, base.slope)
        ]
        if not passing:
            return self._stalled(state, base, "no step length lowers the loss")
        a = min(passing)[1]
        moved = replace(state, w=base.w - a * base.p, base=replace(base, tested=True))
        return moved, Info(synced=True, fired=True)

    def _stalled(self, state: State, base: Base, why: str) -> tuple[State, Info]:
        """End at the last good point."""
        ended = self.tolerance.stalled(base.g, why)
        return replace(state, w=base.w, base=None), Info(synced=True, fired=True, ended=ended)

    def settle(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return w."""
        return state.w
