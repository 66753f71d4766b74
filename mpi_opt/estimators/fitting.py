"""One fit: this rank's rows, prepared and mapped, to the flat model that all ranks share."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.registry import BY_ROWS, NEWTON, NewtonSettings
from mpi_opt.estimators.together import everywhere
from mpi_opt.library import minimize
from mpi_opt.network.collectives import Collectives
from mpi_opt.problems.base import SecondOrder
from mpi_opt.problems.registry import make_problem
from mpi_opt.scaling.cost import PROFILES
from mpi_opt.scaling.finish import MEMORY_LIMIT, choose_finish
from mpi_opt.types import Features, Vector

LOOK_EVERY = 10
"""Steps of an SGD method between two looks at the global gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is minimised, ``F(w) = sum_j omega_j loss_j(w) / S + (l2 / 2) |w|^2`` with ``S = sum_j omega_j``, and how.

    Attributes
    ----------
    loss : str
        A key of ``problems.registry.LOSSES``.
    features : ndarray or csr_array, shape (rows, p)
        float64, this rank's rows.
    targets : ndarray of float64, shape (rows,)
        As the loss takes them.
    weights : ndarray of float64, shape (rows,)
        omega_j >= 0; rows of weight 0 are left out.
    total : float
        S > 0, over all ranks.
    classes : int
        Columns of a softmax model.
    l2 : float
    intercept : bool
    solver : str or Algorithm
        A key of ``algorithms.registry.NEWTON``, or a method's object.
    tolerance : float
        |grad F| at which the fit has converged.
    steps : int
        Most steps.
    start : ndarray, shape (d,), or None
        Where to start; the same on all ranks.
    seed : int
    """

    loss: str
    features: Features
    targets: Vector
    weights: Vector
    total: float
    classes: int
    l2: float
    intercept: bool
    solver: str | Algorithm
    tolerance: float
    steps: int
    start: Vector | None
    seed: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A model and how it was reached; the same bits on all ranks.

    Attributes
    ----------
    weights : ndarray, shape (d,)
    steps, rounds : int
        Steps, and communication rounds.
    gradient_norm : float
        |grad F| at ``weights``.
    reason : str
        Why it ended.
    rows : int
        N, rows with a weight above zero, over all ranks.
    """

    weights: Vector
    steps: int
    rounds: int
    gradient_norm: float
    reason: str
    rows: int


def fit(task: Task, comm: Any, collectives: Collectives) -> Fit:
    """Fit on all ranks together.

    Raises
    ------
    ValueError
        On all ranks: the solver does not fit the problem.
    DivergedError
        On all ranks: the model is no longer finite.
    """
    features, targets, weights = task.features, task.targets, task.weights
    kept = weights > 0
    if not kept.all():
        features, targets, weights = features[kept], targets[kept], weights[kept]
    rows = int(collectives.sum(np.array([targets.size]))[0])
    # Methods weight nodes by rows, so that weights enter with mean 1 over all rows: (1/N) sum (omega N / S) loss.
    weights = weights * (rows / task.total)

    def problem_of(scale: float) -> SecondOrder:
        return make_problem(
            task.loss,
            features,
            targets,
            classes=task.classes,
            l2=task.l2,
            scale=scale,
            intercept=task.intercept,
            row_weights=None if (weights == 1.0).all() else weights,
        )

    by_rows = isinstance(task.solver, (str, *BY_ROWS))
    scale = 1.0 / max(targets.size, 1) if by_rows else collectives.size / rows
    problem = everywhere(collectives, lambda: problem_of(scale))
    entries = float(collectives.sum(np.array([problem.nonzeros]))[0])
    algorithm = everywhere(collectives, lambda: _algorithm(task, problem, rows, entries, collectives.size))
    result = minimize(
        problem,
        algorithm,
        comm=comm,
        steps=task.steps,
        x0=task.start,
        seed=task.seed,
        every=task.steps if by_rows else LOOK_EVERY,
        gradient_norm=task.tolerance,
    )
    # Nodes of the row-weighted methods hold one model; its mean would only add rounding.
    model = result.x if by_rows else result.average
    return Fit(model, result.steps, result.rounds, result.gradient_norm, result.reason, rows)


def _algorithm(task: Task, problem: SecondOrder, rows: int, entries: float, nodes: int) -> Algorithm:
    """Return the method; of global figures only, and so the same on every rank."""
    if not isinstance(task.solver, str):
        return task.solver
    finish = "none"
    if task.solver == "local-newton":
        # A measured network would let the choice, and with it the last digits, differ from run to run.
        choice = choose_finish(
            dim=problem.dim,
            nonzeros_per_shard=entries / nodes,
            rows_per_shard=rows / nodes,
            nodes=nodes,
            profile=PROFILES["10gbe"],
            columns=problem.columns,
        )
        finish = choice.name
    held = 3 * 8 * problem.dim**2
    if task.solver == "newton" and held > MEMORY_LIMIT:
        raise ValueError(
            f"solver = 'newton': three matrices of d = {problem.dim} take {held / 2**30:.1f} GiB a rank; allowed: at "
            f"most {MEMORY_LIMIT / 2**30:.0f} GiB; take 'newton-cg' or 'giant'"
        )
    settings = NewtonSettings(
        tolerance=Tolerance(task.tolerance),
        solver="auto",
        damping=None,
        by_support=True,
        local_steps=3,
        adaptive=True,
        finish=finish,
        hessian_every=1,
        memory=10,
    )
    return NEWTON[task.solver](settings)
