"""The tanh network and the saturating penalty: derivatives by differences, batches, use by the package's methods."""

import numpy as np
import pytest

import mpi_opt
from mpi_opt.algorithms.base import check_needs
from mpi_opt.errors import DataError, JobError
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Huber, Logistic, Squared
from mpi_opt.problems.saturating import SaturatingPenalty
from mpi_opt.problems.tanh_network import TanhNetwork

RNG = np.random.default_rng(4)
A = RNG.normal(size=(30, 5))
SIGNS = np.where(RNG.random(30) < 0.5, 1.0, -1.0)
REAL = RNG.normal(size=30)


def net(loss=None, labels=SIGNS, features=A, l2=0.2):
    return TanhNetwork(features, labels, loss or Logistic(), hidden=3, l2=l2, scale=0.7)


def levelled(weight=20.0):
    return SaturatingPenalty(LinearProblem(A, SIGNS, Logistic(), l2=0.1, scale=0.7, intercept=True), weight)


PROBLEMS = {
    "network, logistic": net,
    "network, squared": lambda: net(Squared(), REAL),
    "penalty": levelled,
}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]()


def differences(function, x, h=1e-5):
    return np.array([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)])


def test_gradient_is_the_derivative(problem):
    for x in RNG.normal(size=(3, problem.dim)):
        np.testing.assert_allclose(problem.gradient(x), differences(problem.value, x), rtol=1e-6, atol=1e-8)


def test_hessian_is_the_gradients_derivative_and_not_definite(problem):
    signs = set()
    for x in 2.0 * RNG.normal(size=(3, problem.dim)):
        product = problem.hvp_at(x)
        H = np.array([product(e) for e in np.eye(problem.dim)])
        np.testing.assert_allclose(H, differences(problem.gradient, x), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(H, H.T, rtol=1e-12, atol=1e-12)
        signs |= set(np.sign(np.linalg.eigvalsh(H)))
    assert signs == {-1.0, 1.0}


def test_the_map_keeps_its_point(problem):
    x, v = RNG.normal(size=(2, problem.dim))
    product = problem.hvp_at(x)
    before = product(v)
    x += 1.0
    np.testing.assert_array_equal(product(v), before)


def test_batches_of_one_row_average_to_the_gradient(problem):
    x = RNG.normal(size=problem.dim)
    mean = np.mean([problem.sampled_gradient(x, np.array([j])) for j in range(30)], axis=0)
    np.testing.assert_allclose(mean, problem.gradient(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(problem.sampled_gradient(x, np.arange(30)), problem.gradient(x), rtol=1e-12, atol=1e-14)


def test_out_may_be_the_point(problem):
    x, rows = RNG.normal(size=problem.dim), np.array([3, 3, 7])
    expected, point = problem.sampled_gradient(x, rows), x.copy()
    assert problem.sampled_gradient(point, rows, out=point) is point
    np.testing.assert_array_equal(point, expected)


def test_figures_and_penalty_make_the_value(problem):
    x = RNG.normal(size=problem.dim)
    figures = problem.figures(x)
    assert figures.rows == problem.rows == 30
    assert problem.value(x) == pytest.approx(0.7 * figures.loss + problem.penalty(x), rel=1e-13)


def test_the_networks_layout():
    """One row by hand: z = v . tanh(W a + b) + c, with x = (W, v, b, c); wrong where z and y differ in sign."""
    problem = TanhNetwork(np.array([[1.0, 2.0]]), np.array([1.0]), Squared(), hidden=2, l2=2.0, scale=1.0)
    W, v, b, c = np.array([[0.1, 0.2], [-0.3, 0.4]]), np.array([0.5, -1.0]), np.array([0.0, 0.7]), 0.25
    x = np.concatenate([W.ravel(), v, b, [c]])
    assert problem.dim == x.size == 9
    z = 0.5 * np.tanh(0.5) - np.tanh(0.5 + 0.7) + 0.25
    assert problem.value(x) == pytest.approx((z - 1.0) ** 2 / 2 + (0.01 + 0.04 + 0.09 + 0.16) + (0.25 + 1.0), rel=1e-14)
    wrong = TanhNetwork(np.array([[1.0, 2.0]]), np.array([1.0]), Logistic(), hidden=2, l2=0.0, scale=1.0)
    assert wrong.figures(x).wrong == int(z < 0) == 1


def test_the_penalty_by_hand():
    bare, x = levelled(0.0), np.array([1.0, -1.0, 0.0, 2.0, 0.0, 0.0])
    assert levelled(0.5).value(x) - bare.value(x) == pytest.approx(0.5 * (0.5 + 0.5 + 0.8), rel=1e-14)
    assert levelled(0.5).hvp_at(x)(np.eye(6)[0])[0] - bare.hvp_at(x)(np.eye(6)[0])[0] == pytest.approx(-0.25)


def test_no_rows_leave_the_penalty():
    empty = net(features=A[:0], labels=SIGNS[:0], l2=0.5)
    x = RNG.normal(size=empty.dim)
    expected = 0.5 * x
    expected[18:] = 0.0
    np.testing.assert_array_equal(empty.gradient(x), expected)
    np.testing.assert_array_equal(empty.sampled_gradient(x, np.empty(0, dtype=np.int64)), expected)


def test_a_point_that_is_not_finite_is_no_warning(problem):
    x = np.full(problem.dim, np.inf)
    assert not np.isfinite(problem.value(x))
    assert not np.isfinite(problem.gradient(x)).all()


def test_the_packages_methods_take_it(problem):
    """SPARQ-SGD at full batch goes downhill to a point without gradient; local Newton is refused by name."""
    algorithm = mpi_opt.AllreduceSGD(step_size=mpi_opt.Constant(0.02), batch=None)
    start = RNG.normal(size=problem.dim)
    result = mpi_opt.minimize(problem, algorithm, steps=3000, x0=start, every=1000)
    assert problem.value(result.x) < problem.value(start)
    assert np.linalg.norm(problem.gradient(result.x)) < 0.02 * np.linalg.norm(problem.gradient(start))
    with pytest.raises(JobError, match=f"LocalNewton needs .* {type(problem).__name__} lacks it"):
        check_needs(mpi_opt.LocalNewton(), problem)


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"features have shape \(30, 5\) and labels \(29,\)"):
        net(labels=SIGNS[1:])
    with pytest.raises(ValueError, match="hidden is 0"):
        TanhNetwork(A, SIGNS, Logistic(), hidden=0, l2=0.0, scale=1.0)
    with pytest.raises(ValueError, match="l2 is -1"):
        net(l2=-1.0)
    with pytest.raises(DataError):
        net(labels=np.arange(30.0))
    with pytest.raises(ValueError, match=r"\(22,\) is needed"):
        net(Huber(), REAL).value(np.zeros(7))
    with pytest.raises(ValueError, match="weight is nan"):
        levelled(np.nan)
