"""Consensus ADMM with local Newton solves: Boyd, Parikh, Chu, Peleato, Eckstein 2011 (FnT ML 3(1)), section 7.1.

| paper      | here         | shape | meaning                                                                      |
|------------|--------------|-------|------------------------------------------------------------------------------|
| x_i        | ``x``        | (d,)  | this node's model                                                            |
| u_i        | ``u``        | (d,)  | scaled dual variable                                                         |
| z          | ``z``        | (d,)  | consensus, the same on all nodes                                             |
| f_i        | ``problem``  |       | N_k / N times the shard's mean loss with the full penalty; they add up to F  |
| rho        | ``rho``      |       | pull towards z; that of node k is rho N_k / N                                |
| r, s       | ``primal``, ``dual`` | | relative residuals, squared                                                |

An iteration is one round of d + 3 numbers::

    x_k = argmin f_k(x) + rho / 2 |x - z + u_k|^2,   z = sum N_k / N (x_k + u_k),   u_k = u_k + x_k - z

``sum N_k u_k = 0`` throughout, so z is the mean of the x_k, and the primal residual is known without delay from one
number in the same message: ``sum N_k / N |x_k - z|^2 = sum N_k / N |x_k - z before|^2 - |z - z before|^2``. Residuals
balance rho, each measured by the size of its own variable (Wohlberg 2017, arXiv 1704.06209, section 4): r by |z|, s by
rho |u|. Measured as they are, as in section 3.4.1, they made slower progress on a9a.

ADMM has no cheap global gradient. Only with a tolerance above 0 it rides along (d numbers more), taken at the z before;
without, the method goes on until the run's stop rules.

Deviations: the pull is weighted by rows as the loss is, so that a shard without rows has no say; the first rho is a
share of the mean curvature at the start, summed in a short round, so that it does not depend on the data's scale.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_range
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.line_search import ROUND_OFF
from mpi_opt.algorithms.parts.proximal import Proximal
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
    x, u, z : ndarray, shape (d,)
        Local model, scaled dual variable, consensus.
    rho : float
        Pull towards z; 0 before the first iteration.
    """

    t: int
    x: Vector
    u: Vector
    z: Vector
    rho: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ADMM:
    """Consensus ADMM.

    Parameters
    ----------
    tolerance : Tolerance
        When the global gradient counts as zero; above 0 the gradient is summed too.
    proximal : Proximal
        The local solve.
    pull : float
        The first rho, as a share of the mean of the Hessian's diagonal at the start.
    balance : float
        rho changes where one relative residual is more than this multiple of the other; infinite leaves it as it is.
    factor : float
        By how much it changes.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    proximal: Proximal = field(default_factory=Proximal)
    pull: float = 0.01
    balance: float = 10.0
    factor: float = 2.0

    needs: ClassVar[tuple[str, ...]] = (
        "gradient",
        "value",
        "value_along",
        "hessian",
        "hessian_diagonal",
        "hvp_at",
        "center",
    )

    def __post_init__(self) -> None:
        check_range("pull", self.pull, "above 0", self.pull > 0)
        check_range("balance", self.balance, "above 1", self.balance > 1)
        check_range("factor", self.factor, "above 1", self.factor > 1)

    @property
    def batch(self) -> None:
        """Every iteration sees the whole shard."""
        return

    def init(self, problem: SecondOrder, x0: Vector) -> State:
        """Return the state before the first iteration."""
        return State(0, x0.copy(), np.zeros_like(x0), x0.copy(), 0.0)

    def step(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Take one iteration."""
        z, rho, n_k, d = state.z, state.rho, problem.rows, state.z.size
        if not state.t:
            curvature = n_k * float(problem.hessian_diagonal(z).mean())
            total = yield Sum(np.array([curvature, n_k]), short=True)
            rho = self.pull * float(total[0] / total[1])
        x = self.proximal.point(problem, state.x, z - state.u, rho) if n_k else z.copy()
        squares = [n_k * float((x - z) @ (x - z)), n_k * float(state.u @ state.u), float(n_k)]
        parts = [n_k * (x + state.u), np.array(squares)]
        if self.tolerance.gradient_norm > 0:
            parts.append(n_k * problem.gradient(z))
        total = yield Sum(np.concatenate(parts))
        total = total / total[d + 2]
        if self.tolerance.gradient_norm > 0:
            ended = self.tolerance.reached(total[d + 3 :])
            if ended:
                return replace(state, t=state.t + 1), Info(synced=True, fired=True, ended=ended)
        new = total[:d]
        step = float((new - z) @ (new - z))
        primal = max(float(total[d]) - step, 0.0) * float(total[d + 1])
        dual = step * float(new @ new)
        u = state.u + x - new if n_k else state.u
        # Without a pull (the first iteration, a single node) s has no measure.
        pulled = float(total[d + 1]) > ROUND_OFF**2 * float(new @ new)
        scale = self._rescale(primal, dual) if pulled else 1.0
        info = Info(synced=True, fired=True, diverged=not np.isfinite(step))
        return State(state.t + 1, x, u / scale, new, rho * scale), info

    def _rescale(self, primal: float, dual: float) -> float:
        """Return what rho is multiplied by, and u divided; both residuals come squared and times |z|^2 |u|^2."""
        if primal > self.balance**2 * dual:
            return self.factor
        if dual > self.balance**2 * primal:
            return 1.0 / self.factor
        return 1.0

    def settle(self, state: State, problem: SecondOrder, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return z."""
        return state.z
