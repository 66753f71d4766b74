"""Minima found with a problem's own derivatives, against scikit-learn, closed forms and a published figure."""

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from mpi_opt.problems.registry import make_problem

ROWS, FEATURES, L2 = 120, 5, 0.02


def regression_set():
    rng = np.random.default_rng(21)
    features = rng.normal(size=(ROWS, FEATURES))
    target = features @ rng.normal(size=FEATURES) + 0.8 + rng.standard_t(df=2, size=ROWS)
    return features, target


def binary_set():
    features, target = regression_set()
    return features, np.where(target > 0, 1.0, -1.0)


def build(loss, features, labels, *, l2=L2, intercept=True, classes=2):
    return make_problem(loss, features, labels, classes=classes, l2=l2, scale=1 / len(labels), intercept=intercept)


def minimise(problem):
    found = optimize.minimize(
        problem.value,
        np.zeros(problem.dim),
        jac=problem.gradient,
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 3000, "maxfun": 5000, "maxcor": 30},
    )
    return found.x


def test_ridge_is_the_normal_equations():
    features, target = regression_set()
    design = np.column_stack([features, np.ones(ROWS)])
    penalty = np.diag([L2] * FEATURES + [0.0])
    expected = np.linalg.solve(design.T @ design / ROWS + penalty, design.T @ target / ROWS)
    problem = build("squared", features, target)
    np.testing.assert_allclose(minimise(problem), expected, atol=1e-7)
    # One Newton step from anywhere is exact for a quadratic.
    x = np.ones(problem.dim)
    np.testing.assert_allclose(x - np.linalg.solve(problem.hessian(x), problem.gradient(x)), expected, rtol=1e-10)


def test_huber_is_scipys_robust_least_squares():
    features, target = regression_set()
    design = np.column_stack([features, np.ones(ROWS)])
    outside = optimize.least_squares(
        lambda x: design @ x - target, np.zeros(FEATURES + 1), loss="huber", xtol=1e-14, ftol=1e-14, gtol=1e-12
    )
    problem = build("huber", features, target, l2=0.0)
    ours = minimise(problem)
    assert (np.abs(problem.margins(ours) - target) > 1).any()  # the linear part is in play
    assert problem.value(ours) == pytest.approx(outside.cost / ROWS, rel=1e-11)
    np.testing.assert_allclose(ours, outside.x, atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_logistic_is_scikit_learns_at_c_one_over_l2_n(intercept):
    features, labels = binary_set()
    model = LogisticRegression(C=1 / (L2 * ROWS), fit_intercept=intercept, tol=1e-12, max_iter=5000)
    model.fit(features, labels)
    outside = np.append(model.coef_[0], model.intercept_) if intercept else model.coef_[0]
    np.testing.assert_allclose(minimise(build("logistic", features, labels, intercept=intercept)), outside, atol=2e-6)


def test_logistic_is_liblinears_without_intercept():
    features, labels = binary_set()
    model = LogisticRegression(C=1 / (L2 * ROWS), fit_intercept=False, solver="liblinear", tol=1e-10, max_iter=5000)
    model.fit(features, labels)
    np.testing.assert_allclose(
        minimise(build("logistic", features, labels, intercept=False)), model.coef_[0], atol=1e-6
    )


def test_squared_hinge_is_liblinears_support_vector_machine():
    features, labels = binary_set()
    model = LinearSVC(C=1 / (L2 * ROWS), dual=False, fit_intercept=False, tol=1e-11, max_iter=10000)
    model.fit(features, labels)
    problem = build("squared-hinge", features, labels, intercept=False)
    np.testing.assert_allclose(minimise(problem), model.coef_[0], atol=1e-6)


def test_softmax_is_scikit_learns_multinomial_model():
    features, labels = load_digits(n_class=4, return_X_y=True)
    features, labels = features[:200] / 16.0, labels[:200].astype(float)
    model = LogisticRegression(C=1 / (L2 * 200), tol=1e-10, max_iter=5000).fit(features, labels)
    problem = build("softmax", sparse.csr_array(features), labels, classes=4)
    outside = np.vstack([model.coef_.T, model.intercept_]).ravel()
    ours = minimise(problem)
    assert problem.value(ours) == pytest.approx(problem.value(outside), rel=1e-10)
    # The intercepts are only determined up to a common number.
    differences = (ours - outside).reshape(-1, 4)
    differences[-1] -= differences[-1].mean()
    np.testing.assert_allclose(differences, 0, atol=1e-5)
    assert problem.figures(ours).wrong == (model.predict(features) != labels).sum()


@pytest.mark.data
def test_a9a_reaches_the_published_optimum(datasets):
    features, labels = load_svmlight_file(str(datasets / "a9a" / "a9a.bz2"), n_features=123)
    rows = len(labels)
    assert rows == 32561
    problem = build("logistic", features, labels, l2=1 / rows, intercept=False)
    found = optimize.minimize(
        problem.value,
        np.zeros(123),
        jac=problem.gradient,
        hessp=lambda x, v: problem.hvp_at(x)(v),
        method="Newton-CG",
        options={"xtol": 1e-10, "maxiter": 100},
    )
    assert found.fun == pytest.approx(0.323379582465, abs=1e-10)
    x = found.x
    for _ in range(3):
        x = x - np.linalg.solve(problem.hessian(x), problem.gradient(x))
    assert np.linalg.norm(problem.gradient(x)) < 1e-14
    assert problem.value(x) == pytest.approx(0.323379582465, abs=1e-12)
