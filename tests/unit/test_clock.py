"""The virtual clock: tables worked by hand, closed forms, and an event simulation written apart."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins.clock_events import Simulation

from mpi_opt.network.clock import Clock, Times
from mpi_opt.network.pace import Pace
from mpi_opt.scaling.cost import PROFILES, NetworkProfile, exchange_seconds, reduction_seconds

SLOW = NetworkProfile(latency=1.0, bandwidth=10.0)
NOTHING = NetworkProfile(latency=0.0, bandwidth=float("inf"))


def ring(n):
    return [tuple(sorted({(i - 1) % n, (i + 1) % n} - {i})) for i in range(n)]


def star(n):
    return [tuple(range(1, n))] + [(0,)] * (n - 1)


def computing(clock, *seconds):
    clock.spend(np.array(seconds, dtype=float))


class Meter:
    """What was computed, as a test says."""

    def __init__(self, n):
        self.total = np.zeros(n), np.zeros(n)

    def __call__(self):
        return self.total[0].copy(), self.total[1].copy()

    def add(self, compute, compress=0.0):
        self.total[0][:] += compute
        self.total[1][:] += compress


# --- by hand ---


def test_a_ring_of_three_with_unequal_speeds() -> None:
    clock = Clock(ring(3), SLOW)
    computing(clock, 0.0, 2.0, 5.0)
    clock.exchange(np.array([10.0, 10.0, 10.0]))  # 1 s a copy, 2 s until both are out, 1 s on the way
    # node 0: of 1 there at 3, whole at 5; of 2 there at 6, whole at 8.   node 1: of 2 whole at 8.
    # node 2: of 0 there at 1, of 1 there at 3, whole at 5; but its own copies are out at 7 only.
    assert clock.now.tolist() == [8.0, 8.0, 7.0]
    # Where nobody is late the exchange takes 1 + 2 s: that is the share of the messages, the rest is waiting.
    assert clock.communicate.tolist() == [3.0, 3.0, 2.0]
    assert clock.wait.tolist() == [5.0, 3.0, 0.0]
    assert clock.compute.tolist() == [0.0, 2.0, 5.0]


def test_the_hub_of_a_star_receives_one_after_the_other() -> None:
    clock = Clock(star(5), SLOW)
    clock.exchange(np.array([10.0, 20.0, 20.0, 20.0, 20.0]))
    # The hub's four copies are out at 4 and there at 5. The leaves' 2 s each are all there at 1 and take 8 s in turn.
    assert clock.now.tolist() == [9.0, 5.0, 5.0, 5.0, 5.0]
    assert clock.communicate.tolist() == clock.now.tolist()  # nobody was late
    clock.exchange(np.array([10.0, 20.0, 20.0, 20.0, 20.0]))
    # The leaves' are there at 6 and done at 14; the hub's are out at 13 and there at 14, for which the leaves wait 4 s.
    assert clock.now.tolist() == [14.0] * 5
    assert clock.communicate.tolist() == [14.0, 10.0, 10.0, 10.0, 10.0]
    assert clock.wait.tolist() == [0.0, 4.0, 4.0, 4.0, 4.0]


def test_first_come_first_served_and_no_pause_made_up_for() -> None:
    clock = Clock(star(4), SLOW)
    computing(clock, 0.0, 6.0, 0.0, 1.0)
    clock.exchange(np.array([0.0, 10.0, 20.0, 30.0]))
    # Of 2 there at 1, served to 3; of 3 there at 2, served to 6; of 1 there at 7, served to 8.
    assert clock.now[0] == 8.0
    assert clock.now[1:].tolist() == [7.0, 2.0, 4.0]  # own copies out, and the hub's silence


def test_silence_takes_the_latency_alone() -> None:
    clock = Clock(ring(4), SLOW)
    clock.exchange(np.array([0.0, 0.0, 0.0, 10.0]))
    # 3 speaks: out at 2, there at 3. Node 1 hears silence of both, 3 too.
    assert clock.now.tolist() == [3.0, 1.0, 3.0, 2.0]


def test_overlap_hides_what_is_computed_meanwhile() -> None:
    clock = Clock(ring(3), SLOW)
    clock.post(np.full(3, 10.0))  # there at 3
    computing(clock, 1.0, 3.0, 4.0)
    clock.collect()
    assert clock.now.tolist() == [3.0, 3.0, 4.0]
    assert clock.communicate.tolist() == [2.0, 0.0, 0.0]
    assert clock.wait.tolist() == [0.0, 0.0, 0.0]


def test_a_collect_without_anything_in_flight_takes_no_time() -> None:
    clock = Clock(ring(3), SLOW)
    clock.collect()
    assert clock.now.tolist() == [0.0, 0.0, 0.0]


def test_a_reduction_begins_when_the_last_has_come() -> None:
    clock = Clock([()] * 4, SLOW)
    computing(clock, 0.0, 1.0, 2.0, 4.0)
    clock.reduce(20.0)  # two levels, there and back, 3 s each: 12 s; scattered 8 + 6 s
    assert clock.now.tolist() == [16.0] * 4
    assert clock.wait.tolist() == [4.0, 3.0, 2.0, 0.0]
    assert clock.communicate.tolist() == [12.0] * 4


def test_each_message_beyond_the_first_costs_overhead() -> None:
    clock = Clock(star(4), NetworkProfile(1.0, 10.0, overhead=0.5))
    clock.exchange(np.zeros(4))
    assert clock.now.tolist() == [2.0, 1.0, 1.0, 1.0]
    assert clock.communicate.tolist() == [2.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("n", [1, 2])
def test_one_node_and_two(n) -> None:
    clock = Clock(ring(n), SLOW)
    clock.exchange(np.full(n, 10.0))
    clock.reduce(10.0)
    assert clock.now.tolist() == {1: [0.0], 2: [2.0 + 4.0] * 2}[n]


# --- closed forms ---


@pytest.mark.parametrize("profile", [*PROFILES.values(), NetworkProfile(1e-3, 1e6, overhead=1e-4)], ids=str)
@pytest.mark.parametrize(
    ("neighbours", "degree"), [(ring(8), 2), (star(2), 1), ([(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)], 3)]
)
def test_equal_nodes_take_the_formulas_time(profile, neighbours, degree) -> None:
    clock = Clock(neighbours, profile, step_seconds=0.25)
    for step in range(50):
        clock.begin(step)
        clock.exchange(np.full(len(neighbours), 1000.0))
    expected = 50 * (0.25 + exchange_seconds(1000.0, degree, profile))
    np.testing.assert_allclose(clock.now, expected, rtol=1e-12)
    np.testing.assert_allclose(clock.wait, 0.0, atol=1e-12 * expected)


def test_equal_nodes_reduce_in_the_formulas_time() -> None:
    clock = Clock([()] * 100, PROFILES["wan"], step_seconds=0.1)
    for step in range(20):
        clock.begin(step)
        clock.reduce(1000.0)
    np.testing.assert_allclose(clock.now, 20 * (0.1 + reduction_seconds(1000.0, 100, PROFILES["wan"])), rtol=1e-12)


def test_over_a_network_that_takes_no_time_only_computing_is_left() -> None:
    clock = Clock(ring(5), NOTHING, step_seconds=1.5)
    for step in range(10):
        clock.begin(step)
        clock.exchange(np.full(5, 1e9))
        clock.reduce(1e9)
    assert clock.now.tolist() == [15.0] * 5
    assert not clock.communicate.any()
    assert not clock.wait.any()


def test_a_delay_spreads_one_hop_with_every_exchange() -> None:
    n, late, profile = 15, 100.0, NetworkProfile(0.5, 100.0)
    undisturbed, disturbed = Clock(ring(n), profile), Clock(ring(n), profile)
    computing(disturbed, late, *[0.0] * (n - 1))
    hops = np.minimum(np.arange(n), n - np.arange(n))
    for exchanges in range(1, 9):
        for clock in (undisturbed, disturbed):
            computing(clock, *[1.0] * n)
            clock.exchange(np.full(n, 10.0))
        behind = disturbed.now - undisturbed.now
        np.testing.assert_allclose(behind[hops <= exchanges], late, rtol=0.02)
        assert not behind[hops > exchanges].any()


# --- against the event simulation ---


@st.composite
def programs(draw):
    n = draw(st.integers(1, 7))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    edges = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    neighbours = [tuple(j for j in range(n) if (i, j) in edges or (j, i) in edges) for i in range(n)]
    seconds = st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5, 7.0]), min_size=n, max_size=n)
    sizes = st.lists(st.sampled_from([0.0, 1.0, 40.0, 1000.0]), min_size=n, max_size=n)
    parts = draw(st.lists(st.sampled_from(["compute", "exchange", "overlap", "reduce"]), max_size=12))
    program = []
    for part in parts:
        if part == "reduce":
            program.append((part, draw(st.sampled_from([0.0, 8.0, 5000.0]))))
        elif part == "overlap":
            program += [("post", draw(sizes)), ("compute", draw(seconds)), ("collect",)]
        else:
            program.append((part, draw(seconds if part == "compute" else sizes)))
    figures = draw(st.sampled_from([(0.0, float("inf")), (1.0, 100.0), (0.02, 1e4), (5.0, 1e9), (0.0, 50.0)]))
    return neighbours, program, *figures, draw(st.sampled_from([0.0, 0.3]))


@settings(max_examples=300, deadline=None)
@given(programs())
def test_as_the_event_simulation(case) -> None:
    neighbours, program, latency, bandwidth, overhead = case
    clock = Clock(neighbours, NetworkProfile(latency, bandwidth, overhead))
    for kind, *details in program:
        if kind == "compute":
            computing(clock, *details[0])
        elif kind in ("exchange", "post"):
            getattr(clock, kind)(np.array(details[0]))
        else:
            getattr(clock, kind)(*details)
    expected = Simulation(neighbours, latency, bandwidth, overhead).run(program)
    np.testing.assert_allclose(clock.now, expected, rtol=1e-12, atol=1e-12)
    parts = clock.compute + clock.compress + clock.communicate + clock.wait
    np.testing.assert_allclose(parts, clock.now, rtol=1e-12, atol=1e-12)
    assert min(clock.communicate.min(), clock.wait.min()) >= 0


# --- pace and meter ---


def test_speeds_are_log_normal_and_belong_to_the_node() -> None:
    speeds = Pace(20_000, 5, spread=0.5).speeds
    logs = np.log(speeds)
    assert abs(logs.mean()) < 4 * 0.5 / np.sqrt(20_000)
    assert logs.std() == pytest.approx(0.5, rel=0.03)
    assert np.array_equal(Pace(7, 5, spread=0.5).speeds, speeds[:7])
    assert not np.array_equal(Pace(7, 6, spread=0.5).speeds, speeds[:7])
    assert Pace(3, 5).speeds.tolist() == [1.0, 1.0, 1.0]


def test_stragglers_are_drawn_for_each_node_and_step() -> None:
    pace = Pace(50, 1, share=0.1, factor=4.0)
    drawn = np.array([pace.at(step) for step in range(400)])
    assert set(drawn.ravel()) == {1.0, 4.0}
    slow = drawn == 4.0
    assert slow.mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / slow.size))
    assert 0 < slow.mean(axis=0).min() < slow.mean(axis=0).max() < 0.3  # all nodes in turn
    assert np.array_equal(Pace(9, 1, share=0.1, factor=4.0).at(17), drawn[17, :9])
    assert (Pace(4, 1, spread=0.3, share=1.0, factor=2.0).at(0) == 2 * Pace(4, 1, spread=0.3).speeds).all()


def test_the_meter_is_read_from_where_it_stood_and_at_the_nodes_pace() -> None:
    meter = Meter(2)
    meter.add(100.0)  # before the clock was made: no part of it
    clock = Clock(ring(2), NOTHING, pace=Pace(2, share=1.0, factor=3.0), meter=meter)
    clock.begin(0)
    meter.add([1.0, 2.0], [0.5, 0.0])
    clock.computed()
    clock.computed()  # nothing since
    assert clock.compute.tolist() == [3.0, 6.0]
    assert clock.compress.tolist() == [1.5, 0.0]
    assert clock.now.tolist() == [4.5, 6.0]
    assert clock.values(1) == {
        "seconds": 6.0,
        "compute_seconds": 6.0,
        "compress_seconds": 0.0,
        "communicate_seconds": 0.0,
        "wait_seconds": 0.0,
    }
    assert clock.latest == 6.0


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_clock_goes_on_from_what_was_held(in_flight) -> None:
    def go_on(clock, meter, steps):
        for step in steps:
            clock.begin(step)
            meter.add(np.arange(1.0, 5.0) / 7, 0.01)
            clock.computed()
            if in_flight:
                if step:
                    clock.collect()
                clock.post(np.arange(4.0) * 30)
            else:
                clock.exchange(np.arange(4.0) * 30)

    def made(meter):
        return Clock(ring(4), SLOW, pace=Pace(4, 3, spread=0.2, share=0.3, factor=5.0), meter=meter)

    meter = Meter(4)
    whole = made(meter)
    go_on(whole, meter, range(20))
    meter = Meter(4)
    first = made(meter)
    go_on(first, meter, range(8))
    kept = first.hold()
    assert all(isinstance(each, Times) for each in kept)
    assert all((each.arrival is not None) is in_flight for each in kept)
    total, meter = meter.total, Meter(4)
    second = made(meter)
    meter.total = total  # as a resumed run's phases are set after its clock was made
    second.give([dataclasses.replace(each) for each in kept])
    go_on(second, meter, range(8, 20))
    for name in ("now", "compute", "compress", "communicate", "wait"):
        assert np.array_equal(getattr(second, name), getattr(whole, name)), name
    assert second.hold() == whole.hold()
