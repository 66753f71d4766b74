"""LocalNewton: Gupta, Ghosh, Derezinski, Khanna, Ramchandran, Mahoney 2021, arXiv 2105.07320, seen from worker k.

| paper         | here          | shape  | meaning                                                       |
|---------------|---------------|--------|---------------------------------------------------------------|
| w             | ``w``         | (d,)   | average model after the last round, the same on all nodes     |
| w_k           | ``w_k``       | (d,)   | worker k's model between rounds                               |
| f_k, g_k, H_k | ``problem``   |        | mean loss of the shard with the full penalty, its derivatives |
| p_k           | ``p``         | (d,)   | local Newton direction                                        |
| alpha         | ``a``         |        | step length by Armijo backtracking on the LOCAL loss          |
| L             | ``length``    |        | local steps a round                                           |
| L_0           | ``local_steps`` |      | local steps of the first round                                |

Plain form: L local steps, then the mean weighted by rows. It ends in a ball round the optimum, not at it, and for many
small shards later rounds can be worse than the first: that is the paper's own statement.

Adaptive form: the local loss at the last average rides with the model in one (d+1)-vector, so the global loss is known
one round later at no cost. A round that raised it is rejected. L falls with the relative decrease of the global loss,
``L <= ceil(L_0 decrease / enough)``, and by one after a rejection. Then the ``finish`` takes over: Newton methods after
the first judged round, at the new average (its loss check rides in their first sum); GIANT once L has come down to 1 or
a round was rejected, at the last good point, whose global gradient rode along (2d+1 numbers), so that its first
iteration is one round.

Deviations, all of them options: the paper leaves open the bound on the decrease, whether a worse round is rejected, and
the candidates of the line search; damping of the direction's Hessian and averaging by support serve shards that lack
features; where most rows lie in shards of one class the local rounds are left out, since such shards are separable and
pull the average far off.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_counts, check_range
from mpi_opt.algorithms.parts.averaging import Holders, average
from mpi_opt.algorithms.parts.damping import damping_of
from mpi_opt.algorithms.parts.finish import Finish, FromAverage, FromKnown
from mpi_opt.algorithms.parts.line_search import ROUND_OFF, Backtracking
from mpi_opt.algorithms.parts.solver import Cheaper, Solver
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Request, Steps, Sum
from mpi_opt.types import Vector

_NEEDS = (
    "gradient",
    "value",
    "value_along",
    "hessian",
    "hessian_diagonal",
    "hvp_at",
    "support",
    "varied",
    "center",
)

STALL = 1e-4
"""A relative decrease of the global loss under this counts as none."""


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what the next round needs.

    Attributes
    ----------
    t : int
        Rounds so far.
    w : ndarray, shape (d,)
        The last average; its global loss is not known yet.
    good, good_loss, good_g : ndarray, float, ndarray or None
        The last average whose loss is known and was accepted; its gradient, where the finish wants it.
    length : int
        L; 0 once the local rounds are over.
    stalled : int
        Rounds in a row that hardly lowered the global loss.
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
    good_g: Vector | None
    length: int
    stalled: int
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
    patience : int or None
        Without a finish: rounds in a row that lower the global loss by less than ``STALL`` before the method says that
        it has come to its floor; ``None`` goes on for ever.
    """

    local_steps: int = 3
    adaptive: bool = False
    finish: Finish | None = None
    solver: Solver = field(default_factory=Cheaper)
    search: Backtracking = field(default_factory=Backtracking)
    damping: float | None = 0.0
    by_support: bool = True
    enough: float = 2e-2
    patience: int | None = None

    def __post_init__(self) -> None:
        check_counts(local_steps=self.local_steps, patience=self.patience)
        check_range("damping", self.damping or 0.0, "at least 0, or None", (self.damping or 0.0) >= 0)

    @property
    def needs(self) -> tuple[str, ...]:
        """What the local rounds and the finish call."""
        return _NEEDS if self.finish is None else tuple(dict.fromkeys((*_NEEDS, *self.finish.needs)))

    @property
    def batch(self) -> None:
        """Every step sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first round."""
        holders = Holders(problem.rows * problem.support()) if self.by_support else None
        mu = damping_of(self.damping, problem)
        return State(0, x0.copy(), x0.copy(), np.inf, None, self.local_steps, 0, holders, mu)

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one round: of local steps, or of the finish."""
        if state.finish is None and self.finish is not None and state.t == 0:
            state = yield from self._leave_out_one_class_shards(state, problem)
        if state.finish is not None and self.finish is not None:
            inner, info = yield from self.finish.step(state.finish, problem, node)
            return replace(state, t=state.t + 1, finish=inner), info
        return (yield from self._local_round(state, problem))

    def _local_round(self, state: State, problem: SecondOrder) -> Steps:
        w_k, loss, g = self._local_steps(state, problem)
        riders = (
            np.concatenate([[loss], g]) if self.adaptive and isinstance(self.finish, FromKnown) else np.array([loss])
        )
        # Where no shard holds a feature, the penalty alone decides: its coordinate goes to 0.
        alone = np.zeros_like(w_k) if problem.l2 else state.w
        w, riders, holders = yield from average(w_k, riders, problem.rows, state.holders, alone)
        state = replace(state, t=state.t + 1, holders=holders)
        info = Info(synced=True, fired=True, diverged=not np.isfinite(w @ w))
        loss = float(riders[0])
        stalled = state.stalled + 1 if loss > state.good_loss * (1.0 - STALL) else 0
        before = state.length
        if self.adaptive:
            state = self._judge(state, w, loss, riders[1:], problem)
        else:
            better = loss <= state.good_loss
            good, good_loss = (state.w, loss) if better else (state.good, state.good_loss)
            state = replace(state, w=w, good=good, good_loss=good_loss)
        over = self.adaptive and before < 2 and state.w is state.good  # rejected, and L cannot fall any further
        if self.finish is None and (over or (self.patience is not None and stalled >= self.patience)):
            reached = state.good_loss if self.adaptive else loss  # the plain form puts out its last average
            info = info._replace(
                ended=f"stalled at the averaging floor, objective {reached:.6g}: not the optimum of all rows; "
                'take finish = "newton", "newton-cg" or "giant", or fewer and larger shards'
            )
        return replace(state, stalled=stalled), info

    def _judge(self, state: State, w: Vector, loss: float, g: Vector, problem: SecondOrder) -> State:
        """Accept or reject the average ``state.w``, whose global loss and gradient came; ``w`` was computed from it."""
        bound = state.good_loss + ROUND_OFF * abs(state.good_loss)
        L, L_0, rejected = state.length, self.local_steps, not loss <= bound
        if rejected:
            state, L = replace(state, w=state.good), L - 1
        else:
            if np.isfinite(state.good_loss):
                fell = (state.good_loss - loss) / max(abs(state.good_loss), np.finfo(float).tiny)
                L = min(L, math.ceil(L_0 * fell / self.enough))
            state = replace(state, w=w, good=state.w, good_loss=loss, good_g=g if g.size else None)
        if isinstance(self.finish, FromAverage):
            return replace(state, length=0, finish=self.finish.take_over(problem, state.w, state.good, state.good_loss))
        if isinstance(self.finish, FromKnown) and state.good_g is not None and (rejected or L < 2):
            finish = self.finish.start_at(problem, state.good, state.good_loss, state.good_g)
            return replace(state, length=0, finish=finish)
        return replace(state, length=max(L, 1))

    def _local_steps(self, state: State, problem: SecondOrder) -> tuple[Vector, float, Vector]:
        """Return the local model after L Newton steps from the last average; the local loss and gradient there."""
        L, mu, w_k, base = state.length, state.mu, state.w.copy(), problem.value(state.w)
        first, first_g = base, problem.gradient(w_k)
        if not problem.rows:
            return w_k, first, first_g
        for done in range(L):
            g = problem.gradient(w_k) if done else first_g
            p = self.solver.direction(problem, w_k, g, mu)
            value = problem.value_along(w_k, p)
            a = self.search.search(lambda a, value=value: value(-a), base, float(p @ g))  # type: ignore[misc]
            if not a:
                break  # at the shard's own optimum, or no direction: what was reached counts
            w_k -= a * p
            base = value(-a)
        return w_k, first, first_g

    def _leave_out_one_class_shards(self, state: State, problem: SecondOrder) -> Generator[Request, Any, State]:
        """Hand over at once where most rows lie in shards of one class."""
        counts = np.array([float(problem.rows), 0.0 if problem.varied else float(problem.rows)])
        total = yield Sum(counts, short=True)
        if self.finish is not None and total[1] > 0.5 * total[0]:
            return replace(state, length=0, finish=self.finish.init(problem, state.w))
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
