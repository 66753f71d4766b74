"""What is done to features before training and, kept in the model, before predicting.

Columns first, each by figures of the whole training set: ``x -> (x - shift) * factor``. Then rows, each by itself:
``x -> x / |x|``. Without a shift sparse features stay sparse. ``prepare.py`` finds the figures.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mpi_opt.types import Features, Vector

ColumnRule: TypeAlias = Literal["none", "standard", "min-max", "max-abs"]
RowRule: TypeAlias = Literal["none", "l1", "l2", "max"]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Columns and rows made comparable; the same for training, test and prediction.

    Attributes
    ----------
    columns : {"none", "standard", "min-max", "max-abs"}
        The job's word for how ``shift`` and ``factor`` came about.
    shift : ndarray of float64, shape (features,), or None
        What is subtracted from each column; ``None`` where nothing is (always so where features stay sparse).
    factor : ndarray of float64, shape (features,), or None
        What each column is multiplied by afterwards.
    rows : {"none", "l1", "l2", "max"}
        The norm that each row is divided by at the end; a row of zeros stays.
    """

    columns: ColumnRule = "none"
    shift: Vector | None = None
    factor: Vector | None = None
    rows: RowRule = "none"

    @property
    def affine(self) -> bool:
        """Whether a linear model on prepared features is one on raw features too: no rule for rows."""
        return self.rows == "none"

    def apply(self, features: Features) -> Features:
        """Return prepared features; new ones, except where nothing is to be done.

        Parameters
        ----------
        features : ndarray or csr_array, shape (rows, features)

        Returns
        -------
        ndarray or csr_array
            Dense where there is a shift, else of the kind that came.
        """
        if self.shift is None and self.factor is None and self.rows == "none":
            return features
        if isinstance(features, np.ndarray):
            return self._dense(features)
        return self._sparse(features) if self.shift is None else self._dense(features.toarray())

    def _sparse(self, features: Features) -> Features:
        """Return CSR features that share their places with those given."""
        from scipy.sparse import csr_array

        indices, indptr = features.indices, features.indptr
        values = features.data.copy() if self.factor is None else features.data * self.factor[indices]
        if self.rows != "none":
            lengths = np.diff(indptr)
            held = np.flatnonzero(lengths)
            size = np.abs(values) if self.rows != "l2" else values**2
            norms = np.zeros(lengths.size)
            if held.size:
                fold = np.maximum if self.rows == "max" else np.add
                norms[held] = fold.reduceat(size, indptr[:-1][held])
            values *= np.repeat(_inverse(np.sqrt(norms) if self.rows == "l2" else norms), lengths)
        return csr_array((values, indices, indptr), shape=features.shape, copy=False)

    def _dense(self, features: Vector) -> Vector:
        result: Vector = features.copy() if self.shift is None else features - self.shift
        if self.factor is not None:
            result *= self.factor
        if self.rows != "none":
            order = {"l1": 1, "l2": 2, "max": np.inf}[self.rows]
            norms = np.linalg.norm(result, order, axis=1) if result.size else np.zeros(result.shape[0])
            result *= _inverse(norms)[:, np.newaxis]
        return result


def _inverse(norms: Vector) -> Vector:
    """Return 1 / norms, and 1 where a norm is 0."""
    return 1.0 / np.where(norms == 0.0, 1.0, norms)
