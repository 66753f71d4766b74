"""Selection, encoding and decoding of SignTopK. Target: 1 % of 1e6 selected and encoded in under 4 ms on one core."""

import numpy as np
import pytest

from mpi_opt.compression.sign import SignTopK
from mpi_opt.draws import Key, Purpose

SIZES = [(1_000_000, "0.1%"), (1_000_000, "1%"), (1_000_000, "10%"), (7850, 10), (123, 12)]
KEY = Key(0, 0, Purpose.COMPRESSION, 0)


def within(benchmark, seconds):
    """The target, held against the fastest round: other programs on the machine only ever add time."""
    if benchmark.stats is not None:  # --benchmark-disable measures nothing
        assert benchmark.stats["min"] < seconds


def prepared(dim, k):
    operator = SignTopK(k)
    codec = operator.codec(dim, 0)
    return np.random.default_rng(0).standard_normal(dim), operator, codec, np.empty(codec.max_bytes, dtype=np.uint8)


@pytest.mark.parametrize(("dim", "k"), SIZES)
def test_select_and_encode(benchmark, dim, k):
    v, operator, codec, out = prepared(dim, k)
    size = benchmark(lambda: codec.encode(operator.compress(v, KEY), out))
    benchmark.extra_info["bytes"] = sum(size)
    if (dim, k) == (1_000_000, "1%"):
        within(benchmark, 4e-3)


@pytest.mark.parametrize(("dim", "k"), SIZES)
def test_decode_and_add(benchmark, dim, k):
    v, operator, codec, out = prepared(dim, k)
    data = out[: sum(codec.encode(operator.compress(v, KEY), out))]
    xhat = np.zeros(dim)
    benchmark(lambda: codec.decode(data, 0, 0).add_to(xhat, 0.3))
    assert np.count_nonzero(xhat) == codec.decode(data, 0, 0).count


@pytest.mark.parametrize(("dim", "k"), SIZES)
def test_select_encode_and_decode(benchmark, dim, k):
    v, operator, codec, out = prepared(dim, k)

    def all_of_it():
        message = operator.compress(v, KEY)
        return message, codec.decode(out[: sum(codec.encode(message, out))], 0, 0)

    message, received = benchmark(all_of_it)
    assert received == message
