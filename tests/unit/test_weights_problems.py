"""Row weights in the problems: a weight of m is a row m times, and all derivatives follow; none changes no bit."""

import numpy as np
import pytest
from scipy import sparse

from mpi_opt.problems.registry import LOSSES, make_problem

RNG = np.random.default_rng(7)
ROWS = 40
X = RNG.normal(size=(ROWS, 4)) * (RNG.random((ROWS, 4)) < 0.7)
TIMES = RNG.integers(0, 4, ROWS)
WEIGHTS = RNG.uniform(0.0, 3.0, ROWS)
STORAGES = [np.array, sparse.csr_array]


def labels_of(loss):
    kind = LOSSES[loss].kind
    draw = np.random.default_rng(8)
    if kind == "real":
        return draw.normal(size=ROWS)
    return draw.integers(0, 3, ROWS).astype(float) if kind == "classes" else draw.choice([-1.0, 1.0], ROWS)


def make(loss, features, labels, weights=None, intercept=True):
    return make_problem(loss, features, labels, classes=3, l2=0.1, scale=0.05, intercept=intercept, row_weights=weights)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("intercept", [False, True])
def test_a_whole_weight_is_so_many_rows(loss, storage, intercept):
    labels, again = labels_of(loss), np.repeat(np.arange(ROWS), TIMES)
    weighted = make(loss, storage(X), labels, TIMES.astype(float), intercept)
    repeated = make(loss, storage(X[again]), labels[again], None, intercept)
    x, v = RNG.normal(size=(2, weighted.dim))
    close = {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(weighted.value(x), repeated.value(x), **close)
    np.testing.assert_allclose(weighted.gradient(x), repeated.gradient(x), **close)
    np.testing.assert_allclose(weighted.sampled_gradient(x, None), repeated.gradient(x), **close)
    np.testing.assert_allclose(weighted.hvp_at(x)(v), repeated.hvp_at(x)(v), **close)
    np.testing.assert_allclose(weighted.hessian(x), repeated.hessian(x), **close)
    np.testing.assert_allclose(weighted.hessian_diagonal(x), repeated.hessian_diagonal(x), **close)
    np.testing.assert_allclose(weighted.shared_curvature(x, ROWS), repeated.shared_curvature(x, 10**6), **close)
    np.testing.assert_allclose(weighted.value_along(x, v)(0.7), repeated.value_along(x, v)(0.7), **close)
    np.testing.assert_allclose(weighted.figures(x).loss, repeated.figures(x).loss, **close)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_derivatives_agree_with_differences(loss, storage):
    problem = make(loss, storage(X), labels_of(loss), WEIGHTS)
    x = 0.3 * RNG.normal(size=problem.dim)
    step, unit = 1e-6, np.eye(problem.dim)
    slopes = [(problem.value(x + step * e) - problem.value(x - step * e)) / (2 * step) for e in unit]
    np.testing.assert_allclose(problem.gradient(x), slopes, rtol=1e-6, atol=1e-8)
    change = [(problem.gradient(x + step * e) - problem.gradient(x - step * e)) / (2 * step) for e in unit]
    hessian = problem.hessian(x)
    np.testing.assert_allclose(hessian, change, rtol=1e-5, atol=1e-7)
    product = problem.hvp_at(x)
    np.testing.assert_allclose([product(e) for e in unit], hessian, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(problem.hessian_diagonal(x), np.diag(hessian), rtol=1e-10, atol=1e-12)
    assert problem.value_along(x, unit[0])(0.5) == pytest.approx(problem.value(x + 0.5 * unit[0]), rel=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_batches_take_their_rows_weights_and_average_to_the_gradient(loss, storage):
    problem = make(loss, storage(X), labels_of(loss), WEIGHTS)
    x, order = RNG.normal(size=problem.dim), RNG.permutation(ROWS)
    mean = np.mean([problem.sampled_gradient(x, order[at : at + 8]) for at in range(0, ROWS, 8)], axis=0)
    np.testing.assert_allclose(mean, problem.gradient(x), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_weights_of_one_change_no_bit_of_the_derivatives_and_count_errors_by_row(loss, storage):
    labels = labels_of(loss)
    plain, ones = make(loss, storage(X), labels), make(loss, storage(X), labels, np.ones(ROWS))
    x, v = RNG.normal(size=(2, plain.dim))
    np.testing.assert_array_equal(plain.gradient(x), ones.gradient(x))
    np.testing.assert_array_equal(plain.hessian(x), ones.hessian(x))
    np.testing.assert_array_equal(plain.hvp_at(x)(v), ones.hvp_at(x)(v))
    assert make(loss, storage(X), labels, WEIGHTS).figures(x)[1:] == plain.figures(x)[1:]


@pytest.mark.parametrize(
    ("weights", "word"),
    [(np.ones(3), "one a row"), (np.full(ROWS, -1.0), "negative"), (np.full(ROWS, np.nan), "finite")],
)
def test_wrong_weights_are_refused(weights, word):
    with pytest.raises(ValueError, match=word):
        make("logistic", X, labels_of("logistic"), weights)
