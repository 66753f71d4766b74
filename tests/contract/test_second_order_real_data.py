"""What others measured, and what the project claims, on real sets: l2 = 1/N, no intercept, gaps to the true optimum."""

import bz2
import functools
import lzma
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from support import second_order as so
from twins import setting

from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.parts.solver import Cholesky
from mpi_opt.network.lockstep import Lockstep

FILES = {"a9a": "a9a/a9a.bz2", "w8a": "w8a/w8a.bz2", "ijcnn1": "ijcnn1/ijcnn1.xz"}
PUBLISHED = {"a9a": 0.323379582465, "w8a": 0.126180686511}
SHUFFLE = 0
TARGET = 1e-6


class Whole(NamedTuple):
    """A data set and its objective."""

    A: sparse.csr_array
    y: np.ndarray

    def loss(self, w):
        return np.logaddexp(0, -self.y * (self.A @ w)).mean() + w @ w / (2 * len(self.y))


@functools.cache
def load(folder, name):
    path = folder / FILES[name]
    with (bz2.open if path.suffix == ".bz2" else lzma.open)(path) as file:
        A, y = load_svmlight_file(file)
    return Whole(sparse.csr_array(A), np.where(y > 0, 1.0, -1.0))


@functools.cache
def optimum(folder, name):
    """Return min F, by Newton's method on the dense Hessian; the remaining gap is at most |g|^2 N / 2."""
    whole = load(folder, name)
    A, y = whole.A, whole.y
    N, w = len(y), np.zeros(A.shape[1])
    for _ in range(30):
        odds = np.exp(A @ w)
        sigma = odds / (1 + odds)
        g = A.T @ (sigma - (y > 0)) / N + w / N
        if g @ g * N / 2 < 1e-14:
            return whole.loss(w)
        H = (A.T @ (sparse.diags_array(sigma * (1 - sigma) / N) @ A)).toarray() + np.eye(w.size) / N
        w = w - np.linalg.solve(H, g)
    raise AssertionError("no optimum found")


def gaps(folder, name, K, algorithm, *, by_label=False, rounds=12, until=0.0):
    """Return (rounds so far, F - min F) after each step on K shards, until that is small or rounds are over."""
    whole, lowest = load(folder, name), optimum(folder, name)
    N = len(whole.y)
    order = np.argsort(whole.y, kind="stable") if by_label else np.random.default_rng(SHUFFLE).permutation(N)
    parts = setting.contiguous(whole.A[order], whole.y[order], K)
    made = so.made_of(algorithm, so.problems_of("logistic", parts, 1 / N), np.zeros(whole.A.shape[1]))
    states, network, seen = [algorithm.init(p, made.x0) for p in made.problems], Lockstep([()] * K, None), []
    while not seen or (seen[-1][0] < rounds and seen[-1][1] > until):
        each = zip(states, made.problems, made.nodes, strict=True)
        results = network.advance([algorithm.step(*item) for item in each])
        states = [state for state, _ in results]
        seen.append((network.traffic[0].rounds, whole.loss(algorithm.model(states[0])) - lowest))
    return seen


def rounds_to(target, seen):
    return next((rounds for rounds, gap in seen if gap <= target), None)


@pytest.mark.parametrize("name", PUBLISHED)
def test_optimum_is_the_published_one(name, datasets):
    assert abs(optimum(datasets, name) - PUBLISHED[name]) < 1e-12


FLOORS = [(4, 1, 5.3e-5), (4, 3, 1.2e-4), (16, 1, 3e-4), (16, 3, 1.3e-3), (100, 1, 1.5e-3), (100, 3, 2.9e-2)]


@pytest.mark.slow
@pytest.mark.parametrize(("K", "L", "floor"), FLOORS)
def test_floor_of_the_plain_method(K, L, floor, datasets):
    """The paper's ball: where plain averaging of undamped local solves ends on shuffled a9a."""
    algorithm = LocalNewton(local_steps=L, solver=Cholesky(), by_support=False)
    seen = [gap for _, gap in gaps(datasets, "a9a", K, algorithm, rounds=8 if L == 1 else 5)]
    assert floor / 1.6 < seen[-1] < floor * 1.6  # seeds of the shuffle differ by a factor of up to 1.4
    assert abs(seen[-1] - seen[-2]) < 0.15 * seen[-1], "not settled yet"
    first_is_best = int(np.argmin(seen)) == 0
    assert first_is_best == ((K, L) == (100, 3)), "only many small shards and long rounds make later rounds worse"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "by_label", "most"),
    [
        ("a9a", False, 4),
        ("ijcnn1", False, 4),
        ("w8a", False, 8),
        ("a9a", True, 7),
        ("ijcnn1", True, 6),
        ("w8a", True, 9),
    ],
)
@pytest.mark.parametrize("K", [16, 100])
def test_rounds_of_the_adaptive_form_with_newtons_finish(name, by_label, most, K, datasets):
    algorithm = LocalNewton(adaptive=True, finish=Newton())
    ours = rounds_to(TARGET, gaps(datasets, name, K, algorithm, by_label=by_label, until=TARGET))
    exact = rounds_to(TARGET, gaps(datasets, name, K, Newton(), by_label=by_label, until=TARGET))
    assert ours is not None
    assert ours <= min(most, exact), f"{ours} rounds; exact Newton: {exact}"


@pytest.mark.slow
def test_rounds_of_giant_on_shuffled_a9a(datasets):
    """Others measured 42 rounds to 1e-6 with 100 shards; GIANT as a finish of LocalNewton needs fewer to 1e-3."""
    assert 30 <= rounds_to(TARGET, gaps(datasets, "a9a", 100, Giant(solver=Cholesky()), rounds=60, until=TARGET)) <= 50


@pytest.mark.slow
@pytest.mark.parametrize("K", [16, 100])
@pytest.mark.parametrize("name", ["a9a", "ijcnn1"])
def test_giant_as_a_finish_saves_rounds(name, K, datasets):
    """Started by LocalNewton, GIANT comes to 1e-3 in at most 60 % of the rounds it needs by itself."""
    alone = rounds_to(1e-3, gaps(datasets, name, K, Giant(solver=Cholesky()), rounds=40, until=1e-3))
    algorithm = LocalNewton(adaptive=True, finish=Giant(solver=Cholesky()), solver=Cholesky())
    assert rounds_to(1e-3, gaps(datasets, name, K, algorithm, rounds=40, until=1e-3)) <= 0.6 * alone
