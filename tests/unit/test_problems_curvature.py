"""The block that softmax's columns share, and Gram matrices of sparse rows by either way."""

import numpy as np
import pytest
from scipy import sparse

from mpi_opt.problems.registry import make_problem
from mpi_opt.problems.sparse_rows import SparseRows

RNG = np.random.default_rng(3)
A = RNG.normal(size=(40, 5)) * (RNG.random((40, 5)) < 0.6)


def make(loss, features=A, l2=0.1, **changes):
    labels = RNG.integers(0, 3, 40).astype(float) if loss == "softmax" else RNG.choice([-1.0, 1.0], 40)
    labels = labels[: features.shape[0]]
    scale = 1 / max(features.shape[0], 1)
    return make_problem(
        loss, features, labels, **{"classes": 3, "l2": l2, "scale": scale, "intercept": False} | changes
    )


@pytest.mark.parametrize("storage", [np.array, sparse.csr_array])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_shared_curvature_is_the_mean_of_the_diagonal_blocks(loss, intercept, storage):
    problem = make(loss, storage(A), intercept=intercept)
    x, c = RNG.normal(size=problem.dim), problem.columns
    assert c == (3 if loss == "softmax" else 1)
    H = problem.hessian(x)
    expected = sum(H[k::c, k::c] for k in range(c)) / c
    np.testing.assert_allclose(problem.shared_curvature(x, 40), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("storage", [np.array, sparse.csr_array])
def test_some_rows_stand_for_all(storage):
    problem, x = make("softmax", storage(A)), RNG.normal(size=15)
    third = make("softmax", storage(A[::3]))
    np.testing.assert_allclose(problem.shared_curvature(x, 13), third.shared_curvature(x, 999), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("storage", [np.array, sparse.csr_array])
def test_no_rows_leave_the_penalty(storage):
    problem = make("softmax", storage(A[:0]))
    np.testing.assert_array_equal(problem.shared_curvature(np.ones(15), 10), 0.1 * np.eye(5))


@pytest.mark.parametrize(("rows", "columns", "density"), [(0, 4, 1.0), (7, 1, 1.0), (5000, 30, 0.9), (3000, 400, 0.01)])
def test_gram_of_sparse_rows(rows, columns, density):
    dense = RNG.normal(size=(rows, columns)) * (RNG.random((rows, columns)) < density)
    weights = RNG.random(rows)
    gram = SparseRows(sparse.csr_array(dense)).gram(weights)
    np.testing.assert_allclose(gram, dense.T @ (weights[:, None] * dense), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(gram, gram.T)


def test_gram_adds_up_entries_stored_twice():
    twice = sparse.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    np.testing.assert_array_equal(SparseRows(twice).gram(np.ones(1)), [[9.0, 15.0], [15.0, 25.0]])
