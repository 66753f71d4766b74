"""scikit-learn's own checks of an estimator: none is expected to fail."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

import mpi_opt.sklearn as facade

NEEDS = ("pandas is not installed", "SCIPY_ARRAY_API is not set")
"""Reasons for which a check may be skipped."""


def checked(estimator):
    """Return the results of all checks, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some checks allow one iteration
        results = check_estimator(estimator, on_fail="raise", on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    strange = [result for result in results if result["status"] == "skipped" and not told(result["exception"])]
    assert not strange
    return results


def told(exception):
    return str(exception).startswith(NEEDS)


@pytest.mark.parametrize("name", facade.__all__)
def test_all_checks_pass(name):
    names = {result["check_name"] for result in checked(getattr(facade, name)())}
    assert {"check_sample_weight_equivalence_on_sparse_data", "check_estimator_sparse_array"} <= names


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "lbfgs"])
def test_all_checks_pass_with_other_solvers(solver):
    checked(facade.DistributedLogisticRegression(solver=solver, max_iter=1000))


def test_balanced_weights_are_those_scikit_learn_computes():
    from sklearn.utils.estimator_checks import check_class_weight_balanced_linear_classifier

    for kind in (facade.DistributedLogisticRegression, facade.DistributedLinearSVC):
        check_class_weight_balanced_linear_classifier(kind.__name__, kind())
