"""Stop rules: each by itself, at its bound and just before it; and what all ranks make of their control flags."""

import numpy as np
import pytest

from mpi_opt.run.stop import Control, StopRules, Watch


@pytest.mark.parametrize(
    ("rule", "before", "at", "reason"),
    [
        ({"steps": 7}, (6, 99, 99.0), (7, 0, 0.0), "7 steps"),
        ({"rounds": 3}, (99, 2, 99.0), (0, 3, 0.0), "3 rounds"),
        ({"epochs": 1.5}, (99, 99, 1.49), (0, 0, 1.5), "1.5 epochs"),
    ],
)
def test_planned_rules(rule, before, at, reason):
    rules = StopRules(**rule)
    assert rules.planned(*before) is None
    assert rules.planned(*at) == reason
    assert rules.planned(*(2 * value for value in at)) is not None, "a bound that was jumped over counts too"


def test_no_rule_never_ends():
    rules = StopRules()
    assert rules.planned(10**9, 10**9, 1e9) is None
    assert Watch(rules).evaluated(0.0, 0.0) is None
    assert Control(rules, 4).read(np.array([1e9, 1e9, -np.inf])) is None


def test_gradient_norm():
    watch = Watch(StopRules(gradient_norm=1e-3))
    assert watch.evaluated(1.0, 1.001e-3) is None
    assert watch.evaluated(1.0, 1e-3) == "converged: gradient norm 0.001 <= 0.001"


def test_objective():
    watch = Watch(StopRules(objective=0.25))
    assert watch.evaluated(0.2500001, 1.0) is None
    assert watch.evaluated(0.25, 1.0) == "objective 0.25 <= 0.25"


def test_patience_counts_evaluations_without_a_new_least():
    watch = Watch(StopRules(patience=3))
    course = [5.0, 4.0, 4.0, 4.5, 3.9, 3.9, 4.1]
    assert [watch.evaluated(value, 1.0) for value in course] == [None] * len(course)
    assert watch.evaluated(3.9, 1.0) == "no better objective in 3 evaluations"


def test_patience_is_not_misled_by_nan():
    watch = Watch(StopRules(patience=2))
    assert watch.evaluated(1.0, 1.0) is None
    assert watch.evaluated(np.nan, 1.0) is None
    assert watch.evaluated(np.nan, 1.0) == "no better objective in 2 evaluations"
    assert watch.least == 1.0


def test_seconds_of_the_slowest_and_megabytes_of_the_busiest():
    control = Control(StopRules(seconds=2.0, megabytes=0.5), 3)
    np.testing.assert_array_equal(control.report(1.25, 0.125)[:2], [1.25, 0.125])
    assert control.read(np.array([1.99, 0.499, -np.inf])) is None
    late = control.read(np.array([2.0, 0.0, -np.inf]))
    assert (late.reason, late.diverged) == ("2.0 seconds", False)
    much = control.read(np.array([0.0, 0.5, -np.inf]))
    assert (much.reason, much.diverged) == ("0.500 megabytes by the busiest node", False)


def agreed(found, nodes=5, rules=None):
    """Each process reports what it found, [(node, step), ...]; the largest flags win; all read the same."""
    parts = []
    for mine in found:
        part = Control(rules or StopRules(), nodes)
        for node, step in mine:
            part.diverged(node, step)
        parts.append(part)
    flags = np.max([part.report(0.0, 0.0) for part in parts], axis=0)
    verdicts = {part.read(flags) for part in parts}
    assert len(verdicts) == 1
    return verdicts.pop()


@pytest.mark.parametrize(
    ("found", "node", "step"),
    [
        ([[(0, 9)], [], []], 0, 9),
        ([[], [], [(4, 1)]], 4, 1),
        ([[(0, 9)], [(3, 6)], [(4, 7)]], 3, 6),
        ([[(0, 6), (2, 6)], [(1, 6)]], 0, 6),
        ([[], [(3, 6)], [(2, 6)]], 2, 6),
        ([[(1, 12), (1, 15)], [(4, 13)]], 1, 12),
        ([[(0, 0)], [(4, 3)]], 0, 0),
        ([[(4, 2_000_000_000)], []], 4, 2_000_000_000),
    ],
)
def test_the_earliest_divergence_is_named_and_on_its_step_the_lowest_node(found, node, step):
    verdict = agreed(found)
    assert verdict.diverged
    assert verdict.reason.startswith(f"node {node} is not finite at step {step}: lower algorithm.step_size")


def test_nobody_diverged():
    assert agreed([[], [], []]) is None


def test_divergence_goes_before_every_other_reason():
    rules = StopRules(seconds=1.0, megabytes=1.0)
    control = Control(rules, 2)
    control.diverged(1, 4)
    assert control.read(control.report(5.0, 5.0).copy()).diverged
