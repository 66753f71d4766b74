"""Local SGD: H local steps, then the models are averaged (Stich 2018, arXiv 1805.09767, Algorithm 1).

| symbol | here           | shape | meaning                                                 |
|--------|----------------|-------|---------------------------------------------------------|
| x_i    | ``x``          | (d,)  | iterate of node i; the same on all nodes after a sync   |
| H      | ``sync_every`` |       | averaging when ``(t + 1) % H == 0``                     |
| v      | ``momentum``   | (d,)  | Nesterov momentum, kept local                           |

Deviations: none. H = 1 on full batches is gradient descent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_counts, check_range
from mpi_opt.algorithms.parts.descent import descend, local_gradient
from mpi_opt.problems.base import Problem
from mpi_opt.requests import Average, Steps
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what step t needs."""

    t: int
    x: Vector
    momentum: Vector | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalSGD:
    """SGD with model averaging every ``sync_every`` steps.

    Parameters
    ----------
    step_size : callable
        eta_t by step number.
    sync_every : int
        H >= 1.
    batch : int or None
        Rows a node and step; ``None`` takes the whole shard.
    beta : float
        Nesterov momentum in [0, 1).
    """

    step_size: Callable[[int], float]
    sync_every: int = 1
    batch: int | None = None
    beta: float = 0.0

    needs: ClassVar[tuple[str, ...]] = ("sampled_gradient",)

    def __post_init__(self) -> None:
        check_counts(sync_every=self.sync_every, batch=self.batch)
        check_range("beta", self.beta, "at least 0 and below 1", 0 <= self.beta < 1)

    def init(self, problem: Problem, x0: Vector) -> State:
        """Return the state before step 0."""
        return State(0, x0.copy(), np.zeros(problem.dim) if self.beta else None)

    def step(self, state: State, problem: Problem, node: Node) -> Steps:
        """Take one local step; average the models when t + 1 is a multiple of H."""
        t, x = state.t, state.x
        g = local_gradient(x, t, problem, node)
        descend(x, g, self.step_size(t), state.momentum, self.beta, node.scratch[1])
        state = replace(state, t=t + 1)
        if (t + 1) % self.sync_every:
            return state, Info()
        x[:] = yield Average(x, 1.0)
        return state, Info(synced=True, fired=True, diverged=not np.isfinite(float(x @ x)))

    def settle(self, state: State, problem: Problem, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return x."""
        return state.x
