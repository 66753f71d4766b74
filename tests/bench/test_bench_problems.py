"""How long problems take: a local step of softmax (target: under 120 us), passes over a set of a9a's shape, batches."""

import numpy as np
import pytest
from scipy import sparse

from mpi_opt.problems.registry import make_problem


@pytest.fixture(scope="module")
def softmax():
    """MNIST's shape, one node of 60: d = 7850."""
    rng = np.random.default_rng(0)
    features, labels = rng.random((1000, 784)), rng.integers(0, 10, 1000).astype(float)
    return make_problem("softmax", features, labels, classes=10, l2=1e-4, scale=1e-3, intercept=True)


@pytest.fixture(scope="module")
def a9a_like():
    """32,561 rows of 14 ones in 123 columns."""
    rng = np.random.default_rng(0)
    rows, columns, each = 32561, 123, 14
    places = np.argsort(rng.random((rows, columns)), axis=1)[:, :each].astype(np.int32)
    places.sort(axis=1)
    parts = (np.ones(rows * each), places.ravel(), np.arange(0, rows * each + 1, each))
    features = sparse.csr_array(parts, shape=(rows, columns))
    labels = rng.choice([-1.0, 1.0], rows)
    return make_problem("logistic", features, labels, classes=2, l2=1 / rows, scale=1 / rows, intercept=False)


def test_local_step_softmax_d7850_batch_5(benchmark, softmax):
    x, g, rows = np.zeros(softmax.dim), np.empty(softmax.dim), np.array([7, 401, 3, 999, 56])
    assert softmax.dim == 7850

    def step():
        softmax.sampled_gradient(x, rows, g)
        np.multiply(g, 1e-3, out=g)
        np.subtract(x, g, out=x)

    benchmark(step)
    assert np.isfinite(x).all()
    if benchmark.stats is not None:  # --benchmark-disable measures nothing
        assert benchmark.stats["min"] < 120e-6


def test_full_gradient_softmax(benchmark, softmax):
    benchmark(softmax.gradient, np.zeros(softmax.dim))


def test_full_gradient_a9a(benchmark, a9a_like):
    benchmark(a9a_like.gradient, np.full(123, 0.1))


def test_bare_scipy_products_a9a(benchmark, a9a_like):
    """What the gradient cannot undercut: X w and X^T r alone."""
    matrix = sparse.csr_array(a9a_like._matrix._matrix)
    transpose, w = matrix.T, np.full(123, 0.1)
    benchmark(lambda: transpose @ (matrix @ w))


def test_hessian_product_a9a(benchmark, a9a_like):
    benchmark(a9a_like.hvp_at(np.full(123, 0.1)), np.ones(123))


def test_hessian_product_softmax(benchmark, softmax):
    benchmark(softmax.hvp_at(np.zeros(softmax.dim)), np.ones(softmax.dim))


@pytest.mark.parametrize("size", [5, 50, 5000])
def test_sampled_gradient_a9a(benchmark, a9a_like, size):
    rows = np.random.default_rng(1).permutation(a9a_like.rows)[:size]
    benchmark(a9a_like.sampled_gradient, np.full(123, 0.1), rows)
