"""The one figure that stops a fit: the norm of the global gradient at the averaged model."""

from collections.abc import Sequence

import numpy as np

from mpi_opt.network.base import Network
from mpi_opt.problems.base import Problem
from mpi_opt.types import Vector


class GradientNorm:
    """Evaluates |grad F| at the averaged model and nothing else; an evaluator of `run.plan`.

    Parameters
    ----------
    network : Network
        Carries the two means: of the models, then of the gradients.
    problems : sequence of Problem
        The local nodes' functions, as the algorithm sees them.
    shares : sequence of float
        What each is multiplied by, so that ``F = (1/n) sum shares_i f_i``: 1 for SGD methods, ``n N_i / N`` for those
        that weight nodes by their rows.
    """

    def __init__(self, network: Network, problems: Sequence[Problem], shares: Sequence[float]) -> None:
        self._network, self._problems, self._shares = network, problems, shares

    def evaluate(self, models: Sequence[Vector], step: int) -> list[dict[str, float]]:  # noqa: ARG002
        """Return one row for each local node: ``gradient_norm``, the same everywhere; the objective is not computed."""
        average = self._network.mean(models).copy()  # the network's next mean may overwrite it
        with np.errstate(over="ignore", invalid="ignore"):
            gradients = [
                share * problem.gradient(average) for share, problem in zip(self._shares, self._problems, strict=True)
            ]
            norm = float(np.linalg.norm(self._network.mean(gradients)))
        return [{"objective_average": np.nan, "gradient_norm": norm} for _ in models]
