"""Evaluation of every node's own model on everybody's data, and of the averaged model. The clock is stopped meanwhile.

The average alone flatters: it can be near the optimum while no node is. So each node's model travels once round a ring,
and every node on its way adds the sums of its own shard. No process ever holds more models than it has nodes.
Numbers are folded in the same order over MPI and in lockstep, so both give the same bits.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError
from mpi_opt.network.base import Network
from mpi_opt.problems.base import Problem
from mpi_opt.types import Vector

_SUMS = 6  # train loss, train wrong, train rows, test loss, test wrong, test rows


class Evaluator:
    """Evaluates the models of all nodes; every process calls it at the same steps.

    Parameters
    ----------
    network : Network
        Carries the models round.
    problems : sequence of Problem
        The training problem of each local node, with ``scale = n / N`` (so that ``F = (1/n) sum f_i``), whatever
        scale the algorithm itself works with.
    test_problems : sequence of Problem, or None
        The test shard of each local node, possibly without rows; ``None`` on all nodes where there is no test set.
    classification : bool
        Whether errors are counted; if not, they are NaN.
    nodes : "all" or int, optional
        How many nodes' models are evaluated: a fresh sample at every evaluation; more than n means all.
    seed : int
        Seed of the run, for the sample.

    Raises
    ------
    JobError
        ``nodes`` is neither ``"all"`` nor at least 1.
    """

    def __init__(
        self,
        network: Network,
        problems: Sequence[Problem],
        test_problems: Sequence[Problem] | None,
        *,
        classification: bool,
        seed: int,
        nodes: int | Literal["all"] = "all",
    ):
        local = len(network.local)
        if len(problems) != local or (test_problems is not None and len(test_problems) != local):
            raise ValueError(f"{local} local nodes need as many problems and test problems")
        if nodes != "all" and (isinstance(nodes, str) or nodes < 1):
            raise JobError(f'metrics.nodes = {nodes!r}: allowed are "all" and numbers from 1')
        self._network = network
        self._problems = problems
        self._tests = test_problems
        self._classification = classification
        self._seed = seed
        self._sampled = network.nodes if nodes == "all" else min(nodes, network.nodes)
        self._checked = False
        # A model and the sums it collects, in one array, so that one hop is one message.
        self._travel: list[Vector] = [np.zeros(problem.dim + _SUMS) for problem in problems]

    def sample(self, step: int) -> tuple[int, ...]:
        """Return the nodes whose models are evaluated at ``step``, ascending; the same on every process."""
        n = self._network.nodes
        if self._sampled == n:
            return tuple(range(n))
        chosen = Key(self._seed, 0, Purpose.EVALUATION, step).generator().choice(n, self._sampled, replace=False)
        return tuple(sorted(int(node) for node in chosen))

    def evaluate(self, models: Sequence[Vector], step: int) -> list[dict[str, float]]:
        """Return one row for each local node, under the names of ``schema.SERIES``.

        Parameters
        ----------
        models : sequence of ndarray, shape (d,)
            The local nodes' models, in the order of ``network.local``; not modified. They may be non-finite: so are
            the figures then.
        step : int
            Steps completed; names the sample.

        Raises
        ------
        ValueError
            At the first evaluation: the problems are not scaled by ``n / N``.
        """
        # A diverged model overflows here, and is reported by its figures.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            sample = self.sample(step)
            own = self._ring(models, frozenset(sample))
            average = self._network.mean(models).copy()
            at_average = [self._sums(index, average) for index in range(len(models))]
            drifts = [float(np.dot(gap, gap)) for gap in (model - average for model in models)]
            values = [0.0 if self._checked else problem.value(average) for problem in self._problems]
            penalties = [problem.penalty(model) for problem, model in zip(self._problems, models, strict=True)]
            # A few numbers a node go to everybody, who then folds them in node order.
            packed = np.column_stack([own, at_average, drifts, values, penalties])
            table = np.concatenate(self._network.collectives.gather(packed))
            return self._rows(table, average, sample)

    def _ring(self, models: Sequence[Vector], sample: frozenset[int]) -> npt.NDArray[np.float64]:
        """Send every local model once round; return the sums they came home with, shape (local, 6)."""
        network, n = self._network, self._network.nodes
        arrays = self._travel
        for array, model in zip(arrays, models, strict=True):
            array[:-_SUMS] = model
            array[-_SUMS:] = 0.0
        for hop in range(n):
            for index, node in enumerate(network.local):
                if (node - hop) % n in sample:
                    array = arrays[index]
                    array[-_SUMS:] += self._sums(index, array[:-_SUMS])
            if n > 1:
                arrays = network.rotate(arrays)
        self._travel = arrays
        return np.stack([array[-_SUMS:] for array in arrays])

    def _sums(self, index: int, model: Vector) -> tuple[float, ...]:
        """Return the six sums of one local node's shards at ``model``."""
        train = self._problems[index].figures(model)
        if self._tests is None:
            return (train.loss, train.wrong, train.rows, 0.0, 0.0, 0.0)
        test = self._tests[index].figures(model)
        return (train.loss, train.wrong, train.rows, test.loss, test.wrong, test.rows)

    def _rows(self, table: npt.NDArray[np.float64], average: Vector, sample: tuple[int, ...]) -> list[dict[str, float]]:
        """Make the rows out of everybody's numbers, shape (n, 15)."""
        problem = self._problems[0]
        chosen = np.array(sample)
        own = self._figures(table[:, :_SUMS], table[:, -1])
        own = {name: _only(values, chosen) for name, values in own.items()}
        totals = table[:, _SUMS : 2 * _SUMS].sum(axis=0, keepdims=True)
        mean = self._figures(totals, np.array([problem.penalty(average)]))
        self._check(float(mean["objective_local"][0]), float(table[:, -2].mean()))
        shared = {
            "objective_mean": own["objective_local"][chosen].mean(),
            "objective_worst": own["objective_local"][chosen].max(),
            "test_error_mean": own["test_error"][chosen].mean(),
            "test_error_worst": own["test_error"][chosen].max(),
            "objective_average": mean["objective_local"][0],
            "train_error_average": mean["train_error"][0],
            "test_error_average": mean["test_error"][0],
            "consensus_distance": table[:, 2 * _SUMS].mean(),
            "gradient_norm": self._gradient_norm(average),
        }
        return [
            {name: float(values[node]) for name, values in own.items()}
            | {name: float(value) for name, value in shared.items()}
            for node in self._network.local
        ]

    def _figures(self, sums: npt.NDArray[np.float64], penalties: Vector) -> dict[str, Vector]:
        """Turn sums over all rows, shape (m, 6), into figures."""
        loss, wrong, rows, test_loss, test_wrong, test_rows = sums.T
        unknown = np.full(len(sums), np.nan)
        return {
            "objective_local": loss / np.maximum(rows, 1.0) + penalties,
            "train_error": wrong / rows if self._classification else unknown,
            "test_loss": test_loss / test_rows,
            "test_error": test_wrong / test_rows if self._classification else unknown,
        }

    def _gradient_norm(self, average: Vector) -> float:
        """Return |grad F| at the averaged model; the travelling arrays serve as work space."""
        gradients = [
            problem.gradient(average, array[:-_SUMS])
            for problem, array in zip(self._problems, self._travel, strict=True)
        ]
        return float(np.linalg.norm(self._network.mean(gradients)))

    def _check(self, objective: float, mean_value: float) -> None:
        """Refuse problems whose values do not average to F: their mean gradient would be no gradient of F."""
        if not self._checked and np.isfinite([objective, mean_value]).all():
            if abs(objective - mean_value) > 1e-8 * max(abs(objective), 1.0):
                raise ValueError(
                    f"evaluation needs problems of scale n / N: their values average to {mean_value!r}, "
                    f"but the objective is {objective!r}; so it is too where a function has another value each "
                    "time it is asked, as that of a module that remembers its calls"
                )
            self._checked = True


def _only(values: Vector, chosen: npt.NDArray[Any]) -> Vector:
    """Return ``values`` with NaN where a node is not chosen."""
    kept = np.full_like(values, np.nan)
    kept[chosen] = values[chosen]
    return kept
