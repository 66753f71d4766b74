"""Regressors and classifiers: what their labels are to a loss, and what margins say."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.estimators.arguments import number
from mpi_opt.estimators.linear import LinearEstimator, Mapped
from mpi_opt.estimators.together import class_weights, classes_of, everywhere, refuse
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector


class LinearRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """A linear model of real targets; its parameters are explained at the public classes."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        solver: str | Algorithm = "local-newton",
        tol: float = 1e-6,
        max_iter: int = 100,
        warm_start: bool = False,
        comm: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.comm = comm
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: Any) -> Vector:
        """Return the predictions for this rank's rows, shape ``(rows,)``; no communication."""
        return self._scores(X)[:, 0]

    def _penalty(self) -> float:
        return float(self.alpha)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        number("alpha", self.alpha, lambda value: 0 <= value < math.inf, "finite and >= 0")

    def _mapped(self, collectives: Collectives, y: npt.NDArray[Any], weights: Vector) -> Mapped:
        total = float(collectives.sum(np.array([weights.sum()]))[0])
        if not total > 0:
            held = int(collectives.sum(np.array([y.size]))[0])
            refuse(collectives, "the sample weights are all zero" if held else "no rank has rows")
        return Mapped(self._losses[0], [np.asarray(y, dtype=np.float64)], weights, total)

    def _shaped(self, coef: Vector, intercept: Vector) -> tuple[Any, Any]:
        return coef[0], float(intercept[0])


class LinearClassifier(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """A linear model of classes: one column for two of them, else one a class; parameters as at the public classes."""

    def __init__(
        self,
        *,
        C: float = 1.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        solver: str | Algorithm = "local-newton",
        tol: float = 1e-6,
        max_iter: int = 100,
        warm_start: bool = False,
        comm: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.comm = comm
        self.random_state = random_state
        self.verbose = verbose

    def decision_function(self, X: Any) -> Vector:
        """Return the margins of this rank's rows: ``(rows,)`` for two classes, else ``(rows, K)``; no communication."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most likely class of each of this rank's rows, shape ``(rows,)``; no communication."""
        scores = self._scores(X)
        codes: Indices = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    def _penalty(self) -> float:
        return 1.0 / float(self.C)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        number("C", self.C, lambda value: value > 0, "above 0")
        if not (self.class_weight is None or self.class_weight == "balanced" or isinstance(self.class_weight, Mapping)):
            raise ValueError(f"class_weight = {self.class_weight!r}; allowed: None, 'balanced', a mapping of classes")

    def _mapped(self, collectives: Collectives, y: npt.NDArray[Any], weights: Vector) -> Mapped:
        everywhere(collectives, lambda: check_classification_targets(y) if y.size else None)
        classes = classes_of(collectives, y)
        codes = np.searchsorted(classes, y) if y.size else np.zeros(0, dtype=np.int64)
        factors, totals = class_weights(collectives, self.class_weight, classes, codes, weights)
        loss = self._loss(classes.size)
        if loss == "softmax":
            targets = [codes.astype(np.float64)]
        else:  # two classes by one column, which says the second; more by one a class
            said = [1] if classes.size == 2 else range(classes.size)
            targets = [np.where(codes == code, 1.0, -1.0) for code in said]
        return Mapped(loss, targets, weights * factors[codes], float(factors @ totals), classes, factors)

    def _take_classes(self, mapped: Mapped) -> None:
        assert mapped.classes is not None
        assert mapped.class_weights is not None
        self.classes_, self.class_weight_ = mapped.classes, mapped.class_weights

    def _shaped(self, coef: Vector, intercept: Vector) -> tuple[Any, Any]:
        return coef, intercept


class Probabilities(LinearClassifier):
    """Probabilities out of margins: logistic for two classes, softmax for more."""

    def predict_log_proba(self, X: Any) -> Vector:
        """Return the logarithms of the classes' probabilities, shape ``(rows, K)``; no communication."""
        from scipy.special import log_expit, log_softmax

        scores: Vector = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(log_softmax(scores, axis=1))
        return np.asarray(log_expit(np.hstack([-scores, scores])))

    def predict_proba(self, X: Any) -> Vector:
        """Return the classes' probabilities, in the order of ``classes_``, shape ``(rows, K)``; no communication."""
        from scipy.special import expit, softmax

        scores: Vector = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.asarray(expit(np.hstack([-scores, scores])))
