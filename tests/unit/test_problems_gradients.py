"""Problems on one shard: derivatives, storages, batches, shards, and the promise of the same bits."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from mpi_opt.draws import Batches
from mpi_opt.problems.registry import LOSSES, make_problem

ROWS, FEATURES, CLASSES, L2 = 41, 6, 3, 0.07


def data(name, rows=ROWS, features=FEATURES):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.5)
    x[min(3, rows - 1)] = 0.0  # a row without entries
    x[:, 2] = 0.0  # a feature that the shard does not have
    kind = LOSSES[name].kind
    if kind == "binary":
        return x, rng.choice([-1.0, 1.0], rows)
    return x, rng.integers(0, CLASSES, rows).astype(float) if kind == "classes" else 2 * rng.normal(size=rows)


def build(name, features, labels, *, intercept, scale=1 / ROWS, l2=L2):
    return make_problem(name, features, labels, classes=CLASSES, l2=l2, scale=scale, intercept=intercept)


def plain(name, features, labels, intercept, x):
    """Return the objective written out, for complex x too."""
    columns = CLASSES if name == "softmax" else 1
    design = np.column_stack([features, np.ones(len(labels))]) if intercept else features
    weights = x.reshape(design.shape[1], columns)
    z = design @ weights
    if name == "softmax":
        losses = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(labels)), labels.astype(int)]
    else:
        m, r = labels * z[:, 0], z[:, 0] - labels
        losses = {
            "logistic": lambda: np.log(1 + np.exp(-m)),
            "squared": lambda: r**2 / 2,
            "squared-hinge": lambda: np.where(m.real < 1, (1 - m) ** 2, 0),
            "huber": lambda: np.where(abs(r.real) <= 1, r**2 / 2, np.sign(r.real) * r - 0.5),
        }[name]()
    return losses.sum() / ROWS + L2 / 2 * (weights[: features.shape[1]] ** 2).sum()


@pytest.fixture(params=LOSSES)
def name(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["no-intercept", "intercept"])
def intercept(request):
    return request.param


@pytest.fixture(params=["dense", "csr_array", "csr_matrix-int64"])
def problem(request, name, intercept):
    features, labels = data(name)
    if request.param == "csr_array":
        features = sparse.csr_array(features)
    elif request.param == "csr_matrix-int64":
        features = sparse.csr_matrix(features)
        features.indices, features.indptr = features.indices.astype(np.int64), features.indptr.astype(np.int64)
    return build(name, features, labels, intercept=intercept)


@pytest.fixture
def point(problem):
    return 0.7 * np.random.default_rng(5).normal(size=problem.dim)


def test_value_and_gradient_follow_the_formula(problem, name, intercept, point):
    features, labels = data(name)
    assert problem.dim == (FEATURES + intercept) * (CLASSES if name == "softmax" else 1)
    assert problem.rows == ROWS
    assert problem.value(point) == pytest.approx(plain(name, features, labels, intercept, point), rel=1e-13)
    step = 1e-30
    expected = [
        plain(name, features, labels, intercept, point + 1j * step * unit).imag / step for unit in np.eye(problem.dim)
    ]
    np.testing.assert_allclose(problem.gradient(point), expected, rtol=1e-12, atol=1e-14)


def test_hessian_products_by_differences(problem, point):
    # 1e-6 to either side: far from every kink of squared hinge and Huber at this point.
    h, product = 1e-6, problem.hvp_at(point)
    for unit in np.eye(problem.dim):
        expected = (problem.gradient(point + h * unit) - problem.gradient(point - h * unit)) / (2 * h)
        np.testing.assert_allclose(product(unit), expected, rtol=1e-7, atol=1e-9)


def test_hessian_is_symmetric_and_agrees_with_its_products(problem, point):
    rng = np.random.default_rng(6)
    product, hessian = problem.hvp_at(point), problem.hessian(point)
    u, v = rng.normal(size=(2, problem.dim))
    assert u @ product(v) == pytest.approx(v @ product(u), rel=1e-12)
    np.testing.assert_array_equal(hessian, hessian.T)
    np.testing.assert_allclose(hessian @ v, product(v), rtol=1e-11, atol=1e-14)
    assert np.linalg.eigvalsh(hessian)[0] > -1e-14


def test_products_outlive_later_calls(problem, point):
    product, v = problem.hvp_at(point), np.ones(problem.dim)
    first = product(v).copy()
    problem.hvp_at(-point)(v)
    problem.gradient(3 * point)
    np.testing.assert_array_equal(product(v), first)


def test_value_along_a_line(problem, point):
    p = np.random.default_rng(7).normal(size=problem.dim)
    along = problem.value_along(point, p)
    for a in (0.0, 1.0, -0.3, 1e-3):
        assert along(a) == pytest.approx(problem.value(point + a * p), rel=1e-13)


def test_figures_margins_and_penalty(problem, name, intercept, point):
    features, labels = data(name)
    figures = problem.figures(point)
    penalty = plain(name, features[:0], labels[:0], intercept, point)
    assert problem.penalty(point) == pytest.approx(penalty, rel=1e-14)
    assert figures.loss / ROWS == pytest.approx(problem.value(point) - penalty, rel=1e-13)
    assert figures.rows == ROWS
    columns = CLASSES if name == "softmax" else 1
    design = np.column_stack([features, np.ones(ROWS)]) if intercept else features
    z = design @ point.reshape(-1, columns)
    np.testing.assert_allclose(problem.margins(point), z if columns > 1 else z[:, 0], atol=1e-13)
    if LOSSES[name].kind == "real":
        assert figures.wrong == 0
    else:
        predicted = z.argmax(axis=1) if columns > 1 else np.where(z[:, 0] > 0, 1, -1)
        assert figures.wrong == (predicted != labels).sum()


def test_an_epoch_of_batches_adds_up_to_the_full_gradient(problem, point):
    batches = Batches(seed=1, node=0, rows=ROWS, size=6)
    total = np.zeros(problem.dim)
    for step in range(7):
        rows = batches.at(step)
        total += len(rows) / ROWS * problem.sampled_gradient(point, rows)
    np.testing.assert_allclose(total, problem.gradient(point), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(problem.sampled_gradient(point, None), problem.gradient(point))


def test_a_batch_is_the_shard_of_its_rows(problem, name, intercept, point):
    features, labels = data(name)
    rows = np.array([7, 3, 3, 40, 0])  # one twice, one without entries
    alone = build(name, features[rows], labels[rows], intercept=intercept, scale=1 / 5)
    np.testing.assert_allclose(problem.sampled_gradient(point, rows), alone.gradient(point), rtol=1e-12, atol=1e-14)
    only_penalty = problem.sampled_gradient(point, rows[:0])
    weights = problem.dim - intercept * (CLASSES if name == "softmax" else 1)
    np.testing.assert_array_equal(only_penalty[:weights], L2 * point[:weights])
    np.testing.assert_array_equal(only_penalty[weights:], 0)


@pytest.mark.parametrize("rows", [None, np.array([4, 9, 2])], ids=["full", "batch"])
def test_out_is_filled_and_may_be_the_point(problem, point, rows):
    expected, before = problem.sampled_gradient(point, rows), point.copy()
    out = np.full(problem.dim, np.nan)
    assert problem.sampled_gradient(point, rows, out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(point, before)
    assert problem.sampled_gradient(point, rows, point) is point
    np.testing.assert_array_equal(point, expected)


def test_same_call_same_bits(problem, point):
    rows = np.array([8, 30, 1, 2, 3])
    first = (problem.gradient(point), problem.sampled_gradient(point, rows), problem.value(point))
    shifted = np.empty(problem.dim + 1)[1:]  # eight bytes off: kernels must not depend on alignment
    shifted[:] = point
    problem.sampled_gradient(-point, rows[:2])
    problem.hvp_at(-point)(point)
    for x in (point, shifted):
        np.testing.assert_array_equal(problem.gradient(x), first[0])
        np.testing.assert_array_equal(problem.sampled_gradient(x, rows), first[1])
        assert problem.value(x) == first[2]


def test_an_empty_shard_is_its_penalty(name, intercept):
    features, labels = data(name)
    for empty in (features[:0], sparse.csr_array(features[:0])):
        problem = build(name, empty, labels[:0], intercept=intercept)
        x = np.random.default_rng(8).normal(size=problem.dim)
        expected = L2 * x
        if intercept:
            expected[-(CLASSES if name == "softmax" else 1) :] = 0
        assert problem.value(x) == problem.penalty(x) == pytest.approx(0.5 * x @ expected)
        np.testing.assert_array_equal(problem.gradient(x), expected)
        np.testing.assert_array_equal(problem.sampled_gradient(x, None), expected)
        np.testing.assert_array_equal(problem.hvp_at(x)(x), expected)
        np.testing.assert_allclose(problem.hessian(x) @ x, expected)
        assert problem.value_along(x, x)(0.0) == pytest.approx(problem.value(x))
        assert problem.figures(x) == (0.0, 0, 0)
        assert problem.margins(x).shape[0] == 0


def test_node_functions_of_unequal_shards_average_to_the_objective(name, intercept):
    features, labels = data(name)
    cuts = [0, 0, 5, 6, ROWS]  # four nodes, the first without rows
    nodes = [
        build(name, sparse.csr_array(features[a:b]), labels[a:b], intercept=intercept, scale=4 / ROWS)
        for a, b in zip(cuts, cuts[1:], strict=False)
    ]
    x = np.random.default_rng(9).normal(size=nodes[0].dim)
    whole = build(name, features, labels, intercept=intercept)
    assert sum(f.value(x) for f in nodes) / 4 == pytest.approx(whole.value(x), rel=1e-13)
    np.testing.assert_allclose(sum(f.gradient(x) for f in nodes) / 4, whole.gradient(x), rtol=1e-11, atol=1e-14)
    figures = [f.figures(x) for f in nodes]
    assert sum(f.wrong for f in figures) == whole.figures(x).wrong
    assert sum(f.loss for f in figures) == pytest.approx(whole.figures(x).loss, rel=1e-13)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_rows_beyond_one_block_and_batches_beyond_the_small_ones(loss):
    features, labels = data(loss, rows=3000, features=40)
    dense = build(loss, features, labels, intercept=True)
    csr = build(loss, sparse.csr_array(features), labels, intercept=True)
    x = np.random.default_rng(10).normal(size=dense.dim)
    rows = np.random.default_rng(12).permutation(3000)[:500]
    np.testing.assert_allclose(dense.gradient(x), csr.gradient(x), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(dense.hvp_at(x)(x), csr.hvp_at(x)(x), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(dense.hessian(x), csr.hessian(x), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(dense.sampled_gradient(x, rows), csr.sampled_gradient(x, rows), rtol=1e-11, atol=1e-12)


def test_points_that_are_not_finite_give_no_warning(problem):
    for x in (np.full(problem.dim, np.nan), np.full(problem.dim, 1e308), np.full(problem.dim, -np.inf)):
        problem.value(x)
        problem.figures(x)
        problem.penalty(x)
        problem.gradient(x)
        problem.sampled_gradient(x, np.array([1, 5]))
        problem.hvp_at(x)(x)
        problem.hessian(x)
        problem.value_along(x, x)(1.0)
    assert np.isnan(problem.value(np.full(problem.dim, np.nan)))
    assert np.isnan(problem.gradient(np.full(problem.dim, np.nan))).any()


def test_dense_problems_do_not_load_scipy():
    code = (
        "import sys, numpy as np\n"
        "from mpi_opt.problems.registry import make_problem\n"
        "for loss in ('logistic', 'softmax'):\n"
        "    p = make_problem(loss, np.eye(3), np.ones(3), classes=2, l2=0.1, scale=1.0, intercept=True)\n"
        "    p.hvp_at(p.gradient(np.zeros(p.dim)))(np.ones(p.dim))\n"
        "    p.hessian(np.zeros(p.dim)), p.figures(np.ones(p.dim)), p.sampled_gradient(np.ones(p.dim), np.array([1]))\n"
        "assert not any(m == 'scipy' or m.startswith('scipy.') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
