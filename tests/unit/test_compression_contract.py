"""What every operator of the registry keeps to. A new one is tested by being listed there."""

import contextlib
import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mpi_opt.compression.base import Message
from mpi_opt.compression.blocks import Blocks
from mpi_opt.compression.registry import COMPRESSORS, make_compressor
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DivergedError, JobError

SEED = 11
# Every operator with the parameters of its dataclass, by the names of its fields.
EXAMPLES = {
    "k": lambda dim: sorted({1, max(1, dim // 7), dim}) + ["30%"],
    "levels": lambda dim: [1, 3, 16, 255],
    "value_bits": lambda dim: [32, 64],
    "sizes": lambda dim: [[dim // 3, dim - dim // 3] if dim >= 3 else [dim]],
    "inner": lambda dim: [
        {"name": "sign-top-k", "k": "30%"},
        {"name": "random-k", "k": 1},
        {"name": "qsgd", "levels": 3},
    ],
    "kept": lambda dim: [None],
    "partial": lambda dim: [False, True],
}


def operators(name, dim):
    """Return operators called ``name``: each example of each parameter occurs."""
    names = [f.name for f in dataclasses.fields(COMPRESSORS[name]) if f.init]
    choices = [EXAMPLES[field](dim) for field in names]
    longest = max((len(c) for c in choices), default=1)
    picks = {tuple(repr(c[i % len(c)]) for c in choices): [c[i % len(c)] for c in choices] for i in range(longest)}
    return [make_compressor(name, dict(zip(names, pick, strict=True))) for pick in picks.values()]


def key(node=2, round=5):
    return Key(SEED, node, Purpose.COMPRESSION, round)


def sent(operator, message, dim):
    """Return the message's bytes, checked against what the codec says of them."""
    codec = operator.codec(dim, SEED)
    out = np.full(codec.max_bytes, 0xA5, dtype=np.uint8)
    size = codec.encode(message, out)
    assert size.header >= 1
    assert size.payload >= 0
    assert sum(size) <= codec.max_bytes
    return out[: sum(size)].copy()


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, -3e-39, 1e-42, 1e-46, 5e-324, 1e30, -1e37]
VECTORS = st.one_of(
    st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=40),
    st.lists(st.floats(-1e37, 1e37), min_size=1, max_size=70),
    st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=130),
).map(np.array)


@pytest.mark.parametrize("name", COMPRESSORS)
@settings(max_examples=40)
@given(v=VECTORS, round=st.integers(0, 9))
@example(v=np.zeros(9), round=0)
@example(v=np.ones(1), round=0)
@example(v=np.full(257, 1e-320), round=0)
def test_receivers_add_what_the_sender_adds(name, v, round):
    before = v.copy()
    for operator in operators(name, v.size):
        message = operator.compress(v, key(round=round))
        assert v.tobytes() == before.tobytes()
        assert isinstance(message, Message)
        assert message.dim == v.size
        data = sent(operator, message, v.size)
        received = operator.codec(v.size, SEED).decode(data, 2, round)
        data[:] = 0xFF  # a receive buffer is used again
        assert received == message
        assert received.count == message.count <= v.size
        dense = message.dense()
        assert dense.dtype == np.float64
        assert dense.shape == v.shape
        assert np.isfinite(dense).all()
        for weight in (1.0, -0.7):
            mine, theirs = np.linspace(-1, 1, v.size), np.linspace(-1, 1, v.size)
            expected = mine + weight * dense
            message.add_to(mine, weight)
            received.add_to(theirs, weight)
            np.testing.assert_array_equal(mine, expected)
            assert mine.tobytes() == theirs.tobytes()
        dense[0] += 1e35  # a new vector each time
        assert not np.array_equal(dense, message.dense())
        v += 1.0  # nor do messages look at v again
        np.testing.assert_array_equal(message.dense() + 0.0, received.dense() + 0.0)
        v[:] = before


@pytest.mark.parametrize("name", COMPRESSORS)
def test_same_key_same_message(name):
    v = np.random.default_rng(0).standard_normal(200)
    for operator in operators(name, v.size):
        assert operator.compress(v, key()) == operator.compress(v.copy(), key())
        assert operator.compress(v, key()) != operator.compress(-v, key())


def worst_cases(dim):
    rng = np.random.default_rng(dim)
    spike = np.zeros(dim)
    spike[dim // 2] = -3.0
    tilted = np.full(dim, 1e-6)
    tilted[0] = 1.0
    return {
        "random": rng.standard_normal(dim),
        "heavy": rng.standard_t(1.5, dim),
        "spike": spike,
        "tilted": tilted,
        "equal": np.full(dim, 0.1),
        "zero": np.zeros(dim),
        "huge": 1e37 * rng.random(dim),
        "tiny": 1e-36 * rng.random(dim),
    }


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("dim", [1, 2, 9, 40])
def test_omega(name, dim):
    for operator in operators(name, dim):
        omega = operator.omega(dim)
        assert 0.0 < omega <= 1.0
        probe = np.random.default_rng(1).standard_normal(dim)
        random = any(operator.compress(probe, key(round=i)) != operator.compress(probe, key()) for i in range(4))
        for case, v in worst_cases(dim).items():
            total = float(v @ v)
            draws = [operator.compress(v, key(round=i)).dense() for i in range(400 if random else 1)]
            # A mean is within five standard errors; an operator without draws has none.
            errors = np.array([float((v - q) @ (v - q)) for q in draws])
            slack = 5 * errors.std() / math.sqrt(errors.size) + 1e-13 * total
            assert errors.mean() <= (1 - omega) * total + slack, (operator, case)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_supports_at_random_take_no_less_than_the_floor_and_little_more(name):
    for dim in (1, 50, 3000):
        v = np.random.default_rng(dim).standard_normal(dim)
        for operator in operators(name, dim):
            message = operator.compress(v, key())
            size = 8 * sent(operator, message, dim).size
            floor = message.floor_bits()
            # Levels take whole bits; a header, a norm and the last byte are fixed costs of each part.
            parts = len(getattr(message, "parts", [None]))
            assert 0.0 < floor <= size + 1e-6
            assert size <= 1.25 * floor + 40 * parts, operator


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_values_end_or_are_passed_over(name, bad):
    v = np.random.default_rng(1).standard_normal(60)
    v[[7, 50]] = bad
    for everywhere in (v, np.full(60, bad)):
        for operator in operators(name, 60):
            with contextlib.suppress(DivergedError):
                assert np.isfinite(operator.compress(everywhere, key()).dense()).all()


@pytest.mark.parametrize("name", ["identity", "top-k", "sign", "sign-top-k", "qsgd", "qsgd-top-k"])
def test_beyond_fp32_is_diverged_and_64_bits_carry_it(name):
    fields = {f.name for f in dataclasses.fields(COMPRESSORS[name])}
    params = {"k": 3, "levels": 4}
    params = {field: value for field, value in params.items() if field in fields}
    v = np.full(5, -1e39)
    with pytest.raises(DivergedError, match="node 2, exchange 5: .*step_size.*value_bits = 64"):
        make_compressor(name, params).compress(v, key())
    wide = make_compressor(name, {**params, "value_bits": 64})
    message = wide.compress(v, key())
    assert message.dense().min() < -1e38
    assert wide.codec(5, SEED).decode(sent(wide, message, 5), 2, 5) == message


@pytest.mark.parametrize("name", [name for name in COMPRESSORS if "k" in name.split("-")])
def test_k_above_the_dimension_is_a_job_error(name):
    extra = {"levels": 2} if "qsgd" in name else {}
    operator = make_compressor(name, {"k": 11, **extra})
    with pytest.raises(JobError, match="11.*10"):
        operator.codec(10, SEED)
    with pytest.raises(JobError, match="11.*10"):
        operator.compress(np.ones(10), key())


def test_messages_are_immutable_and_compare_by_content():
    operator = make_compressor("top-k", {"k": 2})
    message = operator.compress(np.array([3.0, 1.0, -2.0]), key())
    with pytest.raises(ValueError, match="read-only"):
        message.values[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.dim = 4
    assert message == operator.compress(np.array([3.0, 1.5, -2.0]), key())
    assert message != operator.compress(np.array([3.0, 1.5, 2.0]), key())
    assert message != "message"


def test_another_operators_message_is_refused():
    dense = make_compressor("identity", {}).compress(np.ones(4), key())
    for name in ("top-k", "sign-top-k"):
        codec = make_compressor(name, {"k": 2}).codec(4, SEED)
        with pytest.raises(TypeError, match="Dense of 4"):
            codec.encode(dense, np.zeros(100, dtype=np.uint8))


def test_one_block_is_the_operator_itself():
    alone = make_compressor("random-k", {"k": 10})
    blockwise = make_compressor("blockwise", {"sizes": [100], "inner": {"name": "random-k", "k": 10}})
    v = np.arange(100.0)
    assert blockwise.compress(v, key()).parts == (alone.compress(v, key()),)


def test_blocks_draw_apart():
    operator = make_compressor("blockwise", {"sizes": [50, 50], "inner": {"name": "random-k", "k": 10}})
    first, second = operator.compress(np.ones(100), key()).parts
    assert not np.array_equal(first.indices, second.indices)
    later = operator.compress(np.ones(100), key(round=6))
    assert isinstance(later, Blocks)
    assert not np.array_equal(later.parts[0].indices, second.indices)
