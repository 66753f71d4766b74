"""The local Newton direction: ``(H_k(w) + mu I) p = g`` by Cholesky, or by preconditioned conjugate gradients."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mpi_opt.problems.base import SecondOrder
from mpi_opt.types import Vector


class Solver(Protocol):
    """Finds a direction; a frozen dataclass."""

    def direction(self, problem: SecondOrder, w: Vector, g: Vector, mu: float) -> Vector:
        """Return p, shape ``(d,)``, with ``(H(w) + mu I) p ~ g``; not finite where no direction was found."""
        ...


def factor_symmetric(h: Vector) -> Any:
    """Return the Cholesky factor of a symmetric ``h``, whose diagonal is raised in place until it is positive definite.

    Separable shards, absent features without penalty and softmax's own direction make h singular. The raise starts at
    1e-12 of the mean diagonal and grows tenfold; if nothing helps (h is not finite) the answer is ``None``.

    A pivot that is rounding of its diagonal entry counts as 0: whether it comes out positive is chance, and dividing by
    it would move the model far along a direction in which the loss does not change.
    """
    from scipy.linalg import LinAlgError, cho_factor

    diagonal = np.einsum("ii->i", h)
    original = diagonal.copy()
    mean = float(original.mean()) if original.size else 0.0
    if not np.isfinite(mean):
        return None
    raised, rounding = 0.0, h.shape[0] * np.finfo(float).eps
    for _ in range(16):
        try:
            # The transpose is the same symmetric matrix in LAPACK's order, which saves it a copy.
            factor = cho_factor(h.T, lower=True, check_finite=False)
            if np.all(np.square(np.einsum("ii->i", factor[0])) > rounding * diagonal):
                return factor
        except LinAlgError:
            pass
        raised = max(10.0 * raised, 1e-12 * mean, np.finfo(float).tiny)
        diagonal[:] = original + raised
    return None


def solve_symmetric(h: Vector, g: Vector) -> Vector:
    """Solve ``h p = g`` for a symmetric ``h`` (used up), raised as in `factor_symmetric`.

    Where there is no factor the answer is NaN, which whoever steps takes for "no direction".
    """
    from scipy.linalg import cho_solve

    factor = factor_symmetric(h)
    return np.full_like(g, np.nan) if factor is None else np.asarray(cho_solve(factor, g, check_finite=False))


@dataclass(frozen=True, slots=True)
class Cholesky:
    """Form the Hessian and factor it: exact, ``O(rows nnz_row^2 + d^3)``."""

    def direction(self, problem: SecondOrder, w: Vector, g: Vector, mu: float) -> Vector:
        """See `Solver`."""
        h = problem.hessian(w)
        if mu:
            np.einsum("ii->i", h)[:] += mu
        p = solve_symmetric(h, g)
        if not mu:
            problem.center(p)  # with mu nothing is left to rounding
        return p


@dataclass(frozen=True, slots=True)
class ConjugateGradients:
    """Jacobi-preconditioned CG on Hessian-vector products.

    Parameters
    ----------
    tolerance : float
        Stop at a residual of this share of |g|, in the preconditioner's norm.
    most : int
        Most products.
    """

    tolerance: float = 1e-3
    most: int = 250

    def direction(self, problem: SecondOrder, w: Vector, g: Vector, mu: float) -> Vector:
        """See `Solver`. Where curvature is lost in rounding (H singular) it ends with what was found so far."""
        product = problem.hvp_at(w)
        diagonal = problem.hessian_diagonal(w)
        diagonal += mu
        diagonal[diagonal <= 0] = 1.0  # coordinates without curvature keep their gradient's scale
        inverse = 1.0 / diagonal
        rounding = g.size * np.finfo(float).eps
        p = np.zeros_like(g)
        r = g.copy()
        z = inverse * r
        s = z.copy()
        rho = float(r @ z)
        enough = self.tolerance**2 * rho
        for _ in range(self.most):
            if not rho > enough:
                break
            hs = product(s)
            if mu:
                hs += mu * s
            curvature = float(s @ hs)
            if not curvature > rounding * float(np.einsum("i,i,i", s, s, diagonal)):
                break
            a = rho / curvature
            p += a * s
            r -= a * hs
            np.multiply(inverse, r, out=z)
            rho, before = float(r @ z), rho
            s *= rho / before
            s += z
        return p if np.any(p) else z


@dataclass(frozen=True, slots=True)
class Cheaper:
    """Whichever of the two needs fewer operations on this shard, by count.

    Cholesky: the Gram matrix costs ``rows * (nnz / rows)^2`` and the factor ``d^3 / 3``; CG costs four operations a
    stored entry and product.

    Parameters
    ----------
    cg : ConjugateGradients
        Used where it wins.
    products : int
        Products a CG solve is expected to take.
    largest : int
        Largest d whose Hessian is formed at all (8 d^2 bytes).
    """

    cg: ConjugateGradients = ConjugateGradients()
    products: int = 60
    largest: int = 4000

    def direction(self, problem: SecondOrder, w: Vector, g: Vector, mu: float) -> Vector:
        """See `Solver`."""
        solver = Cholesky() if self.prefers_cholesky(problem) else self.cg
        return solver.direction(problem, w, g, mu)

    def prefers_cholesky(self, problem: SecondOrder) -> bool:
        """Return whether forming and factoring the Hessian is the cheaper way."""
        d, rows = problem.dim, max(problem.rows, 1)
        if d > self.largest:
            return False
        # Sparse products run at about a tenth of the speed of dense ones, in the Gram matrix and in CG alike.
        gram = problem.nonzeros**2 / rows
        return gram + d**3 / 30 <= 4.0 * problem.nonzeros * self.products + 10.0 * d * self.products
