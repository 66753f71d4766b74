"""Fitting, predicting and keeping: what all estimators of `mpi_opt.sklearn` share."""

import numbers
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.estimators.arguments import canonical, check_l2, check_solver, check_stopping, row_weights
from mpi_opt.estimators.fitting import Fit, Task, fit
from mpi_opt.estimators.keeping import Kept
from mpi_opt.estimators.storage import flatten, unflatten
from mpi_opt.estimators.together import check_alike, everywhere, feature_names, processes
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Features, Vector

_OF_ONE_RANK = frozenset({"comm", "verbose", "random_state"})
"""Parameters that need not be alike on all ranks: the first rank's seed is everybody's."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Labels as a loss takes them, and what belongs to them.

    Attributes
    ----------
    loss : str
    targets : sequence of ndarray, shape (rows,)
        One, or for one-vs-rest one a class.
    weights : ndarray, shape (rows,)
        Row weights times class weights.
    total : float
        Their sum over all ranks.
    classes, class_weights : ndarray, shape (K,), or None
    """

    loss: str
    targets: Sequence[Vector]
    weights: Vector
    total: float
    classes: npt.NDArray[Any] | None = None
    class_weights: Vector | None = None


class LinearEstimator(Kept, BaseEstimator):  # type: ignore[misc]
    """Fits a flat model on all ranks of ``comm``; see the public classes for parameters and attributes."""

    n_features_in_: int
    solver: str | Algorithm
    tol: float
    max_iter: int
    warm_start: bool
    random_state: Any
    verbose: int

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model; every rank of ``comm`` calls this with its own rows.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (rows, features)
            This rank's rows, with ``comm`` possibly none; every rank has all features.
        y : array-like, shape (rows,)
            Labels or targets.
        sample_weight : array-like, shape (rows,), optional
            Weights >= 0 of the rows; 1 without them.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            An argument of some rank does not fit; on all ranks.
        DivergedError
            The model is no longer finite; on all ranks.
        """
        with processes(self.comm) as collectives:
            features, targets, weights = everywhere(collectives, lambda: self._local(X, y, sample_weight))
            self._agree(collectives, features.shape[0])
            mapped = self._mapped(collectives, targets, weights)
            seed = collectives.broadcast(everywhere(collectives, self._seed))
            l2 = self._penalty() / mapped.total if self.l2 is None else float(self.l2)
            task = Task(
                loss=mapped.loss,
                features=features,
                targets=mapped.targets[0],
                weights=mapped.weights,
                total=mapped.total,
                classes=0 if mapped.classes is None else mapped.classes.size,
                l2=l2,
                intercept=bool(self.fit_intercept),
                solver=self.solver,
                tolerance=float(self.tol),
                steps=int(self.max_iter),
                start=None,
                seed=seed,
            )
            starts = self._starts(mapped)
            reached = [
                fit(replace(task, targets=targets, start=start), self.comm, collectives)
                for targets, start in zip(mapped.targets, starts, strict=True)
            ]
            nodes, first = collectives.size, collectives.rank == 0
        self._take(mapped, reached, l2, nodes)
        if self.verbose and first:
            sys.stdout.write(f"{type(self).__name__}: {self._told()}\n")
        if not self.gradient_norm_ <= self.tol:
            warnings.warn(
                f"{self._told()}; more than tol = {self.tol:g}: raise max_iter, scale the features, or choose another "
                "solver",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy on the same communicator, which cannot be copied as other parameters are."""
        bare = object.__new__(type(self))
        bare.__dict__.update(self.__dict__, comm=None)
        twin: Self = BaseEstimator.__sklearn_clone__(bare)
        twin.comm = self.comm
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the communicator, which lives in its process."""
        state: dict[str, Any] = dict(super().__getstate__())
        return state | {"comm": None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _penalty(self) -> float:
        """Return ``l2 S``, where ``l2`` is not given."""
        raise NotImplementedError

    def _mapped(self, collectives: Collectives, y: npt.NDArray[Any], weights: Vector) -> Mapped:
        raise NotImplementedError

    def _take_classes(self, mapped: Mapped) -> None:
        """Keep what belongs to labels."""

    # --- before the fit ---

    def _local(self, X: Any, y: Any, sample_weight: Any) -> tuple[Features, npt.NDArray[Any], Vector]:
        """Check this rank's parameters and data; return features, labels and weights of its rows."""
        self._check_parameters()
        features, targets = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            y_numeric=isinstance(self, RegressorMixin),
            ensure_min_samples=1 if self.comm is None else 0,
        )
        return canonical(features), targets, row_weights(sample_weight, targets.size)

    def _check_parameters(self) -> None:
        check_stopping(self.tol, self.max_iter)
        check_l2(self.l2)
        check_solver(self.solver)

    def _agree(self, collectives: Collectives, rows: int) -> None:
        """Refuse ranks with other parameters or other features."""
        if collectives.size == 1:
            return
        parameters = {
            name: type(value).__name__ if name == "solver" and not isinstance(value, str) else value
            for name, value in self.get_params(deep=False).items()
            if name not in _OF_ONE_RANK
        }
        check_alike(collectives, "parameter", parameters)
        check_alike(collectives, "the number of", {"features": self.n_features_in_})
        own = getattr(self, "feature_names_in_", None)
        names = feature_names(collectives, own, rows)
        if names is not None and own is None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _starts(self, mapped: Mapped) -> list[Vector | None]:
        """Return where each column's fit starts: at the model before, if it is to be gone on from and fits."""
        nowhere: list[Vector | None] = [None] * len(mapped.targets)
        if not self.warm_start or not hasattr(self, "coef_"):
            return nowhere
        coef = np.atleast_2d(self.coef_)
        before = getattr(self, "classes_", None)
        now = mapped.classes
        alike = before is None and now is None
        if before is not None and now is not None:
            alike = np.array_equal(before, now)
        if not alike or coef.shape[1] != self.n_features_in_:
            return nowhere
        flat = flatten(coef, np.atleast_1d(self.intercept_), loss=mapped.loss, with_intercept=bool(self.fit_intercept))
        if len(nowhere) == 1:
            return [flat]
        return list(np.ascontiguousarray(flat.reshape(-1, len(nowhere)).T))

    # --- after it ---

    def _take(self, mapped: Mapped, reached: Sequence[Fit], l2: float, nodes: int) -> None:
        flat = np.column_stack([column.weights for column in reached]).reshape(-1)
        coef, intercept = unflatten(
            flat, self.n_features_in_, loss=mapped.loss, with_intercept=bool(self.fit_intercept)
        )
        self.coef_, self.intercept_ = self._shaped(coef, intercept)
        self._take_classes(mapped)
        self.l2_ = l2
        self.n_iter_ = max(column.steps for column in reached)
        self.n_rounds_ = sum(column.rounds for column in reached)
        self.n_rows_, self.n_ranks_ = reached[0].rows, nodes
        worst = max(reached, key=lambda column: column.gradient_norm)
        self.gradient_norm_, self.stop_reason_ = worst.gradient_norm, worst.reason

    def _told(self) -> str:
        return (
            f"ended after {self.n_iter_} iterations, {self.n_rounds_} communication rounds, at |gradient| = "
            f"{self.gradient_norm_:.3g} ({self.stop_reason_})"
        )

    def _scores(self, X: Any) -> Vector:
        """Return the margins, shape ``(rows, K)``; no communication."""
        check_is_fitted(self)
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        result: Vector = np.asarray(features @ np.atleast_2d(self.coef_).T)
        result += np.atleast_1d(self.intercept_)
        return result
