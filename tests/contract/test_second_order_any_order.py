"""MPI may add in another order for each message size: decisions must not hang on the last bit of a sum."""

import numpy as np
import pytest
from support import second_order as so

from mpi_opt.algorithms.giant import Giant
from mpi_opt.algorithms.newton import Newton
from mpi_opt.algorithms.parts.solver import Cholesky
from mpi_opt.network.lockstep import Lockstep

N = 5


class AnyOrder(Lockstep):
    """Lockstep whose sums are taken in an order that depends on the size of the message."""

    def __init__(self, seed):
        super().__init__([()] * N, None)
        self._seed, self._terms = seed, []

    def _fold(self, node, request):
        self._short = request.short
        self._terms.append(request.array.copy())

    def _fold_weighted(self, node, request):
        self._terms.append(np.append(request.vector * request.weight, request.weight))

    def _added(self):
        order = np.random.default_rng((self._terms[0].size, self._seed)).permutation(N)
        terms, self._terms = [self._terms[i] for i in order], []
        return np.array(sum(terms))

    def _give_sum(self):
        self._total = self._added()
        return super()._give_sum()

    def _divide(self):
        total = self._added()
        self._total, self._weight = total[:-1].copy(), total[-1]
        return super()._divide()


def compare(made, steps):
    """Return the largest distance of a model from lockstep's, relative to its size; rounds and end must be the same."""
    straight, _ = so.drive(made, Lockstep([()] * N, None), steps)
    distances = []
    for seed in range(2):
        other, _ = so.drive(made, AnyOrder(seed), steps)
        assert [step[1:3] for step in other] == [step[1:3] for step in straight]
        distances += [np.abs(a.w - b.w).max() / np.abs(b.w).max() for a, b in zip(other, straight, strict=True)]
    return max(distances)


@pytest.mark.parametrize("name", so.CASES)
def test_another_order_of_addition_changes_last_digits_only(name):
    assert compare(so.make(name, N), so.CASES[name].steps) < 1e-12


def test_the_order_does_change_digits():
    assert compare(so.make("giant", N), 10) > 0


@pytest.mark.parametrize("algorithm", [Newton(), Giant(solver=Cholesky())], ids=["newton", "giant"])
def test_another_order_for_softmax_with_intercepts(algorithm):
    """A common shift of the intercepts changes no loss, and so nothing should decide it, least of all rounding."""
    case = so.Case(algorithm, None, loss="softmax", intercept=True)
    problems = so.problems_of("softmax", so.parts_of(case, N), case.l2, intercept=True)
    made = so.made_of(algorithm, problems, so.start_of(case, N, problems[0].dim))
    assert compare(made, 6) < 1e-10
