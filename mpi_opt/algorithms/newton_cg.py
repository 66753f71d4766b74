"""Newton-CG with a trust region (TRON): Lin and More 1999; Lin, Weng, Keerthi 2008; over MPI as in MPI-LIBLINEAR.

| paper      | here             | shape | meaning                                                               |
|------------|------------------|-------|-----------------------------------------------------------------------|
| w          | ``w``            | (d,)  | trial point, the same on all nodes; its loss comes with the next sum  |
| g, H       | ``g``            |       | global gradient; the Hessian is only multiplied by                    |
| s          | ``trial.s``      | (d,)  | step, by conjugate gradients within the region                        |
| M          | ``m``            |       | what the preconditioner is made of; the region is ``s.Ms <= Delta^2`` |
| Delta      | ``radius``       |       | radius                                                                |
| xi         | ``forcing``      |       | relative residual at which conjugate gradients stop                   |

An iteration is one round for gradient, loss and the preconditioner's numbers at the trial point (2d + 2 with the
Hessian's diagonal), and one round of d numbers for each product. If the trial point was no good, its gradient is
thrown away and conjugate gradients start again, from the point before, in a smaller region. The method is exact:
how rows are split over nodes does not matter, and it needs no memory beyond a few vectors.

Deviations: the first region is unbounded and takes its radius from the first step, since |g| as radius depends on how
the objective is scaled; M is the whole diagonal of H, where LIBLINEAR takes 1 % of it and 99 % of the penalty's, or for
softmax a block that all classes share; where
rounding hides the decrease, the gradient's norm decides. Rounds from zero to a gap of 1e-6 on a9a, w8a and ijcnn1 with
l2 = 1/N: 110, 47, 25; with LIBLINEAR's M 105, 49, 29; without 105, 66, 36. LIBLINEAR's forcing 0.1: 105, 55, 37.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_range
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.preconditioner import Preconditioner, Shared
from mpi_opt.algorithms.parts.trust_region import Trial, TrustRegion, conjugate_gradients
from mpi_opt.problems.base import SecondOrder
from mpi_opt.requests import Steps, Sum
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Base:
    """The point before the trial point.

    Attributes
    ----------
    w, loss : ndarray and float
        The point and its global loss.
    g : ndarray, shape (d,)
        Global gradient there.
    m : ndarray
        The preconditioner's numbers there.
    trial : Trial or None
        The step that led on; ``None`` after a take-over, where nothing but the loss is known.
    """

    w: Vector
    loss: float
    g: Vector
    m: Vector
    trial: Trial | None


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what the next iteration needs.

    Attributes
    ----------
    t : int
        Iterations so far.
    w : ndarray, shape (d,)
        Trial point.
    base : Base or None
        Where to go back to; the start has none.
    radius : float
        Delta; infinite until the first step.
    """

    t: int
    w: Vector
    base: Base | None
    radius: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NewtonCG:
    """Trust-region Newton-CG on the global objective.

    Parameters
    ----------
    tolerance : Tolerance
        When the global gradient counts as zero.
    region : TrustRegion
        Acceptance and radius.
    forcing : float
        xi in (0, 1).
    preconditioner : Preconditioner
        Makes M.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    region: TrustRegion = field(default_factory=TrustRegion)
    forcing: float = 0.3
    preconditioner: Preconditioner = field(default_factory=Shared)

    needs: ClassVar[tuple[str, ...]] = (
        "gradient",
        "value",
        "hvp_at",
        "hessian_diagonal",
        "columns",
        "shared_curvature",
    )

    def __post_init__(self) -> None:
        check_range("forcing", self.forcing, "above 0 and below 1", 0 < self.forcing < 1)

    @property
    def batch(self) -> None:
        """Every iteration sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first iteration."""
        return State(0, x0.copy(), None, np.inf)

    def take_over(self, problem: SecondOrder, w: Vector, good: Vector | None, good_loss: float) -> State:
        """Return the state that starts at ``w``, and goes back to ``good`` if w is worse."""
        if good is None or not np.isfinite(good_loss):
            return State(0, w, None, np.inf)
        return State(0, w, Base(good, good_loss, np.empty(0), np.empty(0), None), np.inf)

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one iteration: a round for the trial point, then one for each product."""
        w, d, n_k = state.w, state.w.size, problem.rows
        parts = [n_k * problem.gradient(w), np.array([n_k * problem.value(w), n_k])]
        total = yield Sum(np.concatenate([*parts, n_k * self.preconditioner.local(problem, w)]))
        rows = float(total[d + 1])
        here = Base(w, float(total[d] / rows), total[:d] / rows, total[d + 2 :] / rows, None)
        state = replace(state, t=state.t + 1)
        if state.base is not None:
            here, radius, stuck = self._judge(state.base, here, state.radius)
            state = replace(state, w=here.w, radius=radius)
            if not here.g.size:
                return replace(state, base=None), Info(synced=True, fired=True)  # back to where it took over from
            if stuck:
                why = self.tolerance.reached(here.g) or self.tolerance.stalled(here.g, "the loss is flat to rounding")
                return replace(state, base=None), Info(synced=True, fired=True, ended=why)
        ended = self.tolerance.reached(here.g)
        if ended:
            return replace(state, base=None), Info(synced=True, fired=True, ended=ended)
        product, metric = problem.hvp_at(here.w), self.preconditioner.metric(problem, here.m)
        trial = yield from conjugate_gradients(product, n_k / rows, here.g, metric, state.radius, self.forcing)
        if not trial.predicted > 0:
            why = self.tolerance.stalled(here.g, "no descent direction")
            return replace(state, base=None), Info(synced=True, fired=True, ended=why)
        return replace(state, w=here.w + trial.s, base=replace(here, trial=trial)), Info(synced=True, fired=True)

    def _judge(self, base: Base, here: Base, radius: float) -> tuple[Base, float, bool]:
        """Return the point to go on from, the radius there, and whether nothing more can be gained."""
        if base.trial is None:
            return (here if here.loss <= base.loss else base), radius, False
        change = here.loss - base.loss
        radius = self.region.resize(radius, base.trial, change)
        if self.region.lost_in_rounding(base.trial, base.loss):
            better = bool(np.linalg.norm(here.g) < np.linalg.norm(base.g))
            return (here if better else base), radius, not better
        return (here if self.region.accepts(base.trial, change) else base), radius, False

    def settle(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return the trial point."""
        return state.w
