"""The counting proxies: the problem's own bits, and seconds that follow from the operations alone."""

import inspect

import numpy as np
import pytest
from scipy import sparse

from mpi_opt.algorithms.parts.solver import Cholesky, ConjugateGradients
from mpi_opt.compression.registry import make_compressor
from mpi_opt.draws import Key, Purpose
from mpi_opt.problems.base import SecondOrder
from mpi_opt.problems.registry import make_problem
from mpi_opt.run.counting import CountedCompressor, counted
from mpi_opt.run.timing import Phases
from mpi_opt.scaling.cost import Machine

MACHINE = Machine(dense_flops=1e6, sparse_flops=1e3, call=1.0)
ROWS, FEATURES = 40, 6
SHAPE = {"l2": 0.1, "scale": 0.5, "intercept": False}


@pytest.fixture(params=["dense", "sparse", "softmax"])
def made(request):
    """A problem, the same counted, the phases, and what the formulas are made of: entries x columns, rate, columns."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, FEATURES))
    rate, columns = MACHINE.dense_flops, 1
    if request.param == "sparse":
        features = sparse.csr_array(np.where(rng.random((ROWS, FEATURES)) < 0.5, features, 0.0))
        rate = MACHINE.sparse_flops
    entries = features.nnz if request.param == "sparse" else features.size
    if request.param == "softmax":
        columns = 3
        problem = make_problem("softmax", features, rng.integers(0, 3, ROWS).astype(float), classes=3, **SHAPE)
    else:
        problem = make_problem("logistic", features, np.sign(rng.normal(size=ROWS)), classes=2, **SHAPE)
    phases = Phases()
    return problem, counted(problem, phases, MACHINE), phases, entries, rate, columns


def spent(phases, call):
    before = phases.compute
    result = call()
    return result, phases.compute - before


def test_every_call_costs_its_operations_and_returns_the_problems_bits(made) -> None:
    problem, seen, phases, entries, rate, columns = made
    d, rng = problem.dim, np.random.default_rng(1)
    x, p = rng.normal(size=d), rng.normal(size=d)
    margin, product = 1 + 2 * entries * columns / rate, 1 + 4 * entries * columns / rate
    trial = 1 + 10 * ROWS * columns / MACHINE.sparse_flops
    gram = ROWS * FEATURES**2 if rate == MACHINE.dense_flops else 2 * entries**2 / ROWS
    hessian = columns * (columns + 1) / 2 * (1 + gram / rate)
    factor = 1 + (d**3 / 3 + 2 * d**2) / MACHINE.dense_flops
    batch = np.arange(10)
    calls = [
        (lambda f: f.value(x), margin),
        (lambda f: f.gradient(x), product),
        (lambda f: f.gradient(x, np.empty(d)), product),
        (lambda f: f.sampled_gradient(x, None), product),
        (lambda f: f.sampled_gradient(x, batch, np.empty(d)), 1 + product / 4 - 1 / 4),
        (lambda f: f.hessian(x), hessian + factor),
        (lambda f: f.hessian_diagonal(x), product),
        (lambda f: f.hvp_at(x)(p), margin + product),
        (lambda f: f.value_along(x, p)(0.5), 2 * margin + trial),
    ]
    for call, seconds in calls:
        result, cost = spent(phases, lambda call=call: call(seen))
        assert np.array_equal(result, call(problem))
        assert cost == pytest.approx(seconds, rel=1e-12)
    along = seen.value_along(x, p)
    assert spent(phases, lambda: [along(0.1), along(0.2)])[1] == pytest.approx(2 * trial)
    if columns > 1:  # every second row: half of the entries, one block of d / C
        block, side = 1 + ROWS / 2 * FEATURES**2 / rate, d // columns
        seconds = 1 + entries * columns / rate + block + 1 + (side**3 / 3 + 2 * side**2) / MACHINE.dense_flops
        result, cost = spent(phases, lambda: seen.shared_curvature(x, ROWS // 2))
        assert np.array_equal(result, problem.shared_curvature(x, ROWS // 2))
        assert cost == pytest.approx(seconds, rel=1e-12)
    assert phases.compress == 0.0


def test_what_evaluation_asks_for_costs_nothing(made) -> None:
    problem, seen, phases, *_ = made
    x = np.ones(problem.dim)
    assert seen.figures(x) == problem.figures(x)
    assert seen.penalty(x) == problem.penalty(x)
    assert (seen.dim, seen.rows, seen.l2, seen.columns) == (problem.dim, problem.rows, problem.l2, problem.columns)
    assert np.array_equal(seen.support(), problem.support())
    assert phases.compute == 0.0


def test_no_call_of_the_contract_is_forgotten(made) -> None:
    """A method that the contract gains is to be counted, or named here as one that passes over no rows."""
    _, seen, *_ = made
    free = {"figures", "penalty", "support", "center"}
    methods = {name for name, _ in inspect.getmembers(SecondOrder, inspect.isfunction) if not name.startswith("_")}
    own = {name for name in methods if name in vars(seen) or name in vars(type(seen))}
    assert methods - own == free


def test_a_direction_costs_a_factor_or_its_products(made) -> None:
    problem, seen, phases, entries, rate, columns = made
    x = np.zeros(problem.dim)
    g = problem.gradient(x)
    _, cholesky = spent(phases, lambda: Cholesky().direction(seen, x, g, 0.0))
    assert cholesky == pytest.approx(spent(phases, lambda: seen.hessian(x))[1])
    _, gradients = spent(phases, lambda: ConjugateGradients(most=3, tolerance=0.0).direction(seen, x, g, 0.0))
    margin, product = 1 + 2 * entries * columns / rate, 1 + 4 * entries * columns / rate
    assert gradients == pytest.approx(margin + product + 3 * product)  # curvature, the diagonal, three products


def test_a_shard_without_rows_costs_its_calls() -> None:
    phases = Phases()
    seen = counted(make_problem("logistic", np.zeros((0, 4)), np.zeros(0), classes=2, **SHAPE), phases, MACHINE)
    seen.gradient(np.zeros(4))
    seen.sampled_gradient(np.zeros(4), np.zeros(0, dtype=np.int64))
    seen.value(np.zeros(4))
    assert phases.compute == 3.0


def test_a_problem_that_is_no_linear_model_costs_its_weights_in_every_row() -> None:
    class Network:
        dim, rows = 30, 8

        def gradient(self, x, out=None):
            return x

    phases = Phases()
    counted(Network(), phases, MACHINE).gradient(np.zeros(30))
    assert phases.compute == pytest.approx(1 + 4 * 8 * 30 / MACHINE.dense_flops)


def test_compression_is_charged_to_the_node_of_the_key() -> None:
    phases = {3: Phases(), 8: Phases()}
    inner = make_compressor("sign-top-k", {"k": 5})
    seen = CountedCompressor(inner, phases, MACHINE)
    v, key = np.random.default_rng(0).normal(size=50), Key(0, 8, Purpose.COMPRESSION, 2)
    assert np.array_equal(seen.compress(v, key).dense(), inner.compress(v, key).dense())
    assert (phases[3].compress, phases[8].compress) == (0.0, pytest.approx(1 + 2 * 50 / 1e3))
    assert seen.omega(50) == inner.omega(50)
    assert seen.codec(50, 0).max_bytes == inner.codec(50, 0).max_bytes
