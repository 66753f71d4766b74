"""Shards and numbers that second-order methods must survive: all nodes act alike, the last good model is kept."""

import numpy as np
import pytest
from support import second_order as so
from twins import second_order_shards, setting

from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.parts.convergence import Tolerance
from mpi_opt.algorithms.parts.solver import Cheaper, Cholesky, ConjugateGradients
from mpi_opt.network.lockstep import Lockstep

ENDS = {"tolerance": Tolerance(1e-6)}
SOLVERS = {"cholesky": Cholesky(), "cg": ConjugateGradients(), "cheaper": Cheaper()}
DIM = 6


def methods(solver):
    """Return every method, and the adaptive form with either finish."""
    local = {"solver": solver}
    return {
        "local": LocalNewton(local_steps=2, **local),
        "local, plain mean": LocalNewton(local_steps=2, by_support=False, **local),
        "adaptive": LocalNewton(adaptive=True, **local),
        "adaptive, newton": LocalNewton(adaptive=True, finish=Newton(**ENDS), **local),
        "adaptive, giant": LocalNewton(adaptive=True, finish=Giant(**ENDS, **local), **local),
        "giant": Giant(**ENDS, **local),
        "newton": Newton(**ENDS),
    }


def each_method(*solvers):
    chosen = solvers or tuple(SOLVERS)
    cases = [(s, m) for s in chosen for m in methods(SOLVERS[s]) if m != "newton" or s == chosen[0]]
    return pytest.mark.parametrize(("solver", "method"), cases, ids=[f"{m}-{s}" for s, m in cases])


def run(algorithm, problems, x0, steps=15):
    """Drive to the end and return the steps; nodes end alike (`drive` checks it) and have the same model."""
    seen, _ = so.drive(so.made_of(algorithm, problems, x0), Lockstep([()] * len(problems), None), steps)
    for step in seen:
        np.testing.assert_array_equal(step.w, np.tile(step.w[0], (len(problems), 1)))
    return seen


def gaussian(rows, seed=3):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, DIM))
    return A, np.where(A @ rng.normal(size=DIM) + rng.normal(size=rows) > 0, 1.0, -1.0)


@each_method()
def test_separable_data_without_penalty(solver, method):
    """There is no optimum: losses fall towards 0, points stay finite, and nothing claims what is not so.

    The plain form comes close as well, but with nobody to stop it the shards then run off, each its own way.
    """
    A, _ = gaussian(60)
    y = np.where(A[:, 0] + A[:, 1] > 0, 1.0, -1.0)
    parts = setting.contiguous(A, y, 3)
    seen = run(methods(SOLVERS[solver])[method], so.problems_of("logistic", parts, 0.0), np.zeros(DIM), 25)
    losses = [setting.objective("logistic", parts, 0.0)(step.w[0]) for step in seen]
    assert np.isfinite([step.w for step in seen]).all()
    assert (min(losses) if method.startswith("local") else losses[-1]) < 0.05
    if seen[-1].ended.startswith("converged"):
        g = setting.gradients("logistic", [(A, y)], 0.0)(0, seen[-1].w[0])
        assert np.linalg.norm(g) <= 1e-6


@each_method()
def test_features_absent_everywhere_and_fewer_rows_than_features(solver, method):
    """Without penalty the Hessians of such shards are singular; coordinates without feature keep the start's value."""
    A, y = gaussian(43)
    A[:, 4] = 0
    A[:20, 2] = 0
    parts = [(A[:20], y[:20]), (A[20:23], y[20:23]), (A[23:23], y[23:23]), (A[23:], y[23:])]
    x0 = np.full(DIM, 0.25)
    seen = run(methods(SOLVERS[solver])[method], so.problems_of("logistic", parts, 0.0), x0)
    w = np.array([step.w[0] for step in seen])
    assert np.isfinite(w).all()
    np.testing.assert_allclose(w[:, 4], 0.25, rtol=1e-9)
    F = setting.objective("logistic", parts, 0.0)
    assert F(w[-1]) <= F(x0) or "giant" not in method
    if "newton" in method:
        assert seen[-1].ended.startswith("converged")


@pytest.mark.parametrize("solver", SOLVERS)
def test_damping_serves_shards_with_fewer_rows_than_features(solver):
    """GIANT gives such a shard the GLOBAL gradient, which its singular Hessian cannot answer without damping."""
    A, y = gaussian(43)
    parts = [(A[:20], y[:20]), (A[20:23], y[20:23]), (A[23:], y[23:])]
    problems, F = so.problems_of("logistic", parts, 0.0), setting.objective("logistic", parts, 0.0)
    lowest = F(run(Newton(**ENDS), problems, np.zeros(DIM))[-1].w[0])
    seen = run(Giant(solver=SOLVERS[solver], damping=0.01, **ENDS), problems, np.zeros(DIM), 40)
    assert F(seen[-1].w[0]) - lowest < 1e-3 * (F(np.zeros(DIM)) - lowest)


@each_method()
def test_softmax_without_penalty(solver, method):
    """The Hessian is singular along a common shift of the classes; the last class has no row on the first shard."""
    rng = np.random.default_rng(8)
    A = rng.normal(size=(90, 3))
    y = (A @ rng.normal(size=(3, so.CLASSES)) + rng.gumbel(size=(90, so.CLASSES))).argmax(axis=1).astype(float)
    y[:30] = np.minimum(y[:30], so.CLASSES - 2)
    parts = setting.contiguous(A, y, 3)
    problems = so.problems_of("softmax", parts, 0.0, intercept=True)
    x0 = np.zeros(problems[0].dim)
    seen = run(methods(SOLVERS[solver])[method], problems, x0, 40)
    w = np.array([step.w[0] for step in seen])
    assert np.isfinite(w).all()
    shift = np.abs(w.reshape(len(w), -1, so.CLASSES).sum(axis=2)).max()
    assert shift < 0.1 or solver == "cg", (
        "drifts along the singular direction"
    )  # CG's metric has another such direction
    if method in ("newton", "adaptive, newton"):
        assert seen[-1].ended.startswith("converged")
        shard = second_order_shards.Shard("softmax", A, y, 0.0, True, so.CLASSES)
        assert np.linalg.norm(shard.g(w[-1])) < 1e-5


class Spoilt:
    """A problem whose curvature is not a number from the ``first`` look on; all else is the problem's own."""

    def __init__(self, problem, first=0):
        self._problem, self._left = problem, first

    def __getattr__(self, name):
        return getattr(self._problem, name)

    def _spoils(self):
        self._left -= 1
        return self._left < 0

    def hessian(self, x):
        h = self._problem.hessian(x)
        if self._spoils():
            h[0, 1] = h[1, 0] = np.nan
        return h

    def hvp_at(self, x):
        product = self._problem.hvp_at(x)
        return (lambda v: product(v) * np.nan) if self._spoils() else product


@pytest.mark.parametrize("first", [0, 2])
@each_method("cholesky", "cg")
def test_curvature_that_is_no_number_on_one_node(solver, method, first):
    """All nodes act alike and go on or end; the model stays finite, and no worse than where it was found."""
    parts = setting.contiguous(*gaussian(80), 4)
    problems = so.problems_of("logistic", parts, 0.01)
    problems[2] = Spoilt(problems[2], first)
    x0 = np.zeros(DIM)
    seen = run(methods(SOLVERS[solver])[method], problems, x0, 20)
    w = np.array([step.w[0] for step in seen])
    assert np.isfinite(w).all()
    F = setting.objective("logistic", parts, 0.01)
    assert F(w[-1]) <= F(x0) + 1e-12
    if method in ("newton", "giant") and solver == "cholesky":
        assert seen[-1].ended.startswith("ended"), "nothing was found, so it says so"


@pytest.mark.parametrize("method", ["newton", "giant"])
def test_gradient_that_is_no_number(method):
    """Ends at once, everywhere, and keeps the point."""
    parts = setting.contiguous(*gaussian(80), 4)
    problems = so.problems_of("logistic", parts, 0.01)

    class NoGradient(Spoilt):
        def gradient(self, x, out=None):
            return self._problem.gradient(x) * np.nan

    problems[1] = NoGradient(problems[1], 10**9)
    seen = run(methods(Cholesky())[method], problems, np.full(DIM, 0.5))
    assert len(seen) == 1
    assert seen[0].ended.startswith("ended")
    np.testing.assert_array_equal(seen[0].w[0], 0.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_take_over_at_a_point_that_is_no_number_goes_back(bad):
    """An average that overflowed must not outlive the take-over."""
    parts = setting.contiguous(*gaussian(80), 4)
    problems, F = so.problems_of("logistic", parts, 0.01), setting.objective("logistic", parts, 0.01)
    good = np.full(DIM, 0.1)

    class TakenOver(Newton):
        def init(self, problem, x0):
            return self.take_over(problem, np.full(DIM, bad), x0, F(x0))

    seen = run(TakenOver(**ENDS), problems, good)
    assert seen[-1].ended.startswith("converged")
    np.testing.assert_allclose(seen[-1].w[0], run(Newton(**ENDS), problems, good)[-1].w[0], rtol=1e-6)


def test_adaptive_form_alone_ends_on_its_best_point():
    """At the averaging floor it keeps the last good model, and says where it is."""
    parts = so.parts_of(so.CASES["adaptive"], 5)
    F = setting.objective("logistic", parts, 0.01)
    problems = so.problems_of("logistic", parts, 0.01)
    seen = run(LocalNewton(adaptive=True, solver=Cholesky()), problems, np.zeros(so.FEATURES), 30)
    losses = [F(step.w[0]) for step in seen]
    assert seen[-1].ended.startswith("stalled at the averaging floor")
    assert losses[-1] <= min(losses) + 1e-9


@pytest.mark.parametrize("by_support", [False, True])
def test_giant_removes_a_penalised_feature_that_no_shard_has(by_support):
    """Its coordinate only has the penalty, which one Newton step removes."""
    A, y = gaussian(60)
    A[:, 4] = 0
    problems = so.problems_of("logistic", [(A, y)], 0.01)
    seen = run(Giant(solver=Cholesky(), by_support=by_support, **ENDS), problems, np.full(DIM, 0.5), 15)
    assert seen[-1].ended.startswith("converged")


def test_one_class_counts_rows_not_shards():
    """Three small shards of one class do not outweigh a large mixed one, though they are more."""
    A, y = gaussian(100)
    y[:9] = 1.0
    parts = [(A[0:3], y[0:3]), (A[3:6], y[3:6]), (A[6:9], y[6:9]), (A[9:], y[9:])]
    algorithm = LocalNewton(adaptive=True, finish=Newton(**ENDS), solver=Cholesky())
    for shards, local in ((parts, True), ([(A[y > 0], y[y > 0]), (A[y < 0], y[y < 0])], False)):
        problems = so.problems_of("logistic", shards, 0.01)
        made = so.made_of(algorithm, problems, np.zeros(DIM))
        network = Lockstep([()] * len(shards), None)
        seen, _ = so.drive(made, network, 1)
        exact, _ = so.drive(so.made_of(Newton(**ENDS), problems, np.zeros(DIM)), Lockstep([()] * len(shards), None), 1)
        assert seen[0].short == 1
        assert local == bool(np.abs(seen[0].w - exact[0].w).max() > 1e-6)
