"""Linear models with one column: logistic and ridge regression, squared hinge, Huber."""

import numpy as np

from mpi_opt.problems.labels import check_mapped_labels
from mpi_opt.problems.losses import MarginLoss
from mpi_opt.problems.modelled import quiet
from mpi_opt.problems.rowwise import RowwiseProblem
from mpi_opt.types import Features, Vector


class LinearProblem(RowwiseProblem):
    """A loss of ``z = w.x + b`` over the rows of one shard; the point is ``(w_1, ..., w_p[, b])``.

    Parameters
    ----------
    features : ndarray or scipy.sparse CSR, shape (rows, p)
        float64.
    labels : ndarray, shape (rows,)
        -1/+1 or real, as the loss takes them.
    loss : MarginLoss
        One of `problems.losses`.
    l2, scale : float
        See `problems.base`.
    intercept : bool
        Whether the last coordinate is an unpenalised intercept.
    row_weights : ndarray of float64, shape (rows,), optional
        What each row's loss is multiplied by.

    Raises
    ------
    DataError
        The labels do not fit the loss.
    ValueError
        Shapes that do not fit, or ``l2`` or ``scale`` negative or not finite.
    """

    def __init__(
        self,
        features: Features,
        labels: Vector,
        loss: MarginLoss,
        *,
        l2: float,
        scale: float,
        intercept: bool = False,
        row_weights: Vector | None = None,
    ) -> None:
        labels = np.ascontiguousarray(labels, dtype=np.float64)
        check_mapped_labels(loss.kind, labels, type(loss).__name__)
        super().__init__(features, labels, loss, (), l2=l2, scale=scale, intercept=intercept, row_weights=row_weights)
        self._margin_loss = loss

    @quiet
    def margins(self, x: Vector) -> Vector:
        """Return z of every row, shape ``(rows,)``."""
        return self._outputs(self._matrix, x)

    @quiet
    def hessian(self, x: Vector) -> Vector:
        """Return the Hessian of f at x, dense, shape ``(dim, dim)``, symmetric to the last bit; for small dim.

        Squared hinge and Huber have a generalised Hessian (see their ``curvature``).
        """
        curvature = self._margin_loss.curvature(self.margins(x), self._labels)
        self._scaled(curvature, self._scale, slice(None))
        result = self._gram(self._matrix, curvature)
        result[np.arange(self._weights), np.arange(self._weights)] += self._l2
        return result
