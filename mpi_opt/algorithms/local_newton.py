"""LocalNewton: Gupta, Ghosh, Derezinski, Khanna, Ramchandran, Mahoney 2021, arXiv 2105.07320, seen from worker k.

| paper         | here          | shape  | meaning                                                       |
|---------------|---------------|--------|---------------------------------------------------------------|
| w             | ``w``         | (d,)   | average model after the last round, the same on all nodes     |
| w_k           | ``w_k``       | (d,)   | worker k's model between rounds                               |
| f_k, g_k, H_k | ``problem``   |        | mean loss of the shard with the full penalty, its derivatives |
| p_k           | ``p``         | (d,)   | local Newton direction                                        |
| alpha         | ``a``         |        | step length by Armijo backtracking on the LOCAL loss          |
| L             | ``length``    |        | local steps a round                                           |

Plain form: L local steps, then the mean weighted by rows. It ends in a ball round the optimum, not at it, and for many
small shards later rounds can be worse than the first: that is the paper's own statement.

Adaptive form: the local loss at the last average rides with the model in one (d+1)-vector, so the global loss is known
one round later at no cost. A round that raised it is rejected; L falls by one when the relative decrease falls under
``enough``, and after a rejection. Then the ``finish`` takes over: at L = 1 for GIANT, after the first accepted round
for the Newton methods (its loss check rides in the finish's first sum).

Deviations, all of them options: the paper leaves open the bound on the decrease, whether a worse round is rejected, and
the candidates of the line search; damping of the direction's Hessian and averaging by support serve shards that lack
features; where most rows lie in shards of one class the local rounds are left out, since such shards are separable and
pull the average far off.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from mpi_opt.algorithms.base import Info, Node
from mpi_opt.algorithms.parts.averaging import Holders, average
from mpi_opt.algorithms.parts.damping import damping_of
from mpi_opt.algorithms.parts.line_search import Backtracking
from mpi_opt.algorithms.parts.solver import Cheaper, Solver
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Request, Steps, Sum
from mpi_opt.types import Vector


class Finish(Protocol):
    """A method that can take over at a point it did not choose."""

    @property
    def after_first_round(self) -> bool:
        """Whether to take over after the first accepted round (else when L has come down to 1)."""
        ...

    def take_over(self, problem: SecondOrder, w: Vector, good: Vector, good_loss: float) -> Any:
        """Return the state that starts at ``w``, and goes back to ``good`` (loss ``good_loss``) if w is worse."""
        ...

    def step(self, state: Any, problem: SecondOrder, node: Node) -> Steps:
        """See `algorithms.base.Algorithm`."""
        ...

    def model(self, state: Any) -> Vector:
        """See `algorithms.base.Algorithm`."""
        ...


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what the next round needs.

    Attributes
    ----------
    t : int
        Rounds so far.
    w : ndarray, shape (d,)
        The last average; its global loss is not known yet.
    good, good_loss : ndarray and float
        The last average whose loss is known and was accepted.
    length : int
        L; 0 once the local rounds are over.
    holders : Holders or None
        For averaging by support.
    mu : float
        This shard's damping.
    finish : object or None
        The finish's state, once it has taken over.
    """

    t: int
    w: Vector
    good: Vector
    good_loss: float
    length: int
    holders: Holders | None
    mu: float
    finish: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalNewton:
    """Local Newton steps, averaged.

    Parameters
    ----------
    local_steps : int
        L >= 1, the first one of the adaptive form.
    adaptive : bool
        Lower L as progress slows, reject rounds that raised the loss.
    finish : Finish or None
        Takes over when the local rounds have done their part; ``None`` goes on (the plain method, or L = 1 for ever).
    solver : Solver
        Finds the local direction.
    search : Backtracking
        The local line search.
    damping : float or None
        mu, added to the direction's Hessian; ``None`` lets each shard decide (`parts.damping`).
    by_support : bool
        Average each coordinate over the shards that hold its feature.
    enough : float
        Relative decrease of the global loss under which L falls.
    """

    local_steps: int = 3
    adaptive: bool = False
    finish: Finish | None = None
    solver: Solver = field(default_factory=Cheaper)
    search: Backtracking = field(default_factory=Backtracking)
    damping: float | None = 0.0
    by_support: bool = True
    enough: float = 1e-2

    @property
    def batch(self) -> None:
        """Every step sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first round."""
        holders = Holders(problem.rows * problem.support()) if self.by_support else None
        return State(0, x0.copy(), x0.copy(), np.inf, self.local_steps, holders, damping_of(self.damping, problem))

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one round: of local steps, or of the finish."""
        if state.finish is None and self.finish is not None and state.t == 0:
            state = yield from self._leave_out_one_class_shards(state, problem)
        if state.finish is not None and self.finish is not None:
            inner, info = yield from self.finish.step(state.finish, problem, node)
            return replace(state, t=state.t + 1, finish=inner), info
        return (yield from self._local_round(state, problem))

    def _local_round(self, state: State, problem: SecondOrder) -> Steps:
        w_k, loss = self._local_steps(state, problem)
        w, riders, holders = yield from average(w_k, np.array([loss]), problem.rows, state.holders, state.w)
        state = replace(state, t=state.t + 1, holders=holders)
        info = Info(synced=True, fired=True, diverged=not np.isfinite(w @ w))
        if not self.adaptive:
            return replace(state, w=w, good=state.w, good_loss=float(riders[0])), info
        return self._judge(state, w, float(riders[0]), problem), info

    def _judge(self, state: State, w: Vector, loss: float, problem: SecondOrder) -> State:
        """Accept or reject the average ``state.w``, whose global loss is ``loss``; ``w`` was computed from it."""
        if not loss <= state.good_loss:
            length, state = state.length - 1, replace(state, w=state.good)
        else:
            fell = (state.good_loss - loss) / max(abs(state.good_loss), np.finfo(float).tiny)
            length = state.length - (fell < self.enough)
            state = replace(state, w=w, good=state.w, good_loss=loss)
        over = length < 2 if self.finish is None or not self.finish.after_first_round else True
        if self.finish is not None and over:
            finish = self.finish.take_over(problem, state.w, state.good, state.good_loss)
            return replace(state, length=0, finish=finish)
        return replace(state, length=max(length, 1))

    def _local_steps(self, state: State, problem: SecondOrder) -> tuple[Vector, float]:
        """Return the local model after L Newton steps from the last average, and the local loss there."""
        w_k, base = state.w.copy(), problem.value(state.w)
        first = base
        if not problem.rows:
            return w_k, first
        for _ in range(state.length):
            g = problem.gradient(w_k)
            p = self.solver.direction(problem, w_k, g, state.mu)
            value = problem.value_along(w_k, p)
            a = self.search.search(lambda a, value=value: value(-a), base, float(p @ g))  # type: ignore[misc]
            if not a:
                break  # at the shard's own optimum, or no direction: what was reached counts
            w_k -= a * p
            base = value(-a)
        return w_k, first

    def _leave_out_one_class_shards(self, state: State, problem: SecondOrder) -> Generator[Request, Any, State]:
        """Hand over at once where most rows lie in shards of one class."""
        counts = np.array([float(problem.rows), 0.0 if problem.varied else float(problem.rows)])
        total = yield Sum(counts, short=True)
        if self.finish is not None and total[1] > 0.5 * total[0]:
            finish = self.finish.take_over(problem, state.w, state.w, np.inf)
            return replace(state, length=0, finish=finish)
        return state

    def settle(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return the last average, or the finish's model."""
        if state.finish is not None and self.finish is not None:
            return self.finish.model(state.finish)
        return state.w
