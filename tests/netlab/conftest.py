"""One emulated network for all tests of this folder that only use it."""

import pytest
from support import netlab

DELAY, RATE, HOSTS = 10.0, 100.0, 4
"""Milliseconds one way, Mbit/s, hosts."""


@pytest.fixture(scope="session")
def lab(emulated):
    """Four hosts, 10 ms and 100 Mbit/s apart."""
    with netlab.Lab(HOSTS, DELAY, RATE) as made:
        yield made
