"""The proximal point of a shard's function: ``argmin_x f_k(x) + rho / 2 |x - v|^2``, by damped Newton steps."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mpi_opt.algorithms.parts.line_search import Backtracking
from mpi_opt.algorithms.parts.solver import Cheaper, Solver
from mpi_opt.problems.base import SecondOrder
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Proximal:
    """Newton's method on the augmented function; its Hessian is the shard's plus rho I.

    Parameters
    ----------
    solver : Solver
        Finds the direction.
    search : Backtracking
        The local line search.
    most : int
        Most Newton steps.
    accuracy : float
        Ends where the gradient is this share of that of the starting point.
    """

    solver: Solver = field(default_factory=Cheaper)
    search: Backtracking = field(default_factory=Backtracking)
    most: int = 10
    accuracy: float = 1e-3

    def point(self, problem: SecondOrder, start: Vector, v: Vector, rho: float) -> Vector:
        """Return the minimiser, a new array of shape ``(d,)``; where no step helps, what was reached.

        Parameters
        ----------
        problem : SecondOrder
            f_k.
        start : ndarray, shape (d,)
            Where Newton's method starts.
        v : ndarray, shape (d,)
            Centre of the pull.
        rho : float
            Its strength, > 0.
        """
        x = start.copy()
        g = problem.gradient(x) + rho * (x - v)
        enough = self.accuracy * float(np.linalg.norm(g))
        for _ in range(self.most):
            if not np.linalg.norm(g) > enough:
                break
            p = self.solver.direction(problem, x, g, rho)
            value = _along(problem, x, p, v, rho)
            a = self.search.search(value, value(0.0), float(p @ g))
            if not a:
                break
            x -= a * p
            g = problem.gradient(x) + rho * (x - v)
        return x


def _along(problem: SecondOrder, x: Vector, p: Vector, v: Vector, rho: float) -> Callable[[float], float]:
    """Return the map a -> value of the augmented function at x - a p."""
    value, away = problem.value_along(x, p), x - v
    square, mixed, square_p = float(away @ away), float(away @ p), float(p @ p)
    return lambda a: value(-a) + 0.5 * rho * (square - a * (2.0 * mixed - a * square_p))
