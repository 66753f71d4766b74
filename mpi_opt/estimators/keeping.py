"""Saving a fitted estimator as a model file, and loading one."""

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from mpi_opt.errors import DataError
from mpi_opt.estimators.storage import Stored, read, write
from mpi_opt.types import Vector


class Kept:
    """The part of an estimator that the model file knows."""

    _losses: ClassVar[tuple[str, ...]]
    """What a model file of this estimator may hold."""
    comm: Any
    l2: float | None
    fit_intercept: bool
    coef_: Any
    intercept_: Any
    classes_: npt.NDArray[Any]
    l2_: float
    n_iter_: int
    n_rounds_: int
    n_rows_: int
    n_ranks_: int
    gradient_norm_: float
    stop_reason_: str

    @classmethod
    def _loss(cls, classes: int) -> str:  # noqa: ARG003
        """Return the loss for so many classes, 0 for regression."""
        return cls._losses[0]

    def _shaped(self, coef: Vector, intercept: Vector) -> tuple[Any, Any]:
        """Return ``coef_`` and ``intercept_`` of arrays of shapes (K, p) and (K,)."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str], *, index_base: int = 1) -> str:
        """Write a model file, which `load` and the command ``mpi-opt predict`` read.

        No communication: every rank holds the same model, so that one rank saves it. Labels that are no numbers are
        numbered 0, 1, ... in the order of ``classes_``, and kept as words beside; features that have names keep them.

        Parameters
        ----------
        path : path
        index_base : {0, 1}
            What the first column is called in LIBSVM text that is to be predicted.

        Returns
        -------
        str
            SHA-256 of the contents.

        Raises
        ------
        ValueError
            ``index_base`` is something else, or labels are neither numbers nor text.
        JobError
            The file cannot be written.
        """
        check_is_fitted(self)
        classes = getattr(self, "classes_", None)
        stored = Stored(
            loss=self._loss(0 if classes is None else classes.size),
            coef=np.atleast_2d(self.coef_),
            intercept=np.atleast_1d(self.intercept_),
            with_intercept=bool(self.fit_intercept) or bool(np.any(self.intercept_)),
            l2=self.l2_,
            classes=classes,
            class_weights=getattr(self, "class_weight_", None),
            names=getattr(self, "feature_names_in_", None),
            iterations=self.n_iter_,
            rounds=self.n_rounds_,
            rows=self.n_rows_,
            nodes=self.n_ranks_,
            gradient_norm=self.gradient_norm_,
            reason=self.stop_reason_,
            made_by=f"{type(self).__module__}.{type(self).__qualname__}",
            parameters=self._plain_parameters(),
        )
        return write(path, stored, index_base)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, comm: Any = None) -> Self:
        """Return a fitted estimator from a model file, of an estimator or of a run of ``mpi-opt``.

        Parameters come back as they were, but for those that are no JSON values: a solver's object and a RandomState
        are left at their defaults, a mapping of class weights names all classes.

        Parameters
        ----------
        path : path
        comm : mpi4py.MPI.Intracomm, optional
            For a later ``fit``; a model file holds none.

        Raises
        ------
        DataError
            No readable model, or one of another loss.
        """
        stored = read(path)
        if stored.loss not in cls._losses:
            raise DataError(f"{path}: loss {stored.loss!r}; {cls.__name__} reads {', '.join(cls._losses)}")
        if stored.coef.shape[0] > 1 and stored.loss != cls._loss(stored.coef.shape[0]):
            raise DataError(
                f"{path}: has one column a class, each against the rest; {cls.__name__} reads no such model"
            )
        known = cls._get_param_names()  # type: ignore[attr-defined]
        parameters = {name: value for name, value in stored.parameters.items() if name in known}
        if not parameters:
            parameters = {"l2": stored.l2, "fit_intercept": stored.with_intercept}
        if "class_weight" in known and "class_weight" not in parameters and stored.class_weights is not None:
            assert stored.classes is not None
            weights = zip(stored.classes.tolist(), stored.class_weights.tolist(), strict=True)
            parameters["class_weight"] = dict(weights)
        loaded = cls(**parameters)
        loaded.comm = comm
        loaded._restore(stored)
        return loaded

    def _restore(self, stored: Stored) -> None:
        self.coef_, self.intercept_ = self._shaped(stored.coef, stored.intercept)
        self.n_features_in_ = stored.coef.shape[1]
        if stored.names is not None:
            self.feature_names_in_ = np.array(stored.names, dtype=object)
        if stored.classes is not None:
            self.classes_ = stored.classes
            ones = np.ones(stored.classes.size)
            self.class_weight_ = ones if stored.class_weights is None else stored.class_weights
        self.l2_ = stored.l2
        self.n_iter_, self.n_rounds_ = stored.iterations, stored.rounds
        self.n_rows_, self.n_ranks_ = stored.rows, stored.nodes
        self.gradient_norm_, self.stop_reason_ = stored.gradient_norm, stored.reason

    def _plain_parameters(self) -> Mapping[str, Any]:
        """Return the parameters that JSON can hold; numbers of NumPy's count as numbers."""
        plain = {}
        for name, value in self.get_params(deep=False).items():  # type: ignore[attr-defined]
            value = value.item() if isinstance(value, np.generic) else value
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                continue
            if name != "comm" and not isinstance(value, Mapping):  # JSON's mappings have keys of text
                plain[name] = value
        return plain
