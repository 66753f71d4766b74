"""Losses by name, and refusals: labels, shapes and numbers that do not fit."""

import numpy as np
import pytest
from scipy import sparse

from mpi_opt.errors import DataError, JobError
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic
from mpi_opt.problems.registry import LOSSES, label_kind, make_problem
from mpi_opt.problems.softmax import SoftmaxProblem


def test_the_names_of_the_job_file():
    assert list(LOSSES) == ["logistic", "squared", "squared-hinge", "huber", "softmax"]
    assert [label_kind(name) for name in LOSSES] == ["binary", "real", "binary", "real", "classes"]


def test_an_unknown_loss_names_the_nearest():
    with pytest.raises(JobError, match=r"'logstic' is unknown; did you mean 'logistic'\?.*softmax"):
        label_kind("logstic")


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        ("logistic", [0.0, 1.0], "found 0, 1; needed: two labels, mapped to -1 and"),
        ("squared-hinge", [1.0, np.nan], "found 1, nan"),
        ("softmax", [0.0, 3.0], r"found 0, 3; needed: whole numbers 0\.\.2"),
        ("softmax", [0.0, -1.0], "found -1, 0"),
        ("softmax", [0.0, np.nan], "found 0, nan"),
        ("huber", [0.0, np.inf], "found 0, inf; needed: finite"),
    ],
)
def test_shards_whose_labels_do_not_fit(loss, labels, message):
    with pytest.raises(DataError, match=message):
        make_problem(loss, np.eye(2), np.array(labels), classes=3, l2=0.0, scale=1.0, intercept=False)


def test_a_shard_may_lack_classes():
    problem = make_problem("softmax", np.eye(2), np.zeros(2), classes=4, l2=0.0, scale=1.0, intercept=False)
    assert isinstance(problem, SoftmaxProblem)
    assert (problem.classes, problem.dim, problem.intercept) == (4, 8, False)


@pytest.mark.parametrize("option", [{"l2": -1.0}, {"l2": np.nan}, {"scale": -0.5}, {"scale": np.inf}])
def test_factors_out_of_range(option):
    factors = {"l2": 0.1, "scale": 1.0} | option
    with pytest.raises(ValueError, match=r"is (-|nan|inf).*a finite number >= 0"):
        LinearProblem(np.eye(2), np.ones(2), Logistic(), **factors)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (np.ones(3), ValueError, "1 dimension"),
        ([[1.0]], TypeError, "features are list"),
        (sparse.csc_array(np.eye(3)), TypeError, "features are csc_array"),
        (np.eye(2), ValueError, r"labels have shape \(3,\); \(2,\) is needed"),
    ],
)
def test_features_that_do_not_fit(features, error, message):
    with pytest.raises(error, match=message):
        LinearProblem(features, np.ones(3), Logistic(), l2=0.0, scale=1.0)


def test_one_class_is_no_softmax():
    with pytest.raises(ValueError, match="classes is 1"):
        SoftmaxProblem(np.eye(2), np.zeros(2), 1, l2=0.0, scale=1.0)


def test_a_point_of_the_wrong_length_is_refused():
    problem = LinearProblem(np.eye(2), np.ones(2), Logistic(), l2=0.0, scale=1.0)
    with pytest.raises(ValueError, match=r"shape \(3,\); \(2,\) is needed"):
        problem.gradient(np.zeros(3))


def test_other_number_types_are_converted():
    labels = np.array([1, -1])
    x = np.array([0.3, -0.2])
    expected = LinearProblem(np.eye(2), labels, Logistic(), l2=0.1, scale=1.0).gradient(x)
    for features in (np.eye(2, dtype=np.float32), np.asfortranarray(np.eye(2)), sparse.csr_array(np.eye(2, dtype=int))):
        got = LinearProblem(features, labels, Logistic(), l2=0.1, scale=1.0).gradient(x)
        np.testing.assert_allclose(got, expected, rtol=1e-15)
