"""Losses by the names a job uses, and the problem that belongs to each."""

from collections.abc import Mapping
from types import MappingProxyType

from mpi_opt.errors import JobError
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Huber, Logistic, MarginLoss, Softmax, Squared, SquaredHinge
from mpi_opt.problems.softmax import SoftmaxProblem
from mpi_opt.types import Features, LabelKind, Vector
from mpi_opt.words import nearest

LOSSES: Mapping[str, MarginLoss | Softmax] = MappingProxyType(
    {
        "logistic": Logistic(),
        "squared": Squared(),
        "squared-hinge": SquaredHinge(),
        "huber": Huber(),
        "softmax": Softmax(),
    }
)
"""Every loss a job may name under ``problem.loss``."""


def find_loss(loss_name: str) -> MarginLoss | Softmax:
    """Return the loss of this name.

    Raises
    ------
    JobError
        There is none; names the nearest one and all of them.
    """
    loss = LOSSES.get(loss_name)
    if loss is None:
        raise JobError(
            f"problem.loss = {loss_name!r} is unknown{nearest(loss_name, LOSSES)}; allowed: {', '.join(LOSSES)}"
        )
    return loss


def label_kind(loss_name: str) -> LabelKind:
    """Return what labels the loss takes: "binary" (-1/+1), "classes" (0..C-1) or "real".

    Raises
    ------
    JobError
        No loss of this name.
    """
    return find_loss(loss_name).kind


def make_problem(
    loss_name: str,
    features: Features,
    labels: Vector,
    *,
    classes: int,
    l2: float,
    scale: float,
    intercept: bool,
    row_weights: Vector | None = None,
) -> LinearProblem | SoftmaxProblem:
    """Return the problem of one shard.

    Parameters
    ----------
    loss_name : str
        A key of `LOSSES`.
    features : ndarray or scipy.sparse CSR, shape (rows, p)
        float64.
    labels : ndarray, shape (rows,)
        As the loss takes them (see `label_kind`).
    classes : int
        Distinct labels of the whole data set; only softmax reads it.
    l2, scale, intercept
        See `problems.base`.
    row_weights : ndarray of float64, shape (rows,), optional
        What each row's loss is multiplied by: finite, >= 0; 1 for all without it.

    Raises
    ------
    JobError
        No loss of this name.
    DataError
        The labels do not fit the loss.
    """
    loss = find_loss(loss_name)
    if isinstance(loss, Softmax):
        return SoftmaxProblem(
            features, labels, classes, l2=l2, scale=scale, intercept=intercept, row_weights=row_weights
        )
    return LinearProblem(features, labels, loss, l2=l2, scale=scale, intercept=intercept, row_weights=row_weights)
