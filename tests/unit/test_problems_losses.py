"""Losses of one row: values against plain formulas, derivatives against complex steps, and the far ends of float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.problems.losses import Huber, Logistic, Softmax, Squared, SquaredHinge

ONE_COLUMN = {"logistic": Logistic(), "squared": Squared(), "squared-hinge": SquaredHinge(), "huber": Huber()}

# The textbook formulas, for complex z of moderate size; which branch applies is read off the real part.
PLAIN = {
    "logistic": lambda z, y: np.log(1 + np.exp(-y * z)),
    "squared": lambda z, y: (z - y) ** 2 / 2,
    "squared-hinge": lambda z, y: np.where((1 - y * z).real > 0, (1 - y * z) ** 2, 0),
    "huber": lambda z, y: np.where(np.abs((z - y).real) <= 1, (z - y) ** 2 / 2, np.sign((z - y).real) * (z - y) - 0.5),
}
PLAIN_SLOPE = {
    "logistic": lambda z, y: -y / (1 + np.exp(y * z)),
    "squared": lambda z, y: z - y,
    "squared-hinge": lambda z, y: np.where((1 - y * z).real > 0, -2 * y * (1 - y * z), 0),
    "huber": lambda z, y: np.where(np.abs((z - y).real) <= 1, z - y, np.sign((z - y).real)),
}


def labels(name, rng, rows):
    return rng.choice([-1.0, 1.0], rows) if ONE_COLUMN[name].kind == "binary" else rng.normal(size=rows)


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_value_and_derivatives_follow_the_formula(name):
    rng = np.random.default_rng(1)
    z, loss = rng.normal(scale=3, size=400), ONE_COLUMN[name]
    y = labels(name, rng, 400)
    step = 1e-30
    np.testing.assert_allclose(loss.value(z, y), PLAIN[name](z + 0j, y).real, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(loss.slope(z, y), PLAIN[name](z + 1j * step, y).imag / step, rtol=1e-13, atol=1e-15)
    curvature = PLAIN_SLOPE[name](z + 1j * step, y).imag / step
    np.testing.assert_allclose(loss.curvature(z, y), curvature, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(loss.slope_change(z, y)(z), loss.curvature(z, y) * z)


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_curvature_stays_within_its_bound_and_reaches_it(name):
    z = np.linspace(-40, 40, 8001)
    curvature = ONE_COLUMN[name].curvature(z, np.ones_like(z))
    assert curvature.min() >= 0
    assert curvature.max() == ONE_COLUMN[name].curvature_bound


@pytest.mark.parametrize("name", ONE_COLUMN)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_far_margins_overflow_nowhere(name, sign):
    # pytest makes every warning an error, so an overflow inside shows.
    z = sign * np.array([30.0, 709.0, 710.0, 745.0, 1e4, 1e154, 1e300])
    y = np.ones_like(z)
    loss = ONE_COLUMN[name]
    value, slope, curvature = loss.value(z, y), loss.slope(z, y), loss.curvature(z, y)
    assert np.isfinite(slope).all()
    assert np.isfinite(curvature).all()
    assert not np.isnan(value).any()
    if name in ("logistic", "huber"):
        assert np.isfinite(value).all()
    if name == "logistic":
        np.testing.assert_allclose(value, np.logaddexp(0, -z), rtol=1e-15)
        np.testing.assert_allclose(slope, -np.exp(-np.logaddexp(0, z)), rtol=1e-12, atol=1e-307)
    if name == "squared-hinge":
        assert (value[z > 0] == 0).all()


@given(st.floats(-1e300, 1e300), st.sampled_from([-1.0, 1.0]))
def test_logistic_anywhere(z, y):
    z, y = np.array([z]), np.array([y])
    loss = Logistic()
    np.testing.assert_allclose(loss.value(z, y), np.logaddexp(0, -y * z), rtol=1e-14)
    assert -1 <= (y * loss.slope(z, y))[0] <= 0
    assert 0 <= loss.curvature(z, y)[0] <= 0.25 + 1e-15


def test_logistic_tails_keep_their_relative_accuracy():
    z = np.array([40.0, 100.0, 700.0])
    one = np.ones(3)
    for got in (Logistic().value(z, one), -Logistic().slope(z, one), Logistic().curvature(z, one)):
        np.testing.assert_allclose(got, np.exp(-z), rtol=1e-13)


@pytest.mark.parametrize("name", ["logistic", "squared-hinge"])
def test_wrong_predicts_plus_one_above_zero_only(name):
    z = np.array([2.0, 0.0, -0.0, -2.0, 2.0, 0.0, -2.0, np.nan, np.nan])
    y = np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, -1.0])
    # wrong:      no   yes  yes   yes  yes   no    no    yes  yes
    assert ONE_COLUMN[name].wrong(z, y) == 6


@pytest.mark.parametrize("name", ["squared", "huber"])
def test_regression_has_no_errors(name):
    assert ONE_COLUMN[name].wrong(np.array([5.0, np.nan]), np.zeros(2)) == 0


def test_softmax_follows_the_formula():
    rng = np.random.default_rng(2)
    z, y, step, loss = rng.normal(scale=3, size=(4, 50)), rng.integers(0, 4, 50), 1e-30, Softmax()

    def plain(z):
        return np.log(np.exp(z).sum(axis=0)) - z[y, np.arange(50)]

    np.testing.assert_allclose(loss.value(z, y), plain(z), rtol=1e-12, atol=1e-14)
    for c in range(4):
        moved = z + 0j
        moved[c] += 1j * step
        np.testing.assert_allclose(loss.slope(z, y)[c], plain(moved).imag / step, rtol=1e-12, atol=1e-15)
    change, h = rng.normal(size=z.shape), 1e-6
    differences = (loss.slope(z + h * change, y) - loss.slope(z - h * change, y)) / (2 * h)
    np.testing.assert_allclose(loss.slope_change(z, y)(change), differences, atol=1e-9)


def test_softmax_curvature_bound_is_reached_by_two_equal_classes():
    rng = np.random.default_rng(3)
    largest = 0.0
    for z in [np.array([0.0, 0.0, -50.0]), *rng.normal(scale=3, size=(200, 3))]:
        p = Softmax().probabilities(z[:, np.newaxis])[:, 0]
        largest = max(largest, np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1])
    assert largest == pytest.approx(Softmax.curvature_bound, abs=1e-15)


def test_softmax_overflows_nowhere():
    z = np.array([[1e300, -1e300, 0.0, 800.0], [-1e300, 1e300, 0.0, -800.0], [0.0, 0.0, 0.0, 0.0]])
    y = np.array([0, 0, 0, 1])
    np.testing.assert_allclose(Softmax().value(z, y), [0.0, 2e300, np.log(3), 1600.0])
    np.testing.assert_allclose(Softmax().slope(z, y).sum(axis=0), 0, atol=1e-15)


def test_softmax_wrong_takes_the_lowest_of_equals_and_counts_nan():
    z = np.array([[1.0, 1.0, 0.0, np.nan, 0.0], [1.0, 1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 3.0]])
    assert Softmax().wrong(z, np.array([0, 1, 1, 0, 2])) == 2


def test_two_class_softmax_is_logistic_of_the_difference():
    rng = np.random.default_rng(4)
    z, y = rng.normal(size=(2, 30)), rng.integers(0, 2, 30)
    np.testing.assert_allclose(
        Softmax().value(z, y), Logistic().value(z[1] - z[0], np.where(y == 1, 1.0, -1.0)), rtol=1e-12
    )
