"""Allreduce SGD: every node's gradient is averaged at every step, so all nodes hold the same iterate.

| symbol | here            | shape | meaning                                                     |
|--------|-----------------|-------|-------------------------------------------------------------|
| x      | ``x``           | (d,)  | iterate, the same on all nodes                              |
| g_i    |                 | (d,)  | sampled gradient of f_i; the mean over nodes estimates that of F |
| v      | ``momentum``    | (d,)  | Nesterov momentum of the averaged gradient                  |

Deviations: none. The reference point of every communication count: one dense vector a step each way.
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
class AllreduceSGD:
    """Synchronous SGD by averaging gradients.

    Parameters
    ----------
    step_size : callable
        eta_t by step number.
    batch : int or None
        Rows a node and step; ``None`` takes the whole shard.
    beta : float
        Nesterov momentum in [0, 1).
    """

    step_size: Callable[[int], float]
    batch: int | None = None
    beta: float = 0.0

    needs: ClassVar[tuple[str, ...]] = ("sampled_gradient",)

    def __post_init__(self) -> None:
        check_counts(batch=self.batch)
        check_range("beta", self.beta, "at least 0 and below 1", 0 <= self.beta < 1)

    def init(self, problem: Problem, x0: Vector) -> State:
        """Return the state before step 0."""
        return State(0, x0.copy(), np.zeros(problem.dim) if self.beta else None)

    def step(self, state: State, problem: Problem, node: Node) -> Steps:
        """Average the nodes' gradients and descend along the mean."""
        t, x = state.t, state.x
        mean = yield Average(local_gradient(x, t, problem, node), 1.0)
        g = node.scratch[0]
        g[:] = mean
        norm2 = float(g @ g)
        descend(x, g, self.step_size(t), state.momentum, self.beta, node.scratch[1])
        return replace(state, t=t + 1), Info(synced=True, fired=True, diverged=not np.isfinite(norm2))

    def settle(self, state: State, problem: Problem, node: Node) -> Steps:
        """Nothing is ever in flight."""
        yield from ()
        return state, Info()

    def model(self, state: State) -> Vector:
        """Return x."""
        return state.x
