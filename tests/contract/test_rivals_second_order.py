"""Newton-CG, L-BFGS and ADMM in lockstep, against their twins on the whole data."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from twins import rivals_second_order as twins

from mpi_opt.algorithms.admm import ADMM
from mpi_opt.algorithms.base import Node
from mpi_opt.algorithms.lbfgs import LBFGS
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton_cg import NewtonCG
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.preconditioner import Diagonal, Identity, Shared
from mpi_opt.algorithms.parts.proximal import Proximal
from mpi_opt.algorithms.parts.trust_region import Trial, TrustRegion
from mpi_opt.draws import Batches
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.linear import LinearProblem
from mpi_opt.problems.losses import Logistic
from mpi_opt.problems.softmax import SoftmaxProblem

L2 = 1e-2
CUTS = {1: [0, 90], 2: [0, 31, 90], 3: [0, 31, 31, 90], 5: [0, 9, 31, 31, 70, 90]}
"""By number of nodes; with 3 and 5 nodes, one has no rows."""
PRECONDITIONERS = {"identity": Identity(), "diagonal": Diagonal(), "shared": Shared()}
EXACT = Proximal(accuracy=1e-13, most=60)


def data(kind, stretch=1.0):
    generator = np.random.default_rng(5)
    A = generator.normal(size=(90, 6)) * np.geomspace(0.1, 3, 6) * stretch
    if kind == "softmax":
        return A, np.argmax(A @ generator.normal(size=(6, 3)) + generator.gumbel(size=(90, 3)), axis=1).astype(float)
    return A, np.where(A @ generator.normal(size=6) + generator.logistic(size=90) > 0, 1.0, -1.0)


def whole(kind, **changes):
    return twins.Objective(*data(kind, **changes), L2, 3 if kind == "softmax" else 0)


def pieces(F, n):
    return [dataclasses.replace(F, A=F.A[a:b], y=F.y[a:b]) for a, b in zip(CUTS[n][:-1], CUTS[n][1:], strict=True)]


def problem(part):
    scale = 1 / max(len(part.y), 1)
    if part.classes:
        return SoftmaxProblem(part.A, part.y, part.classes, l2=part.l2, scale=scale)
    return LinearProblem(part.A, part.y, Logistic(), l2=part.l2, scale=scale)


class Run:
    """A method on n nodes, with the models after each step; every node must hold the same one."""

    def __init__(self, algorithm, F, n, steps, x0=None, begin=None):
        problems = [problem(part) for part in pieces(F, n)]
        scratch = np.empty(F.dim), np.empty(F.dim)
        nodes = [Node(i, n, 0, {i: 1.0}, Batches(0, i, p.rows, None), scratch) for i, p in enumerate(problems)]
        network = Lockstep([()] * n, None)
        self.traffic, self.ended, self.models, self.states = network.traffic[0], "", [], []
        x0 = np.zeros(F.dim) if x0 is None else x0
        states = [begin(p) if begin else algorithm.init(p, x0) for p in problems]
        for _ in range(steps):
            results = network.advance([algorithm.step(*each) for each in zip(states, problems, nodes, strict=True)])
            states = [state for state, _ in results]
            models = [algorithm.model(state) for state in states]
            assert all(np.array_equal(model, models[0], equal_nan=True) for model in models)
            self.models.append(models[0].copy())
            self.states.append(states[0])
            self.ended = results[0][1].ended
            if self.ended:
                break


def optimum(F):
    found = minimize(F.f, np.zeros(F.dim), jac=F.g, hess=F.H, method="trust-exact", options={"gtol": 1e-11})
    return found.fun


@pytest.mark.parametrize("n", CUTS)
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize("precondition", ["identity", "diagonal", "shared"])
def test_newton_cg_twin(kind, n, precondition):
    F = whole(kind)
    algorithm = NewtonCG(forcing=0.01, preconditioner=PRECONDITIONERS[precondition])
    trials, _ = twins.trust_region(F, np.zeros(F.dim), steps=4, forcing=0.01, precondition=precondition)
    run = Run(algorithm, F, n, 4)
    assert run.traffic.rounds >= 3 * 4, "with one product an iteration, no direction is ever carried on"
    np.testing.assert_allclose(run.models, trials, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", CUTS)
def test_newton_cg_twin_where_steps_are_rejected(n):
    F, x0 = whole("logistic", stretch=4.0), np.array([0.0, 0.0, 1.0, -1.0, 3.0, 3.0])
    trials, rejected = twins.trust_region(F, x0, steps=12, forcing=0.1)
    assert rejected > 1
    run = Run(NewtonCG(forcing=0.1), F, n, 12, x0=x0)
    np.testing.assert_allclose(run.models, trials, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "length", "at_edge", "radius"),
    [
        (0.5, 1.0, False, 1 / 2.5),  # rejected: as wished
        (5.0, 1.0, False, 1 / 4),  # rejected: no less than a quarter of the length
        (np.nan, 1.0, False, 1 / 4),
        (-0.1, 1.0, False, 1 / 2),  # poor, 1 / 1.9 is wished: no more than half the radius
        (-0.1, 0.8, False, 0.8 / 1.9),  # poor: as wished
        (-0.1, 0.2, False, 1 / 4),  # poor: no less than a quarter of the radius
        (-0.5, 1.0, False, 1 / 1.5),  # fair: as wished
        (-0.8, 1.0, False, 1.0),  # good, 1 / 1.2 is wished: no less than the radius
        (-0.8, 1.0, True, 4.0),  # good, and cut short
        (-3.0, 1.0, False, 4.0),  # below the tangent
    ],
)
def test_radius_follows_the_rules_of_the_paper(change, length, at_edge, radius):
    """Radius 1, g.s = -2, promised decrease 1.

    The parabola through both losses with this slope is -2 a + (change + 2) a^2: its minimum, a = 1 / (change + 2), is
    the share of the length that is wished for.
    """
    trial = Trial(np.ones(1), slope=-2.0, predicted=1.0, length=length, at_edge=at_edge)
    assert TrustRegion().resize(1.0, trial, change) == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize("n", CUTS)
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_lbfgs_twin(kind, n):
    F = whole(kind)
    points = twins.lbfgs(F, np.zeros(F.dim), steps=20, memory=4)
    run = Run(LBFGS(memory=4), F, n, 20)
    np.testing.assert_allclose(run.models, points, rtol=1e-8, atol=1e-8)


def test_lbfgs_twin_where_full_steps_fail():
    F, x0 = whole("logistic", stretch=4.0), np.array([0.0, 0.0, 1.0, -1.0, 3.0, 3.0])
    points = twins.lbfgs(F, x0, steps=20, memory=4)
    run = Run(LBFGS(memory=4), F, 3, 20, x0=x0)
    assert run.traffic.short_rounds > 1
    np.testing.assert_allclose(run.models, points, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", CUTS)
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize("balance", [np.inf, 1.5])
def test_admm_twin(kind, n, balance):
    F = whole(kind)
    z, rho = twins.admm(pieces(F, n), np.zeros(F.dim), steps=20, pull=0.3, balance=balance)
    run = Run(ADMM(pull=0.3, balance=balance, proximal=EXACT), F, n, 20)
    np.testing.assert_allclose([state.rho for state in run.states], rho, rtol=1e-12)
    np.testing.assert_allclose(run.models, z, rtol=1e-8, atol=1e-9)
    if n > 1 and balance < np.inf:
        assert len(np.unique(rho)) > 1, "rho never changed"


@pytest.mark.parametrize("n", CUTS)
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize(
    "algorithm",
    [NewtonCG(), LBFGS(), ADMM(), LocalNewton(adaptive=True, finish=NewtonCG())],
    ids=lambda a: type(a).__name__,
)
def test_reaches_the_optimum(algorithm, kind, n):
    F = whole(kind)
    run = Run(algorithm, F, n, 150)
    assert F.f(run.models[-1]) - optimum(F) < 1e-10
    assert "converged" not in run.ended, "no gradient is ever 0 to the last bit here"


@pytest.mark.parametrize("algorithm", [NewtonCG, LBFGS, ADMM])
def test_converged_is_said_of_the_model_that_is_left(algorithm):
    F = whole("logistic")
    run = Run(algorithm(tolerance=Tolerance(1e-5)), F, 3, 200)
    assert run.ended.startswith("converged")
    assert np.linalg.norm(F.g(run.models[-1])) <= 1e-5


@pytest.mark.parametrize("algorithm", [NewtonCG(), LBFGS()], ids=lambda a: type(a).__name__)
def test_ends_at_rounding_with_the_best_model(algorithm):
    F = whole("logistic")
    run = Run(algorithm, F, 2, 200)
    assert run.ended.startswith("ended at gradient norm")
    assert np.linalg.norm(F.g(run.models[-1])) < 1e-9


@pytest.mark.parametrize("algorithm", [NewtonCG(), LBFGS()], ids=lambda a: type(a).__name__)
def test_a_start_that_is_not_finite_ends_the_run(algorithm):
    assert Run(algorithm, whole("logistic"), 2, 5, x0=np.full(6, np.nan)).ended


def test_admm_without_tolerance_goes_on_and_sends_no_gradient():
    F = whole("logistic")
    plain, checked = Run(ADMM(), F, 2, 40), Run(ADMM(tolerance=Tolerance(1e-30)), F, 2, 40)
    assert not plain.ended
    assert plain.traffic.rounds == checked.traffic.rounds == 40
    assert plain.traffic.short_rounds == checked.traffic.short_rounds == 1
    assert plain.traffic.payload_bytes == 8 * (2 + 40 * (F.dim + 3))
    assert checked.traffic.payload_bytes == 8 * (2 + 40 * (2 * F.dim + 3))
    np.testing.assert_array_equal(plain.models, checked.models)


@pytest.mark.parametrize("precondition", [True, False])
def test_newton_cg_sends_one_vector_a_product(precondition):
    F = whole("logistic")
    run = Run(NewtonCG(forcing=0.01, preconditioner=Diagonal() if precondition else Identity()), F, 2, 5)
    products = run.traffic.rounds - 5
    assert products >= 5
    assert run.traffic.short_rounds == 0
    assert run.traffic.payload_bytes == 8 * (5 * (F.dim * (1 + precondition) + 2) + products * F.dim)


def test_lbfgs_sends_one_gradient_an_evaluation():
    F = whole("logistic")
    run = Run(LBFGS(), F, 2, 8)
    assert run.traffic.rounds == 8
    assert run.traffic.payload_bytes == 8 * (8 * (F.dim + 2) + 26), "26: the candidates of the first step, and the rows"


@pytest.mark.parametrize("worse", [True, False])
def test_newton_cg_takes_over_and_goes_back_if_the_point_is_worse(worse):
    F = whole("logistic")
    near, far = np.zeros(F.dim), np.full(F.dim, 5.0)
    assert F.f(near) < F.f(far)
    w, good = (far, near) if worse else (near, far)
    algorithm = NewtonCG()
    run = Run(algorithm, F, 3, 3, begin=lambda p: algorithm.take_over(p, w, good, F.f(good)))
    from_near, _ = twins.trust_region(F, near, steps=3, forcing=0.3)
    if worse:
        np.testing.assert_array_equal(run.models[0], near)
        np.testing.assert_allclose(run.models[1:], from_near[:2], rtol=1e-8)
    else:
        np.testing.assert_allclose(run.models, from_near, rtol=1e-8)


def test_local_newton_hands_over_to_newton_cg():
    F = whole("logistic")
    algorithm = LocalNewton(adaptive=True, finish=NewtonCG())
    run = Run(algorithm, F, 2, 30)
    first = next(i for i, state in enumerate(run.states) if state.finish is not None)
    assert first < 3
    assert F.f(run.models[-1]) - optimum(F) < 1e-12


@pytest.mark.parametrize(("kind", "numbers"), [("logistic", 6), ("softmax", 21)])
def test_numbers_of_the_shared_preconditioner(kind, numbers):
    part, shared = problem(whole(kind)), Shared()
    assert shared.numbers(part) == shared.local(part, np.zeros(part.dim)).size == numbers
    assert Shared(largest=5).numbers(part) == part.dim
