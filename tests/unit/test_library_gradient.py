"""The bound on the global gradient that `minimize` takes; several ranks are in tests/mpi/test_sklearn_mpi.py."""

import numpy as np
import pytest

import mpi_opt


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
    return mpi_opt.make_problem("logistic", X, y, classes=2, l2=0.1, scale=1 / 60, intercept=True)


def test_ends_at_the_bound_and_tells_the_norm(problem):
    method = mpi_opt.AllreduceSGD(step_size=mpi_opt.Constant(1.0))
    found = mpi_opt.minimize(problem, method, steps=10_000, gradient_norm=1e-6)
    assert found.gradient_norm == np.linalg.norm(problem.gradient(found.average)) <= 1e-6
    assert 10 < found.steps < 1000
    assert found.steps % 10 == 0
    assert found.reason.startswith("converged: gradient norm")
    assert mpi_opt.minimize(problem, method, steps=5, x0=found.x, gradient_norm=1e-6).steps == 0


def test_without_a_bound_nothing_is_looked_at(problem):
    found = mpi_opt.minimize(problem, mpi_opt.AllreduceSGD(step_size=mpi_opt.Constant(1.0)), steps=20)
    assert np.isnan(found.gradient_norm)
    assert found.steps == 20


@pytest.mark.parametrize("bound", [-1.0, np.nan])
def test_a_bound_below_zero_is_refused(problem, bound):
    with pytest.raises(mpi_opt.JobError, match="gradient_norm = "):
        mpi_opt.minimize(problem, mpi_opt.NewtonCG(), steps=5, gradient_norm=bound)
