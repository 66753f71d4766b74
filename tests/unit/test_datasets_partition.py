"""Laws of the partitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.datasets.partition import by_label, contiguous, dirichlet, equal_cuts, hold_out, shuffled
from mpi_opt.draws import Key, Purpose

rows_and_nodes = (st.integers(0, 200), st.integers(1, 40))
labels_drawn = st.lists(st.sampled_from([-1.0, 0.0, 2.5, 7.0]), max_size=150).map(
    lambda drawn: np.array(drawn, dtype=float)
)


def is_partition(split, rows, nodes):
    return (
        split.order.dtype == np.int64
        and split.offsets.dtype == np.int64
        and sorted(split.order.tolist()) == list(range(rows))
        and split.offsets.shape == (nodes + 1,)
        and split.offsets[0] == 0
        and split.offsets[-1] == rows
        and bool((np.diff(split.offsets) >= 0).all())
    )


@given(*rows_and_nodes)
def test_contiguous_is_the_formula(rows, nodes):
    split = contiguous(rows, nodes)
    assert is_partition(split, rows, nodes)
    for i in range(nodes):
        shard = split.order[split.offsets[i] : split.offsets[i + 1]].tolist()
        assert shard == list(range(rows * i // nodes, rows * (i + 1) // nodes))


def test_cuts_of_large_sets_do_not_overflow():
    assert equal_cuts(10**9, 10**4)[-1] == 10**9


@given(*rows_and_nodes, st.integers(0, 9))
def test_shuffle_depends_on_the_seed_alone(rows, nodes, seed):
    split = shuffled(rows, nodes, seed)
    assert is_partition(split, rows, nodes)
    assert split.order.tolist() == shuffled(rows, 1, seed).order.tolist()
    assert split.offsets.tolist() == equal_cuts(rows, nodes).tolist()


def test_shuffles_of_two_seeds_differ_and_mix():
    a, b = shuffled(1000, 4, 0).order, shuffled(1000, 4, 1).order
    assert (a == b).mean() < 0.05
    assert (a == np.arange(1000)).mean() < 0.05


@given(labels_drawn, st.integers(1, 30))
def test_by_label_is_a_stable_sort(labels, nodes):
    split = by_label(labels, nodes)
    assert is_partition(split, labels.size, nodes)
    expected = sorted(range(labels.size), key=lambda j: (labels[j], j))
    assert split.order.tolist() == expected
    assert split.offsets.tolist() == equal_cuts(labels.size, nodes).tolist()


@given(labels_drawn, st.integers(1, 30), st.integers(0, 3), st.sampled_from([1e-3, 0.1, 1.0, 1e6]))
def test_dirichlet_is_a_partition(labels, nodes, seed, alpha):
    split = dirichlet(labels, nodes, seed, alpha)
    assert is_partition(split, labels.size, nodes)
    assert split.order.tolist() == dirichlet(labels, nodes, seed, alpha).order.tolist()
    for i in range(nodes):
        assert bool((np.diff(split.order[split.offsets[i] : split.offsets[i + 1]]) > 0).all())


def test_dirichlet_counts_are_the_formula():
    labels = np.array([0.0, 5.0, 5.0, 0.0, 5.0] * 40)
    split = dirichlet(labels, 3, 7, 0.7)
    owner = np.empty(labels.size, dtype=int)
    owner[split.order] = np.repeat(np.arange(3), np.diff(split.offsets))
    for c, label in enumerate((0.0, 5.0)):
        generator = Key(7, 0, Purpose.PARTITION, c + 1).generator()
        ends = np.cumsum(generator.dirichlet([0.7, 0.7, 0.7]))
        rows = generator.permutation(np.flatnonzero(labels == label))
        first, second = int(rows.size * ends[0]), int(rows.size * ends[1])
        expected = [rows[:first], rows[first:second], rows[second:]]
        for node in range(3):
            assert np.flatnonzero((owner == node) & (labels == label)).tolist() == sorted(expected[node].tolist())


def test_dirichlet_concentration():
    labels = np.repeat([0.0, 1.0, 2.0], 4000)[np.random.default_rng(0).permutation(12_000)]

    def shares(alpha):
        split = dirichlet(labels, 8, 5, alpha)
        owner = np.empty(labels.size, dtype=int)
        owner[split.order] = np.repeat(np.arange(8), np.diff(split.offsets))
        return np.array([np.bincount(owner[labels == c], minlength=8) for c in range(3)]) / 4000

    assert np.abs(shares(1e7) - 1 / 8).max() < 0.002
    assert shares(0.05).max() > 0.5
    # the mean of many draws is even: E p_i = 1/n
    mean = np.mean([np.diff(dirichlet(labels[:400], 4, seed, 0.5).offsets) for seed in range(300)], axis=0)
    assert mean == pytest.approx(100.0, rel=0.12)


@given(st.integers(0, 300), st.floats(0.01, 0.99), st.integers(0, 5))
def test_hold_out(rows, fraction, seed):
    kept, held = hold_out(rows, fraction, seed)
    assert held.size == round(rows * fraction)
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(rows))
    assert bool((np.diff(kept) > 0).all())
    assert bool((np.diff(held) > 0).all())


def test_hold_out_draws_other_numbers_than_the_shuffle():
    held = hold_out(1000, 0.5, 3)[1]
    first_half = np.sort(shuffled(1000, 1, 3).order[:500])
    assert np.intersect1d(held, first_half).size < 400
