"""A step's cost against numbers worked out by hand, and what must hold of any."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.scaling import cost
from mpi_opt.scaling.cost import PROFILES, NetworkProfile
from mpi_opt.scaling.curves import Curve, Curves
from mpi_opt.scaling.stepmodel import Reduced, Work, extrapolate, predict_step

SLOW = NetworkProfile(0.02, 12.5e6)
SPARQ = Work(
    nodes=4, compute=8e-3, compress=1e-3, pack=2e-3, unpack=1e-3, message=125e3, degree=2, firing=0.5, syncs=0.2
)
NEWTON = Work(nodes=4, compute=0.4, fixed=0.1, pack=0.01, reductions=(Reduced(1000, 1.0), Reduced(80, 2.0)))


def test_a_gossip_step():
    found = predict_step(SPARQ, SLOW)
    # one sync in five; spoken: 20 ms and 2 x 10 ms on the wire, silent: 20 ms
    assert found.network == pytest.approx(0.2 * (0.5 * 0.040 + 0.5 * 0.020))
    assert (found.compute, found.compress) == (8e-3, 1e-3)
    assert found.pack == pytest.approx(2e-3 + 0.2 * 0.5 * 2 * 1e-3)
    assert found.total == pytest.approx(found.compute + found.compress + found.pack + found.network)


def test_a_reducing_step():
    found = predict_step(NEWTON, SLOW)
    # four nodes are two deep, there and back: 4 messages a reduction
    assert found.network == pytest.approx(4 * (0.02 + 80e-6) + 2 * 4 * (0.02 + 6.4e-6))


def test_strong_scaling_divides_what_goes_with_rows():
    assert predict_step(NEWTON, SLOW, 8).compute == pytest.approx(0.1 + 0.3 / 2)
    assert predict_step(NEWTON, SLOW, 1).compute == pytest.approx(0.1 + 0.3 * 4)
    assert predict_step(NEWTON, SLOW, 8, weak=True).compute == pytest.approx(0.4)
    # of 4 nodes one holds no rows: 3 workers share them, of 7 each has 3/6
    with_master = replace(NEWTON, masters=1)
    assert predict_step(with_master, SLOW, 7).compute == pytest.approx(0.1 + 0.3 / 2)
    assert predict_step(with_master, SLOW, 7, weak=True).compute == pytest.approx(0.4)
    with pytest.raises(JobError, match="1 nodes: allowed: at least 2"):
        predict_step(with_master, SLOW, 1)


def test_one_node_sends_nothing():
    for work in (SPARQ, NEWTON):
        assert predict_step(work, SLOW, 1).network == 0


def test_no_more_neighbours_than_nodes():
    two, three = predict_step(SPARQ, SLOW, 2), predict_step(SPARQ, SLOW, 3)
    assert two.network == pytest.approx(0.2 * (0.5 * 0.030 + 0.5 * 0.020))
    assert two.pack < three.pack


def test_overlap_hides_behind_the_steps_between():
    # five steps of 11.2 ms hide an exchange of 30 ms, one of 30 ms per step does not hide
    work = {name: getattr(SPARQ, name) for name in Work.__slots__}
    assert predict_step(Work(**(work | {"overlap": True})), SLOW).network == 0
    each = predict_step(Work(**(work | {"overlap": True, "syncs": 1.0})), SLOW)
    assert each.network == pytest.approx(0.030 - (8e-3 + 1e-3 + 2e-3 + 1e-3))


def test_overhead_is_for_further_messages():
    profile = NetworkProfile(1e-3, 1e6, 1e-4)
    assert cost.exchange_seconds(100, 1, profile) == pytest.approx(1e-3 + 1e-4)
    assert cost.exchange_seconds(100, 3, profile) == pytest.approx(1e-3 + 3e-4 + 2e-4)


def test_extrapolation():
    points = extrapolate(NEWTON, PROFILES["wan"], [1, 16, 1024])
    assert [point.nodes for point in points] == [1, 16, 1024]
    # reductions grow with the logarithm: 10 levels against 4
    assert points[2].cost.network == pytest.approx(points[1].cost.network * 10 / 4)
    grown = extrapolate(SPARQ, SLOW, [4, 1024], degree=lambda n: 2 if n < 10 else 10)
    assert grown[1].cost.network == pytest.approx(0.2 * (0.5 * 0.120 + 0.5 * 0.020))
    assert extrapolate(SPARQ, SLOW, [1024])[0].cost.network == predict_step(SPARQ, SLOW).network


MEASURED = NetworkProfile(
    1e-6,
    1e9,
    2e-6,
    Curves(
        nodes=4,
        message=Curve((0.0, 1000.0), (1e-6, 3e-6)),
        exchange=Curve((0.0, 1000.0), (5e-6, 9e-6)),
        degree=2,
        reduction=Curve((8.0, 1008.0), (10e-6, 20e-6)),
        posting=2e-6,
    ),
)


def test_a_measured_network_stands_for_the_formulas():
    assert cost.message_seconds(500, MEASURED) == pytest.approx(2e-6)
    assert cost.exchange_seconds(500, 2, MEASURED) == pytest.approx(7e-6)
    # one more neighbour: half as many bytes again on the wire, and an overhead
    assert cost.exchange_seconds(500, 3, MEASURED) == pytest.approx(5e-6 + 4e-6 * 0.75 + 2e-6)
    assert cost.reduction_seconds(508, 4, MEASURED) == pytest.approx(15e-6)
    assert cost.reduction_seconds(508, 1, MEASURED) == 0
    # sixteen nodes are twice as deep
    assert cost.reduction_seconds(508, 16, MEASURED) == pytest.approx(30e-6)


def test_what_pack_holds_is_not_counted_twice():
    work = Work(nodes=4, compute=1e-3, message=500, degree=2, syncs=1.0)
    posted = Work(nodes=4, compute=1e-3, message=500, degree=2, syncs=1.0, posted=True)
    assert predict_step(work, MEASURED).network == pytest.approx(7e-6)
    assert predict_step(posted, MEASURED).network == pytest.approx(5e-6)


def test_curves():
    curve = Curve((10.0, 20.0, 40.0), (1.0, 3.0, 2.0))
    assert [curve.at(size) for size in (0, 10, 15, 20, 30, 40)] == [1, 1, 2, 3, 2.5, 2]
    assert curve.at(80) == 2.0  # a falling end is noise: never less beyond
    assert Curve((10.0, 20.0), (1.0, 2.0)).at(40) == 4.0
    assert Curve((8.0,), (1.0,)).at(1e9) == 1.0


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [((), ()), ((1.0,), ()), ((2.0, 1.0), (1.0, 1.0)), ((1.0, 2.0), (1.0, 0.0)), ((-1.0,), (1.0,))],
)
def test_no_curve(sizes, seconds):
    with pytest.raises(JobError):
        Curve(sizes, seconds)


works = st.builds(
    Work,
    nodes=st.integers(1, 64),
    compute=st.floats(0, 1),
    pack=st.floats(0, 1),
    unpack=st.floats(0, 1),
    message=st.floats(0, 1e6),
    degree=st.integers(0, 8),
    firing=st.floats(0, 1),
    syncs=st.floats(0, 1),
    reductions=st.lists(st.builds(Reduced, st.floats(0, 1e6), st.floats(0, 5)), max_size=2).map(tuple),
)


@given(works, st.sampled_from(sorted(PROFILES)), st.integers(1, 1024), st.integers(1, 1024))
def test_more_nodes_never_less_network(work, name, one, other):
    fewer, more = sorted((one, other))
    costs = [predict_step(work, PROFILES[name], n) for n in (fewer, more)]
    assert costs[0].network <= costs[1].network * (1 + 1e-12)
    assert costs[1].compute <= costs[0].compute


@given(works, st.floats(0, 1e6), st.floats(0, 1))
def test_more_bytes_or_firing_never_less(work, more, firing):
    values = {name: getattr(work, name) for name in Work.__slots__}
    bigger = Work(**(values | {"message": work.message + more, "firing": max(firing, work.firing)}))
    assert predict_step(bigger, SLOW).total >= predict_step(work, SLOW).total * (1 - 1e-12)


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"masters": 1}, {"compute": -1.0}, {"firing": 1.5}, {"fixed": 2.0}, {"message": float("nan")}],
)
def test_no_work(wrong):
    with pytest.raises(JobError):
        Work(**({"nodes": 1, "compute": 1.0} | wrong))


def test_no_nodes():
    with pytest.raises(JobError, match="0 nodes"):
        predict_step(SPARQ, SLOW, 0)
