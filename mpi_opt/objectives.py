"""From shards to the functions that nodes minimise and evaluate."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.datasets.load import Loaded
from mpi_opt.datasets.shard import Shard
from mpi_opt.datasets.weights import row_weights
from mpi_opt.job import Job
from mpi_opt.modules import JobModule
from mpi_opt.problems.base import SecondOrder
from mpi_opt.problems.registry import make_problem
from mpi_opt.types import Vector


class Objectives(NamedTuple):
    """The local nodes' problems.

    Attributes
    ----------
    whole : sequence of SecondOrder
        Scaled by n/N, so that their mean over nodes is F.
    seen : sequence of SecondOrder
        What the method works on: methods of whole passes take the mean over their shard and weight by rows themselves.
    tests : sequence of SecondOrder, or None
        Of the test rows, which are not weighted, so that their figures can be compared between weightings.
    """

    whole: Sequence[SecondOrder]
    seen: Sequence[SecondOrder]
    tests: Sequence[SecondOrder] | None


def make_objectives(
    job: Job,
    loaded: Loaded,
    classes: Mapping[float, float] | None,
    l2: float,
    nodes: int,
    module: JobModule | None = None,
) -> Objectives:
    """Make the problems of all local shards; features are shared, not copied.

    Parameters
    ----------
    job : Job
    loaded : Loaded
        Prepared.
    classes : mapping of float to float, or None
        Label in the file -> weight of its rows.
    l2 : float
    nodes : int
        n.
    module : JobModule, optional
        The one that the job names.

    Raises
    ------
    JobError
        The module does not fit rows or loss.
    DataError
        Labels that do not fit the loss.
    """
    info = loaded.info

    def problem_of(shard: Shard, scale: float, weights: Vector | None) -> SecondOrder:
        if module is not None:
            return _of_module(job, module, shard, l2, scale, weights)
        return make_problem(
            job.problem.loss,
            shard.features,
            shard.labels,
            classes=info.classes,
            l2=l2,
            scale=scale,
            intercept=job.data.intercept,
            row_weights=weights,
        )

    weighted = [(shard, row_weights(shard, info, classes)) for shard in loaded.train]
    whole = [problem_of(shard, nodes / max(info.rows, 1), omega) for shard, omega in weighted]
    tests = None
    if loaded.test is not None and loaded.test_info is not None:
        tests = [problem_of(shard, nodes / max(loaded.test_info.rows, 1), None) for shard in loaded.test]
    if job.algorithm.name not in NEWTON:
        return Objectives(whole, whole, tests)
    seen = [problem_of(shard, 1.0 / max(shard.rows.size, 1), omega) for shard, omega in weighted]
    return Objectives(whole, seen, tests)


def _of_module(
    job: Job, module: JobModule, shard: Shard, l2: float, scale: float, weights: Vector | None
) -> SecondOrder:
    """Return the problem of a module; methods that need curvature were refused when the job was read."""
    from mpi_opt.problems.torch.problem import TorchProblem

    problem = TorchProblem(
        module.flat,
        job.problem.loss,
        shard.features,
        shard.labels,
        shape=module.shape,
        l2=l2,
        scale=scale,
        row_weights=weights,
    )
    return cast("SecondOrder", problem)
