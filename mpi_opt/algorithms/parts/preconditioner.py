"""What conjugate gradients on the GLOBAL Hessian are preconditioned by: a matrix M that every node knows alike.

Each node gives a vector; their mean weighted by rows rides in the message of the gradient and determines M.

| M               | numbers a node     | for                                                              |
|-----------------|--------------------|------------------------------------------------------------------|
| `Identity`      | 0                  | comparison                                                       |
| `Diagonal`      | d                  | one column, or many features                                     |
| `Shared`        | p (p + 1) / 2      | softmax: C columns that look at the same p features              |
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mpi_opt.algorithms.parts.solver import factor_symmetric
from mpi_opt.algorithms.parts.triangle import fold, unfold
from mpi_opt.problems.base import SecondOrder
from mpi_opt.types import Vector


class Metric(Protocol):
    """M, positive definite."""

    def times(self, v: Vector) -> Vector:
        """Return M v, shape ``(d,)``, a new array."""
        ...

    def solve(self, r: Vector) -> Vector:
        """Return M^-1 r, shape ``(d,)``, a new array."""
        ...


class Preconditioner(Protocol):
    """Makes M; a frozen dataclass."""

    def local(self, problem: SecondOrder, w: Vector) -> Vector:
        """Return what this node knows of M at w: a vector whose length is the same on all nodes."""
        ...

    def metric(self, problem: SecondOrder, mean: Vector) -> Metric:
        """Return M, given the mean over nodes of what ``local`` returned, weighted by rows."""
        ...


@dataclass(frozen=True, slots=True)
class _Scaling:
    """A diagonal M."""

    m: Vector

    def times(self, v: Vector) -> Vector:
        return self.m * v

    def solve(self, r: Vector) -> Vector:
        return r / self.m


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The same matrix for each column."""

    block: Vector
    factor: Any
    columns: int

    def times(self, v: Vector) -> Vector:
        product: Vector = self.block @ v.reshape(-1, self.columns)
        return product.reshape(-1)

    def solve(self, r: Vector) -> Vector:
        from scipy.linalg import cho_solve

        if self.factor is None:
            return np.full_like(r, np.nan)
        return np.asarray(cho_solve(self.factor, r.reshape(-1, self.columns), check_finite=False)).reshape(-1)


@dataclass(frozen=True, slots=True)
class Identity:
    """M = I."""

    def local(self, problem: SecondOrder, w: Vector) -> Vector:
        """See `Preconditioner`."""
        return np.empty(0)

    def metric(self, problem: SecondOrder, mean: Vector) -> Metric:
        """See `Preconditioner`."""
        return _Scaling(np.ones(problem.dim))


@dataclass(frozen=True, slots=True)
class Diagonal:
    """M = diag(H)."""

    def local(self, problem: SecondOrder, w: Vector) -> Vector:
        """See `Preconditioner`."""
        return problem.hessian_diagonal(w)

    def metric(self, problem: SecondOrder, mean: Vector) -> Metric:
        """See `Preconditioner`."""
        return _Scaling(np.where(mean > 0, mean, 1.0))  # coordinates without curvature keep their gradient's scale


@dataclass(frozen=True, slots=True)
class Shared:
    """One block of p x p for every column: the Gram matrix of the features, rows weighted by their mean curvature.

    The blocks of softmax's Hessian differ in the rows' weights only, so that their mean serves all of them. Some rows
    of a shard are enough to form it. With one column, or with more features than ``largest``, M = diag(H).

    Parameters
    ----------
    rows : int
        Rows of a shard that are looked at, about.
    largest : int
        Most features (with the intercept) whose block is formed.
    """

    rows: int = 4096
    largest: int = 2000

    def numbers(self, problem: SecondOrder) -> int:
        """Return the length of what ``local`` returns."""
        side = problem.dim // problem.columns
        return side * (side + 1) // 2 if self.fits(problem) else problem.dim

    def local(self, problem: SecondOrder, w: Vector) -> Vector:
        """See `Preconditioner`."""
        if not self.fits(problem):
            return Diagonal().local(problem, w)
        return fold(problem.shared_curvature(w, self.rows))

    def metric(self, problem: SecondOrder, mean: Vector) -> Metric:
        """See `Preconditioner`."""
        if not self.fits(problem):
            return Diagonal().metric(problem, mean)
        block = unfold(mean, problem.dim // problem.columns)
        return _Blocks(block, factor_symmetric(block), problem.columns)

    def fits(self, problem: SecondOrder) -> bool:
        """Return whether blocks are used; the same on every node."""
        return problem.columns > 1 and problem.dim // problem.columns <= self.largest
