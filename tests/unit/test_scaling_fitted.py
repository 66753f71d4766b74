"""Fits of planted networks, the file of measurements, and its table."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.network.measure import SIZES, chosen_pairs
from mpi_opt.scaling.curves import Curve
from mpi_opt.scaling.fitted import BETWEEN_HOSTS, SAME_HOST, Measurement, Pair, fit, read_network
from mpi_opt.scaling.networktext import lines
from mpi_opt.scaling.profiles import parse_profile


def planted(latency, bandwidth, noise, seed, extra=0.0, threshold=math.inf):
    draws = np.random.default_rng(seed)
    seconds = [latency + size / bandwidth + extra * (size > threshold) for size in SIZES]
    return Curve(tuple(map(float, SIZES)), tuple(s * (1 + noise * draws.uniform(-1, 1)) for s in seconds))


@given(st.floats(-6.5, -1.5), st.floats(6, 10.5), st.floats(0, 0.08), st.integers(0, 1000))
def test_latency_and_bandwidth_come_back(latency, bandwidth, noise, seed):
    latency, bandwidth = 10**latency, 10**bandwidth
    line = fit(planted(latency, bandwidth, noise, seed))
    # what the times show: latency where the smallest message has it, bandwidth where the largest one does
    assert math.isinf(line.threshold)
    if latency > 10 * SIZES[0] / bandwidth:
        assert line.latency == pytest.approx(latency, rel=0.02 + 1.5 * noise)
    if SIZES[-1] / bandwidth > 10 * latency:
        assert line.bandwidth == pytest.approx(bandwidth, rel=0.02 + 1.5 * noise)
    for size in SIZES:
        assert line.at(size) == pytest.approx(latency + size / bandwidth, rel=0.01 + 1.5 * noise)


@given(st.floats(0, 0.05), st.integers(0, 1000), st.sampled_from([8192, 16384, 65536]))
def test_a_rendezvous_comes_back(noise, seed, threshold):
    line = fit(planted(2e-6, 1e10, noise, seed, extra=3e-5, threshold=threshold))
    assert line.threshold == threshold
    assert line.extra == pytest.approx(3e-5, rel=0.1 + 3 * noise)
    assert line.latency == pytest.approx(2e-6, rel=0.1 + 2 * noise)


def test_nothing_is_negative():
    falling = fit(Curve((8.0, 1e6), (2e-3, 1e-3)))
    assert falling.latency > 0
    assert math.isinf(falling.bandwidth)
    through_zero = fit(Curve((1000.0, 2000.0, 4000.0), (1e-6, 3e-6, 9e-6)))
    assert through_zero.latency == 0


def measurement(**other):
    pairs = (
        Pair(SAME_HOST, (0, 1), planted(1e-6, 1e10, 0, 0)),
        Pair(BETWEEN_HOSTS, (0, 2), planted(1e-2, 1.25e7, 0, 0)),
    )
    values = {
        "ranks": 4,
        "pairs": pairs,
        "degree": 2,
        "exchange": planted(1.1e-2, 6e6, 0, 0),
        "reduction": planted(4e-2, 3e6, 0, 0),
        "posting": 3e-6,
        "cautions": ("host a: crowded",),
        "library": "MPICH 5",
    }
    return Measurement(**(values | other))


def test_the_profile_is_the_slower_kind_of_pair():
    profile = measurement().profile
    assert profile.latency == pytest.approx(1e-2, rel=1e-3)
    assert profile.bandwidth == pytest.approx(1.25e7, rel=1e-3)
    # the ring's smallest message beyond the ping: 1 ms for the one further neighbour
    assert profile.overhead == pytest.approx(1e-3, rel=1e-2)
    assert profile.curves is not None
    assert (profile.curves.nodes, profile.curves.degree, profile.curves.posting) == (4, 2, 3e-6)


def test_the_file_reads_back(tmp_path):
    place = tmp_path / "lab.json"
    place.write_text(json.dumps(measurement().values()))
    assert read_network(place) == measurement()
    assert parse_profile(str(place)) == ("lab", measurement().profile)


def test_one_rank(tmp_path):
    alone = Measurement(ranks=1, library="MPICH 5")
    place = tmp_path / "one.json"
    place.write_text(json.dumps(alone.values(), allow_nan=False))
    assert read_network(place) == alone
    assert (alone.profile.latency, alone.profile.bandwidth) == (0, math.inf)
    assert lines(alone)[1].strip().startswith("one rank sends nothing")


def broken(change):
    values = json.loads(json.dumps(measurement().values()))
    change(values)
    return json.dumps(values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ("[]", "is not what mpi-opt info --network --json writes"),
        ('{"format": "other"}', "is not what mpi-opt info --network --json writes"),
        (broken(lambda v: v.update(version=9)), "has version 9 of the format; allowed: 1"),
        (broken(lambda v: v.pop("pairs")), "KeyError: 'pairs'"),
        (broken(lambda v: v["ring"].update(seconds=[1.0])), "ascending sizes"),
        (broken(lambda v: v["reduction"].update(nbytes="many")), "ValueError"),
    ],
)
def test_damaged_files(text, told, tmp_path):
    place = tmp_path / "net.json"
    place.write_text(text)
    with pytest.raises(JobError) as error:
        read_network(place)
    assert str(place) in str(error.value)
    assert told in str(error.value)


def test_no_file(tmp_path):
    with pytest.raises(JobError, match="cannot read"):
        read_network(tmp_path / "none.json")


def test_pairs():
    assert chosen_pairs(["a", "a", "a"]) == [(SAME_HOST, (0, 1))]
    assert chosen_pairs(["a", "b"]) == [(BETWEEN_HOSTS, (0, 1))]
    assert chosen_pairs(["a", "b", "b"]) == [(SAME_HOST, (1, 2)), (BETWEEN_HOSTS, (0, 1))]
    assert chosen_pairs(["a", "a", "b", "c", "d"]) == [(SAME_HOST, (0, 1)), (BETWEEN_HOSTS, (0, 3))]


def test_the_table():
    shown = Measurement(
        ranks=2,
        pairs=(Pair(SAME_HOST, (0, 1), Curve((8.0, 1048576.0), (2e-6, 1.02e-4))),),
        degree=1,
        exchange=Curve((8.0, 2048.0), (4e-6, 8e-6)),
        reduction=Curve((8.0,), (1e-5,)),
        posting=1.5e-6,
        library="MPICH 5",
        cautions=("disturbed",),
    )
    assert "\n".join(lines(shown)) == TABLE


TABLE = """\
network      2 ranks, MPICH 5
profile      latency 2 us, bandwidth 10.5 GB/s

ping-pong between ranks 0 and 1, same host: latency 2 us, bandwidth 10.5 GB/s; half a round trip
     size   measured     fitted  ratio
      8 B       2 us       2 us   1.00
    1 MiB     102 us     102 us   1.00

ring, all ranks at once, 1 neighbour each: latency 3.98 us, bandwidth 510 MB/s; one exchange, by bytes of a message
of it 1.5 us in the calls that hand over and take in, without waiting
     size   measured     fitted  ratio by ping-pong
      8 B       4 us       4 us   1.00         2 us
    2 KiB       8 us       8 us   1.00      2.19 us

Reduce to rank 0 and Bcast of the answer: latency 10 us, bandwidth inf B/s; both together
     size   measured     fitted  ratio by ping-pong
      8 B      10 us      10 us   1.00         4 us

caution: disturbed"""
