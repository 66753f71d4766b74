"""Networks as text: names, units, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.scaling.cost import PROFILES, NetworkProfile
from mpi_opt.scaling.profiles import parse_profile


@pytest.mark.parametrize("name", PROFILES)
def test_names(name):
    assert parse_profile(name) == (name, PROFILES[name])


@pytest.mark.parametrize(
    ("text", "latency", "bandwidth", "overhead"),
    [
        ("latency=20ms,bandwidth=100Mbit", 0.02, 12.5e6, 0),
        ("latency=20ms,bandwidth=100Mbit/s", 0.02, 12.5e6, 0),
        ("bandwidth=1.5GB/s,latency=2us", 2e-6, 1.5e9, 0),
        (" latency = 0s , bandwidth = 800 bit ", 0, 100, 0),
        ("latency=1e-3s,bandwidth=3kB/s,overhead=700ns", 1e-3, 3000, 7e-7),
        ("latency=.5ms,bandwidth=7B/s", 5e-4, 7, 0),
    ],
)
def test_figures(text, latency, bandwidth, overhead):
    name, profile = parse_profile(text)
    assert name == text.replace(" ", "")
    assert profile.latency == pytest.approx(latency)
    assert profile.bandwidth == pytest.approx(bandwidth)
    assert profile.overhead == pytest.approx(overhead)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_units_are_factors(latency, rate):
    _, one = parse_profile(f"latency={latency!r}ms,bandwidth={rate!r}Mbit")
    _, other = parse_profile(f"latency={latency!r}s,bandwidth={rate!r}MB/s")
    assert one.latency * 1000 == pytest.approx(other.latency)
    assert one.bandwidth * 8 == pytest.approx(other.bandwidth)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("wam", "'wam' is not known; did you mean 'wan'?; allowed: infiniband"),
        ("", "'' is not known"),
        ("latency=2ms", "bandwidth is missing"),
        ("bandwidth=2GB/s", "latency is missing"),
        ("latency=1ms,latency=2ms,bandwidth=1GB/s", "latency is given twice"),
        ("latency=20,bandwidth=1Mbit", "latency '20': allowed: a number and its unit, s, ms, us or ns"),
        ("latency=1ms,bandwidth=1MB", "bandwidth '1MB': allowed: a number and its unit, bit/s or B/s"),
        ("latency=1ms,bandwidth=1ms", "bandwidth '1ms'"),
        ("latency=-1ms,bandwidth=1GB/s", "latency '-1ms'"),
        ("latency=1ms,bandwidth=0B/s", "a finite number, 0.001 B/s or more"),
        ("latency=1e300s,bandwidth=1Gbit", "at most 1e+09 s"),
        ("latency=1e999s,bandwidth=1B/s", "a finite number"),
        ("latncy=1ms,bandwidth=1B/s", "did you mean 'latency'?"),
        ("latency=1ms,,bandwidth=1B/s", "''"),
        ("nothing.json", "cannot read nothing.json"),
    ],
)
def test_refused(text, told):
    with pytest.raises(JobError) as error:
        parse_profile(text)
    assert told in str(error.value)


def test_overhead_is_checked():
    with pytest.raises(JobError, match="overhead is -1"):
        NetworkProfile(0.0, 1.0, -1.0)
