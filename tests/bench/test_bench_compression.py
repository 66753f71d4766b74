"""Selection, encoding and decoding of SignTopK. Target: 1 % of 1e6 selected and encoded in under 4 ms on one core.

Tensor by tensor at ResNet-20: a synchronisation with two neighbours, all tensors speaking, in under 3 ms.
"""

import numpy as np
import pytest

from mpi_opt.algorithms.parts.tensor_trigger import TensorTrigger
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.sign import SignTopK
from mpi_opt.draws import Key, Purpose
from mpi_opt.schedules import Constant

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


def resnet20():
    """Return the lengths of ResNet-20's 59 tensors, ten classes, shortcuts without parameters."""
    sizes, before = [27 * 16, 16, 16], 16
    for width in (16, 32, 64):
        for _ in range(3):
            sizes += [9 * before * width, width, width, 9 * width * width, width, width]
            before = width
    return [*sizes, 640, 10]


@pytest.mark.parametrize("form", ["tensors", "whole"])
def test_a_synchronisation_of_resnet20(benchmark, form):
    """Trigger, compression, packing, two messages unpacked, and what is added to xhat and mix."""
    sizes = resnet20()
    dim = sum(sizes)
    assert (len(sizes), dim) == (59, 269_722)
    v, xhat, mix = np.random.default_rng(0).standard_normal(dim), np.zeros(dim), np.zeros(dim)
    operator = Blockwise(SignTopK("1%"), sizes if form == "tensors" else [dim], partial=True)
    trigger = TensorTrigger(operator.sizes, Constant(0.0))
    codec, memory = operator.codec(dim, 0), trigger.memory()
    out = np.empty(codec.max_bytes, dtype=np.uint8)

    def synchronise():
        fired, _, _ = trigger.decide(trigger.drift(v), 0, 1.0, memory)
        message = trigger.say(operator, v, KEY, fired)
        size = sum(codec.encode(message, out))
        message.add_to(xhat)
        for q in (message, codec.decode(out[:size], 0, 0), codec.decode(out[:size], 0, 0)):
            q.add_to(mix, 0.3)
        return size

    benchmark.extra_info["bytes"] = benchmark(synchronise)
    if form == "tensors":
        within(benchmark, 3e-3)
