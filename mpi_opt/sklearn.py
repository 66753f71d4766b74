"""Estimators with scikit-learn's interface, fitted by the package's methods: on one process, or on all ranks of MPI.

Without ``comm`` an estimator is like any other of scikit-learn (`GridSearchCV`, pipelines, joblib), and MPI is never
started. With an mpi4py communicator every rank calls ``fit`` with its own rows and ends with the same model, bit for
bit; predicting needs no communication.

All minimise ``F(w) = sum_j omega_j loss(w; x_j, y_j) / S + (l2 / 2) |w|^2`` over the rows of all ranks, with
``S = sum_j omega_j`` the total of the row weights, N without any; the intercept is not penalised. In scikit-learn's
words ``l2 = 1 / (C S)``, or ``alpha / S``.
"""

from typing import Any, ClassVar

from mpi_opt.algorithms.base import Algorithm
from mpi_opt.estimators.kinds import LinearClassifier, LinearRegressor, Probabilities

__all__ = [
    "DistributedHuber",
    "DistributedLinearSVC",
    "DistributedLogisticRegression",
    "DistributedRidge",
    "DistributedSoftmaxRegression",
]


class DistributedLogisticRegression(Probabilities):
    """Logistic regression: two classes by the logistic loss, more by softmax.

    The optimum is that of scikit-learn's ``LogisticRegression`` with the same ``C``.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty, as scikit-learn and LIBLINEAR have it: ``l2 = 1 / (C S)``.
    l2 : float, optional
        Factor of the penalty itself; given, it stands in for ``C``.
    fit_intercept : bool
        Whether an intercept is fitted; it is not penalised.
    class_weight : mapping, "balanced" or None
        What the loss of each class's rows is multiplied by; "balanced" from the counts of ALL ranks.
    solver : str or Algorithm
        "local-newton" (LocalNewton, adaptive, with the finish that the cost model finds cheapest), "newton",
        "newton-cg", "giant", "lbfgs" or "admm"; or a method's object, such as ``mpi_opt.SparqSGD(...)``, whose nodes
        stand in a ring.
    tol : float
        The norm of the gradient of F at which the fit has converged.
    max_iter : int
        Most steps of the solver; a `ConvergenceWarning` tells when they did not suffice.
    warm_start : bool
        Start from the model of the fit before, where classes and features are the same.
    comm : mpi4py.MPI.Intracomm, optional
        One rank a node. Not copied by ``clone`` but shared; left out by pickle and ``copy.deepcopy``.
    random_state : int, RandomState or None
        Seed of an SGD method's mini-batches and compressor; with ``comm`` the first rank's counts. The named solvers
        draw nothing.
    verbose : int
        Above 0 the first rank writes a line when the fit has ended.

    Attributes
    ----------
    coef_ : ndarray, shape (1, features) for two classes, else (K, features)
    intercept_ : ndarray, shape (1,) or (K,)
    classes_ : ndarray, shape (K,)
        The labels of all ranks, ascending.
    class_weight_ : ndarray, shape (K,)
        What each class's rows were multiplied by.
    l2_ : float
        The penalty's factor that was used.
    n_iter_, n_rounds_ : int
        Steps of the solver, and communication rounds.
    gradient_norm_, stop_reason_ : float and str
        The gradient's norm at the model, and why the fit ended.
    n_rows_, n_ranks_ : int
        Rows of all ranks with a weight above zero, and ranks.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    _losses: ClassVar[tuple[str, ...]] = ("logistic", "softmax")

    @classmethod
    def _loss(cls, classes: int) -> str:
        return cls._losses[classes > 2]


class DistributedSoftmaxRegression(Probabilities):
    """Softmax (multinomial logistic) regression of two classes or more.

    Each class has a column of its own, also where there are two: the penalty then counts half as much as with
    `DistributedLogisticRegression`, and ``coef_`` is the second column less the first.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty, as scikit-learn and LIBLINEAR have it: ``l2 = 1 / (C S)``.
    l2 : float, optional
        Factor of the penalty itself; given, it stands in for ``C``.
    fit_intercept, class_weight, solver, tol, max_iter, warm_start, comm, random_state, verbose
        See `DistributedLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, class_weight_, ...
        See `DistributedLogisticRegression`.
    """

    _losses: ClassVar[tuple[str, ...]] = ("softmax",)


class DistributedLinearSVC(LinearClassifier):
    """Linear support vector machine with the squared hinge loss.

    Several classes are told one against the rest, each by a fit of its own, one after the other: ``n_iter_`` is the
    longest one's, ``n_rounds_`` that of all together.

    The optimum is that of scikit-learn's ``LinearSVC`` with the same ``C``, but for its intercept, which is penalised
    there.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty, as scikit-learn and LIBLINEAR have it: ``l2 = 1 / (C S)``.
    l2 : float, optional
        Factor of the penalty itself; given, it stands in for ``C``.
    fit_intercept, class_weight, solver, tol, max_iter, warm_start, comm, random_state, verbose
        See `DistributedLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, class_weight_, ...
        See `DistributedLogisticRegression`.
    """

    _losses: ClassVar[tuple[str, ...]] = ("squared-hinge",)


class DistributedRidge(LinearRegressor):
    """Ridge regression: half the squared distance.

    The optimum is that of scikit-learn's ``Ridge`` with the same ``alpha``.

    Parameters
    ----------
    alpha : float
        Strength of the penalty beside the SUM of losses: ``l2 = alpha / S``.
    l2 : float, optional
        Factor of the penalty itself; given, it stands in for ``alpha``.
    fit_intercept, solver, tol, max_iter, warm_start, comm, random_state, verbose
        See `DistributedLogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray, shape (features,)
    intercept_ : float
    l2_, n_iter_, n_rounds_, gradient_norm_, stop_reason_, ...
        See `DistributedLogisticRegression`.
    """

    _losses: ClassVar[tuple[str, ...]] = ("squared",)


class DistributedHuber(LinearRegressor):
    """Robust regression with Huber's loss: half the squared distance up to 1, linear beyond.

    Targets should be scaled so that a distance of 1 is a large one; scikit-learn's ``HuberRegressor`` also estimates
    that scale.

    Parameters
    ----------
    alpha : float
        Strength of the penalty beside the SUM of losses: ``l2 = alpha / S``.
    l2 : float, optional
        Factor of the penalty itself; given, it stands in for ``alpha``.
    solver : str or Algorithm
        As for `DistributedLogisticRegression`, but "lbfgs" by default: where all rows are farther off than 1, as at the
        start with targets of any size, the loss has no curvature, and the methods with a Hessian may find no step.
    fit_intercept, tol, max_iter, warm_start, comm, random_state, verbose
        See `DistributedLogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray, shape (features,)
    intercept_ : float
    l2_, n_iter_, n_rounds_, gradient_norm_, stop_reason_, ...
        See `DistributedLogisticRegression`.
    """

    _losses: ClassVar[tuple[str, ...]] = ("huber",)

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        solver: str | Algorithm = "lbfgs",
        tol: float = 1e-6,
        max_iter: int = 100,
        warm_start: bool = False,
        comm: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            alpha=alpha,
            l2=l2,
            fit_intercept=fit_intercept,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            warm_start=warm_start,
            comm=comm,
            random_state=random_state,
            verbose=verbose,
        )
