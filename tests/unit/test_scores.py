"""Figures of predictions against scikit-learn and exact fractions, on any number of processes."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from sklearn import metrics
from support.threads import on_threads

from mpi_opt.metrics import scores
from mpi_opt.network.collectives import Solo

SIZES = (1, 2, 3, 5, 8)


def everywhere(task, rows, size):
    """Run ``task(collectives, part)`` with consecutive parts of ``rows`` rows; the one answer all processes give."""
    cuts = rows * np.arange(size + 1) // size
    answers = on_threads(size, lambda together: task(together, slice(cuts[together.rank], cuts[together.rank + 1])))
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    assert all(repr(answer) == repr(answers[0]) for answer in answers)
    return answers[0]


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -0.0, 0.0, 1e-300, 0.5, 3.0, 1e300]), st.booleans()), max_size=40),
    st.sampled_from(SIZES),
)
@limits(max_examples=60)
def test_area_counts_pairs(rows, size):
    values, positive = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=bool)
    found = everywhere(lambda c, part: scores.roc_auc(values[part], positive[part], c), len(rows), size)
    highs, lows = values[positive].tolist(), values[~positive].tolist()
    if not highs or not lows:
        assert np.isnan(found)
        return
    pairs = sum(Fraction(1) if a > b else Fraction(1, 2) if a == b else Fraction(0) for a in highs for b in lows)
    assert found == float(pairs / (len(highs) * len(lows)))


@pytest.mark.parametrize("spread", [3, 10**9])
def test_area_is_the_same_on_any_number_of_processes(spread):
    rng = np.random.default_rng(0)
    values = rng.integers(0, spread, 5000) / 7.0
    positive = rng.random(5000) < 0.2 + 0.5 * (values > np.median(values))
    positive[:1000] = True  # some processes have one class only
    answers = {everywhere(lambda c, part: scores.roc_auc(values[part], positive[part], c), 5000, n) for n in SIZES}
    assert len(answers) == 1
    assert answers.pop() == pytest.approx(metrics.roc_auc_score(positive, values), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40), st.sampled_from(SIZES))
@limits(max_examples=30)
def test_counts_are_those_of_scikit_learn(rows, size):
    truth, decided = np.array(rows, dtype=np.int64).T
    found = everywhere(lambda c, part: scores.count_classes(truth[part], decided[part], 4, c), len(rows), size)
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(truth, decided, labels=range(4)))
    np.testing.assert_array_equal(found.rows, np.bincount(truth, minlength=4))
    np.testing.assert_array_equal(found.predicted, np.bincount(decided, minlength=4))
    np.testing.assert_array_equal(found.right, np.diag(found.confusion))
    assert found.accuracy == metrics.accuracy_score(truth, decided)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of classes that are only predicted, or alone
        assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(truth, decided), abs=1e-15)
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth, decided, average="macro"), abs=1e-15)
    options = {"labels": range(4), "average": None, "zero_division": np.nan}
    for ours, theirs in (
        (found.recall, metrics.recall_score(truth, decided, **options)),
        (found.precision, metrics.precision_score(truth, decided, **options)),
        (found.f1, metrics.f1_score(truth, decided, **options)),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15)


def test_many_classes_are_counted_without_their_pairs():
    truth = np.arange(scores.MOST_CONFUSED + 1)
    found = scores.count_classes(truth, truth, truth.size, Solo())
    assert found.confusion is None
    assert (found.accuracy, found.macro_f1) == (1.0, 1.0)


@pytest.mark.parametrize("size", SIZES)
def test_errors_are_those_of_scikit_learn(size):
    rng = np.random.default_rng(3)
    truth = 1e3 + rng.normal(size=501)
    decided = truth + rng.normal(size=501)
    found = everywhere(lambda c, part: scores.count_errors(truth[part], decided[part], c), 501, size)
    wanted = (
        metrics.mean_squared_error(truth, decided),
        metrics.root_mean_squared_error(truth, decided),
        metrics.mean_absolute_error(truth, decided),
        metrics.r2_score(truth, decided),
    )
    np.testing.assert_allclose((found.mse, found.rmse, found.mae, found.r2), wanted, rtol=1e-12)


def test_share_explained_of_equal_values_is_undefined():
    found = everywhere(lambda c, part: scores.count_errors(np.full(4, 0.1)[part], np.ones(4)[part], c), 4, 5)
    assert np.isnan(found.r2)
    assert found.mae == pytest.approx(0.9)


def test_mean_over_processes():
    values = np.random.default_rng(1).normal(size=11)
    assert everywhere(lambda c, part: scores.mean(values[part], c), 11, 3) == pytest.approx(values.mean(), abs=1e-15)
    assert np.isnan(scores.mean(values[:0], Solo()))
