"""Trigger and weighted mean at the ends of the range of floats: inf or right numbers, never an exception."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mpi_opt.algorithms.parts.trigger import Trigger, TriggerMemory
from mpi_opt.algorithms.parts.weighted_mean import WeightedMean
from mpi_opt.schedules import Constant, FiringRate


@pytest.mark.parametrize("rate", [FiringRate(0.5, 1e5, 1e-320), FiringRate(0.5, 1e308), FiringRate(0.5, 1e308, 1e308)])
def test_a_controller_that_overshoots_is_silent_at_inf(rate):
    trigger, memory, bounds, fired = Trigger(rate), TriggerMemory(), [], []
    for t in range(50):
        fires, bound, memory = trigger.decide(1.0, t, 0.1, memory)
        bounds.append(bound)
        fired.append(fires)
    assert any(math.isinf(bound) for bound in bounds)
    assert not any(math.isnan(bound) for bound in bounds)
    assert [bound < 1.0 for bound in bounds] == fired


@pytest.mark.parametrize(("level", "bound"), [(0.0, 0.0), (1.0, math.inf), (1e-300, 1e100)])
def test_huge_step_sizes_make_the_bound_inf_where_it_is_too_large(level, bound):
    found = Trigger(Constant(level)).decide(1.0, 0, 1e200, TriggerMemory())
    assert found[0] == (bound < 1.0)
    assert found[1] == pytest.approx(bound)


@pytest.mark.parametrize("a", [0.0, 1e-320, 1e-200, 0.5, 3.0, 1e99, 1e101, 1e200, 1.7e308])
def test_weighted_mean_is_that_of_exact_weights(a):
    points = np.random.default_rng(0).standard_normal((6, 3))
    running, spare = WeightedMean(a, np.zeros(3)), np.empty(3)
    for t, x in enumerate(points):
        running.add(x, t, spare)
    weights = [(Fraction(a) + t) ** 2 for t in range(6)]
    shares = np.array([float(weight / sum(weights)) for weight in weights])
    assert running.mean == pytest.approx(shares @ points, rel=1e-12)


def test_one_iterate_of_no_weight_is_its_own_mean():
    running = WeightedMean(0.0, np.zeros(2))
    running.add(np.array([1.0, 2.0]), 0, np.empty(2))
    assert running.mean.tolist() == [1.0, 2.0]
