"""What second-order methods must be in special cases, each against something that shares no code with their twin."""

import numpy as np
import pytest
from scipy import optimize
from support import second_order as so
from twins import setting

from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.solver import Cholesky
from mpi_opt.network.lockstep import Lockstep

L2, DIM = 0.01, 7
LOCAL = {"solver": Cholesky()}
ENDS = {"tolerance": Tolerance(1e-9)}


def data(rows=120, seed=2):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, DIM)) * np.geomspace(2, 0.3, DIM)
    return A, np.where(A @ rng.normal(size=DIM) + rng.normal(size=rows) > 0, 1.0, -1.0)


def drive(algorithm, parts, x0, steps, loss="logistic"):
    """Return the models after each step, the same on all nodes, (steps, d)."""
    made = so.made_of(algorithm, so.problems_of(loss, parts, L2), x0)
    seen, _ = so.drive(made, Lockstep([()] * len(parts), None), steps)
    return np.array([step.w[0] for step in seen])


def plain_newton(A, y, x, steps):
    """Newton's method with Armijo's rule on the logistic loss, candidates 4^-i."""
    F, grad = setting.objective("logistic", [(A, y)], L2), setting.gradients("logistic", [(A, y)], L2)
    points = []
    for _ in range(steps):
        odds = np.exp(A @ x)
        H = (A.T * (odds / (1 + odds) ** 2)) @ A / len(y) + L2 * np.eye(DIM)
        g = grad(0, x)
        p = np.linalg.solve(H, g)
        a = 1.0
        while F(x - a * p) > F(x) - 0.1 * a * (p @ g) + 1e-12:
            a /= 4
        x = x - a * p
        points.append(x)
    return np.array(points)


@pytest.mark.parametrize("start", [0.1, 4.0])
def test_one_node_is_newtons_method(start):
    """LocalNewton with L = 1, and GIANT, whose line search then is the local one; L = 3 is three steps a round."""
    A, y = data()
    x0 = np.random.default_rng(5).normal(size=DIM) * start
    newton = plain_newton(A, y, x0, 9)
    for algorithm in (LocalNewton(local_steps=1, **LOCAL), Giant(**LOCAL)):
        np.testing.assert_allclose(drive(algorithm, [(A, y)], x0, 9), newton, rtol=1e-9, atol=1e-11)
    rounds = drive(LocalNewton(local_steps=3, **LOCAL), [(A, y)], x0, 3)
    np.testing.assert_allclose(rounds, newton[2::3], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("start", [0.1, 4.0])
def test_exact_newton_takes_the_same_steps_however_rows_are_dealt(start):
    """It tries the full step before it knows the loss, so points it gives up stand between those of Newton's method."""
    A, y = data()
    x0 = np.random.default_rng(5).normal(size=DIM) * start
    alone = drive(Newton(**ENDS), [(A, y)], x0, 20)
    for parts in (setting.contiguous(A, y, 4), [(A[:7], y[:7]), (A[7:7], y[7:7]), (A[7:], y[7:])]):
        np.testing.assert_allclose(drive(Newton(**ENDS), parts, x0, 20), alone, rtol=1e-9, atol=1e-11)
    expected = plain_newton(A, y, x0, 6)
    for point in expected:
        assert np.abs(alone - point).max(axis=1).min() < 1e-9
    assert (start < 1) == (np.abs(alone[:6] - expected).max() < 1e-9), "only the far start makes it give up points"


def test_giant_alone_is_exact_newton():
    A, y = data()
    x0 = np.random.default_rng(5).normal(size=DIM) * 0.1
    giant, newton = drive(Giant(**LOCAL, **ENDS), [(A, y)], x0, 20), drive(Newton(**ENDS), [(A, y)], x0, 20)
    np.testing.assert_allclose(giant, newton, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", [1, 3, 4])
def test_identical_shards_make_local_newton_giant(n):
    A, y = data()
    x0 = np.zeros(DIM)
    parts = [(A, y)] * n
    local, giant = drive(LocalNewton(local_steps=1, **LOCAL), parts, x0, 7), drive(Giant(**LOCAL), parts, x0, 7)
    np.testing.assert_allclose(local, giant, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(local, plain_newton(A, y, x0, 7), rtol=1e-9, atol=1e-12)


def test_many_local_steps_are_one_shot_averaging():
    A, y = data()
    parts = [(A[:30], y[:30]), (A[30:], y[30:])]
    minima = [
        optimize.minimize(
            setting.objective("logistic", [part], L2), np.zeros(DIM), method="BFGS",
            jac=lambda x, part=part: setting.gradients("logistic", [part], L2)(0, x), options={"gtol": 1e-9},
        ).x
        for part in parts
    ]  # fmt: skip
    assert np.abs(minima[0] - minima[1]).max() > 0.1
    average = (30 * minima[0] + 90 * minima[1]) / 120
    rounds = drive(LocalNewton(local_steps=30, **LOCAL), parts, np.ones(DIM), 3)
    np.testing.assert_allclose(rounds, np.tile(average, (3, 1)), rtol=1e-6)


@pytest.mark.parametrize("by_support", [False, True])
@pytest.mark.parametrize("method", [LocalNewton, Giant])
def test_quadratic_with_equal_hessians_is_solved_in_one_round(method, by_support):
    """The same features on every shard, other labels."""
    A, _ = data(rows=40)
    labels = np.random.default_rng(4).normal(size=(3, 40))
    exact = np.linalg.solve(A.T @ A / 40 + L2 * np.eye(DIM), A.T @ labels.mean(axis=0) / 40)
    options = {"local_steps": 1} if method is LocalNewton else {}
    algorithm = method(by_support=by_support, **LOCAL, **options)
    first = drive(algorithm, [(A, y) for y in labels], np.ones(DIM), 1, loss="squared")[0]
    np.testing.assert_allclose(first, exact, rtol=1e-10)


def test_averaging_by_support_is_the_plain_mean_where_every_shard_has_every_feature():
    parts = setting.contiguous(*data(), 4)
    for method in (LocalNewton, Giant):
        plain, supported = (drive(method(by_support=b, **LOCAL), parts, np.ones(DIM), 6) for b in (False, True))
        np.testing.assert_allclose(plain, supported, rtol=1e-12)


@pytest.mark.parametrize("method", [LocalNewton, Giant])
def test_averaging_by_support_solves_shards_with_features_of_their_own(method):
    """Disjoint features: the optimum is each shard's own, scaled penalties apart; the plain mean dilutes it."""
    rng = np.random.default_rng(6)
    A = rng.normal(size=(60, DIM))
    A[:30, 4:] = 0
    A[30:, :4] = 0
    y = rng.normal(size=60)
    H, b = A.T @ A / 60, A.T @ y / 60
    exact = np.linalg.solve(H, b)
    parts = setting.contiguous(A, y, 2)
    problems = so.problems_of("squared", parts, 0.0)
    options = {"local_steps": 1} if method is LocalNewton else {}
    ends = {}
    for by_support in (False, True):
        made = so.made_of(method(by_support=by_support, **LOCAL, **options), problems, np.zeros(DIM))
        ends[by_support] = so.drive(made, Lockstep([()] * 2, None), 1)[0][0].w[0]
    if method is LocalNewton:
        np.testing.assert_allclose(ends[True], exact, rtol=1e-9)
        np.testing.assert_allclose(ends[False], exact / 2, rtol=1e-9)
    else:
        # H_k is twice the global Hessian on the features it has, so GIANT by support takes half a Newton step.
        np.testing.assert_allclose(ends[True], exact / 2, rtol=1e-9)
