"""One emulated network for all tests of this folder, and the runs on it that several of them look at."""

import functools

import pytest
from netlab import courses
from support import netlab

DELAY, RATE, HOSTS = 10.0, 100.0, 4
"""Milliseconds one way, Mbit/s, hosts."""


@pytest.fixture(scope="session")
def lab(emulated):
    """Four hosts, 10 ms and 100 Mbit/s apart."""
    with netlab.Lab(HOSTS, DELAY, RATE) as made:
        yield made


WIDE = {"rows": 1200, "features": 2500, "most": 30}
HEAVY = {"rows": 12000, "features": 2500, "most": 30}
NARROW = {"rows": 2000, "features": 60, "most": 20}
RUNS = {  # method, steps, rows; beside some a short one: what it does not take is the steps'
    "sparq": (courses.SPARQ, 1100, WIDE),
    "sparq-short": (courses.SPARQ, 100, WIDE),
    "d-psgd": (courses.D_PSGD, 220, WIDE),
    "d-psgd-short": (courses.D_PSGD, 20, WIDE),
    "newton": (courses.SLOW_NEWTON, 45, NARROW),
    "newton-short": (courses.SLOW_NEWTON, 5, NARROW),
    "heavy": (courses.HEAVY, 1200, HEAVY),
    "sparq-race": (courses.RACE_SPARQ, 300, NARROW, 10),
    "d-psgd-race": (courses.RACE_D_PSGD, 190, NARROW, 10),
    "newton-race": (courses.LOCAL_NEWTON.replace("none", "newton"), 20, NARROW, 1),
    "giant-race": (courses.GIANT, 20, NARROW, 1),
    "overlap": (courses.HEAVY + "overlap = true\n", 1200, HEAVY),
}


@pytest.fixture(scope="session")
def ran(lab, tmp_path_factory):
    """``ran(name)``: that run of `RUNS` on the four hosts, once for all tests; ``ran(name, 1)``: a second one."""
    folder = tmp_path_factory.mktemp("runs")

    @functools.cache
    def once(name, attempt):
        method, steps, rows, *every = RUNS[name]
        job = courses.write(folder, name, method, steps=steps, every=(every or [steps])[0], **rows)
        return courses.run(lab, job, folder / f"run-{name}-{attempt}")

    # the cache holds ran(name) and ran(name, 0) for two calls
    return lambda name, attempt=0: once(name, attempt)


@pytest.fixture(scope="session")
def network(lab, tmp_path_factory):
    """The file of what was measured between the four hosts."""
    path = tmp_path_factory.mktemp("network") / "network.json"
    lab.mpirun(["mpi-opt", "info", "--network", "--json", path], timeout=120).check()
    return path
