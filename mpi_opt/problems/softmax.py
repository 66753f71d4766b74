"""Softmax (multinomial logistic) regression: one column a class, all C of them."""

import numpy as np

from mpi_opt.problems.labels import check_mapped_labels
from mpi_opt.problems.losses import Softmax
from mpi_opt.problems.modelled import quiet
from mpi_opt.problems.rowwise import RowwiseProblem
from mpi_opt.types import Features, Vector


class SoftmaxProblem(RowwiseProblem):
    """Softmax loss over the rows of one shard.

    The point is the C-ordered array of shape ``(p[+1], C)``, flattened; the intercepts are its last row. Adding a
    number to one row of it changes no margin difference, so the Hessian without penalty is singular along that
    direction.

    Parameters
    ----------
    features : ndarray or scipy.sparse CSR, shape (rows, p)
        float64.
    labels : ndarray, shape (rows,)
        Whole numbers in 0..classes-1.
    classes : int
        C >= 2, of the whole data set: a shard may lack some.
    l2, scale : float
        See `problems.base`.
    intercept : bool
        Whether the last row holds unpenalised intercepts.
    row_weights : ndarray of float64, shape (rows,), optional
        What each row's loss is multiplied by.

    Raises
    ------
    DataError
        A label is not in 0..classes-1.
    ValueError
        Shapes that do not fit, or ``classes``, ``l2`` or ``scale`` out of range.
    """

    def __init__(
        self,
        features: Features,
        labels: Vector,
        classes: int,
        *,
        l2: float,
        scale: float,
        intercept: bool = False,
        row_weights: Vector | None = None,
    ) -> None:
        if classes < 2:
            raise ValueError(f"classes is {classes}; softmax needs 2 or more")
        labels = np.asarray(labels)
        check_mapped_labels("classes", labels, "softmax", classes=classes)
        self._softmax = Softmax()
        self._classes = classes
        super().__init__(
            features,
            labels.astype(np.intp),
            self._softmax,
            (classes,),
            l2=l2,
            scale=scale,
            intercept=intercept,
            row_weights=row_weights,
        )

    @property
    def classes(self) -> int:
        """C."""
        return self._classes

    @quiet
    def margins(self, x: Vector) -> Vector:
        """Return z of every row and class, shape ``(rows, C)``."""
        return self._outputs(self._matrix, x).T

    def center(self, p: Vector) -> None:
        """Take the mean over classes off the intercepts of ``p``, without penalty off all rows, in place."""
        rows = p.reshape(-1, self._classes)
        free = rows[self._matrix.features :] if self._l2 else rows
        free -= free.mean(axis=1, keepdims=True)

    @quiet
    def hessian(self, x: Vector) -> Vector:
        """Return the Hessian of f at x, dense, shape ``(dim, dim)``, symmetric to the last bit; for small dim.

        Made of C (C + 1) / 2 weighted Gram matrices, one a pair of classes.
        """
        probabilities = self._softmax.probabilities(self.margins(x).T)
        height, c = self._matrix.features + self._intercept, self._classes
        result = np.zeros((height, c, height, c))
        for a in range(c):
            for b in range(a + 1):
                other = 1.0 - probabilities[a] if a == b else probabilities[b]
                weights = self._scale * probabilities[a] * other
                if self._row_weights is not None:
                    weights *= self._row_weights
                block = self._gram(self._matrix, weights)
                result[:, a, :, b] = result[:, b, :, a] = block if a == b else -block
        flat: Vector = result.reshape(self.dim, self.dim)
        flat[np.arange(self._weights), np.arange(self._weights)] += self._l2
        return flat
