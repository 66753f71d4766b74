"""The cost formulas against values worked out by hand, and against simulated trees."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.scaling import cost
from mpi_opt.scaling.cost import PROFILES, Machine, NetworkProfile, Shard

SLOW = NetworkProfile(0.02, 12.5e6)
MACHINE = Machine(dense_flops=1e10, sparse_flops=1e9, call=0.0)


def test_a_message():
    assert cost.message_seconds(1_250_000, SLOW) == pytest.approx(0.12)
    assert cost.message_seconds(0, SLOW) == 0.02


def test_a_short_reduction_is_two_trees():
    # 16 nodes are 4 deep, there and back: 8 (20 ms + 8 us)
    assert cost.reduction_seconds(100, 16, SLOW) == pytest.approx(8 * (0.02 + 8e-6))
    assert cost.reduction_seconds(100, 9, SLOW) == cost.reduction_seconds(100, 16, SLOW)
    assert cost.reduction_seconds(100, 2, SLOW) == pytest.approx(2 * (0.02 + 8e-6))


def test_a_long_reduction_is_scattered():
    # 125 MB take 10 s; scattered over 16 nodes: 16 latencies and 4 * 15/16 of the 10 s
    assert cost.reduction_seconds(125e6, 16, SLOW) == pytest.approx(16 * 0.02 + 37.5)


def test_one_node_sends_nothing():
    for profile in (SLOW, NetworkProfile(0.0, math.inf)):
        assert cost.reduction_seconds(1e9, 1, profile) == 0
        assert cost.exchange_seconds(1e9, 0, profile) == 0


def broadcast_by_simulation(nbytes, nodes, profile):
    """Everyone who has the message sends it on, one message at a time, until all have it."""
    ready = [0.0]
    while len(ready) < nodes:
        first = min(range(len(ready)), key=ready.__getitem__)
        ready[first] += cost.message_seconds(nbytes, profile)
        ready.append(ready[first])
    return max(ready)


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8, 16, 31, 100])
def test_tree_against_simulation(nodes):
    simulated = 2 * broadcast_by_simulation(800, nodes, SLOW)
    assert cost.reduction_seconds(800, nodes, SLOW) == pytest.approx(simulated)


@given(
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.integers(1, 2000),
    st.integers(1, 2000),
    st.sampled_from([*PROFILES.values()]),
)
def test_reductions_grow_with_bytes_and_nodes(a, b, n, m, profile):
    slack = 1 + 1e-12
    assert cost.reduction_seconds(min(a, b), n, profile) <= cost.reduction_seconds(max(a, b), n, profile) * slack
    assert cost.reduction_seconds(a, min(n, m), profile) <= cost.reduction_seconds(a, max(n, m), profile) * slack
    if n > 1:  # whatever the algorithm, the vector leaves one rank and enters another, twice
        assert cost.reduction_seconds(a, n, profile) * slack >= 2 * cost.message_seconds(a, profile)


def test_an_exchange_shares_one_link():
    assert cost.exchange_seconds(125_000, 3, SLOW) == pytest.approx(0.02 + 0.03)


def test_work_on_sparse_rows():
    shard = Shard(100, 1000, 5000)
    assert not shard.dense
    assert cost.product_seconds(shard, MACHINE) == pytest.approx(20_000 / 1e9)
    assert cost.margin_seconds(shard, MACHINE) == pytest.approx(10_000 / 1e9)
    assert cost.hessian_seconds(shard, MACHINE) == pytest.approx(2 * 25 * 1000 / 1e9)  # five entries a row
    assert cost.hessian_seconds(Shard(100, 0, 0), MACHINE) == 0


def test_work_on_dense_rows_with_classes_and_intercept():
    shard = Shard(10 * 101, 1000, 100_000, 10)
    assert shard.dense
    assert cost.product_seconds(shard, MACHINE) == pytest.approx(4e6 / 1e10)
    assert cost.hessian_seconds(shard, MACHINE) == pytest.approx(55 * 1000 * 101**2 / 1e10)


def test_a_factor():
    assert cost.factor_seconds(300, MACHINE) == pytest.approx((9e6 + 1.8e5) / 1e10)


def test_every_pass_costs_a_call():
    shard, slow = Shard(100, 1000, 5000), Machine(1e10, 1e9, 1.0)
    for seconds in (cost.product_seconds, cost.margin_seconds, cost.hessian_seconds):
        assert seconds(shard, slow) - seconds(shard, MACHINE) == pytest.approx(1)
    assert cost.factor_seconds(3, slow) - cost.factor_seconds(3, MACHINE) == pytest.approx(1)


def test_named_profiles():
    assert PROFILES["wan"] == SLOW
    assert PROFILES["infiniband"] == NetworkProfile(2e-6, 100e9 / 8)
    assert PROFILES["10gbe"].bandwidth == 10e9 / 8


@pytest.mark.parametrize(
    ("latency", "bandwidth", "named"),
    [(-1.0, 1.0, "latency is -1.0"), (math.nan, 1.0, "latency is nan"), (math.inf, 1.0, "latency is inf")]
    + [(0.0, 0.0, "bandwidth is 0.0"), (0.0, -2.0, "bandwidth is -2.0"), (0.0, math.nan, "bandwidth is nan")],
)
def test_impossible_networks_are_refused(latency, bandwidth, named):
    with pytest.raises(JobError, match=named):
        NetworkProfile(latency, bandwidth)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.02, "20 ms"), (2e-6, "2 us"), (12.5e6, "12.5 Ms"), (0.41, "410 ms"), (6.3, "6.3 s"), (0.0, "0 s")]
    + [(math.inf, "inf s"), (1.0, "1 s"), (1000.0, "1 ks"), (3e-11, "0.03 ns"), (92.4e9, "92.4 Gs"), (1e-3, "1 ms")],
)
def test_spoken(number, text):
    assert cost.spoken(number, "s") == text


def test_a_profile_says_its_numbers():
    assert str(SLOW) == "latency 20 ms, bandwidth 12.5 MB/s"
