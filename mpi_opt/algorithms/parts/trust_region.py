"""A trust region whose subproblem is solved by conjugate gradients on the GLOBAL Hessian: one round a product.

Steihaug's truncation, with the radius rules of Lin and More 1999 (SIAM J. Optim. 9(4), section 4) and the constants of
Lin, Weng and Keerthi 2008 (JMLR 9:627-650, Algorithm 1); the preconditioner M also measures the region, as in Hsia,
Chiang and Lin 2018 (ACML, PMLR 95, Algorithm 3).
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_opt.algorithms.parts.line_search import ROUND_OFF
from mpi_opt.algorithms.parts.preconditioner import Metric
from mpi_opt.requests import Request, Sum
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Trial:
    """A step s to be tried, and what the quadratic model says of it.

    Attributes
    ----------
    s : ndarray, shape (d,)
        The step.
    slope : float
        g.s, negative.
    predicted : float
        ``-(g.s + s.Hs / 2)``, the decrease of the model.
    length : float
        ``sqrt(s.Ms)``.
    at_edge : bool
        The region cut the step short.
    """

    s: Vector
    slope: float
    predicted: float
    length: float
    at_edge: bool


@dataclass(frozen=True, slots=True)
class TrustRegion:
    """When a step is taken, and how the radius follows; the constants are those of the papers."""

    accept: float = 1e-4
    poor: float = 0.25
    good: float = 0.75
    least: float = 0.25
    half: float = 0.5
    growth: float = 4.0

    def accepts(self, trial: Trial, change: float) -> bool:
        """Return whether the loss, which moved by ``change``, fell by enough; never true for NaN."""
        return -change > self.accept * trial.predicted

    def lost_in_rounding(self, trial: Trial, loss: float) -> bool:
        """Return whether the promised decrease is below what a difference of losses can show."""
        return trial.predicted <= ROUND_OFF * abs(loss)

    def resize(self, radius: float, trial: Trial, change: float) -> float:
        """Return the next radius. An infinite one (the first) becomes the length of the first step."""
        radius = min(radius, trial.length) if np.isinf(radius) else radius
        beyond = change - trial.slope  # what the loss rises above its tangent
        factor = self.growth if beyond <= 0 else max(self.least, -0.5 * trial.slope / beyond)
        wished = factor * trial.length
        if not self.accepts(trial, change):
            return min(max(factor, self.least) * trial.length, self.half * radius)
        if -change < self.poor * trial.predicted:
            return max(self.least * radius, min(wished, self.half * radius))
        if -change < self.good * trial.predicted:
            return max(self.least * radius, min(wished, self.growth * radius))
        return self.growth * radius if trial.at_edge else max(radius, min(wished, self.growth * radius))


Search = Generator[Request, Any, Trial]


def conjugate_gradients(
    product: Callable[[Vector], Vector], weight: float, g: Vector, metric: Metric, radius: float, forcing: float
) -> Search:
    """Solve ``min g.s + s.Hs / 2`` over ``s.Ms <= radius^2`` to a relative residual; every node finds the same s.

    Parameters
    ----------
    product : callable
        v -> H_k v of this node.
    weight : float
        N_k / N; H is the sum of weight times H_k over nodes.
    g : ndarray, shape (d,)
        Global gradient.
    metric : Metric
        M, which preconditions and measures the region.
    radius : float
        May be infinite.
    forcing : float
        Stop where the residual's norm (that of M^-1) is this share of the gradient's.
    """
    s, r = np.zeros_like(g), -g
    z = metric.solve(r)
    v = z.copy()
    rho = float(r @ z)
    enough, at_edge = forcing**2 * rho, False
    for _ in range(max(g.size, 5)):
        if not rho > enough:
            break
        total = yield Sum(weight * product(v))
        hv = total.copy()
        curvature = float(v @ hv)
        a = rho / curvature if curvature > 0 else np.inf
        mv = metric.times(v)
        room, sv, vv = radius * radius - float(s @ metric.times(s)), float(s @ mv), float(v @ mv)
        at_edge = a * (2.0 * sv + a * vv) > room
        if at_edge:
            a = room / (sv + np.sqrt(sv**2 + vv * max(room, 0.0)))
        if not np.isfinite(a):
            break  # no curvature and no edge: rounding, or data without it; what was found so far counts
        s += a * v
        r -= a * hv
        if at_edge:
            break
        z = metric.solve(r)
        rho, before = float(r @ z), rho
        v *= rho / before
        v += z
    slope = float(g @ s)
    return Trial(s, slope, -0.5 * (slope - float(s @ r)), float(np.sqrt(s @ metric.times(s))), at_edge)
