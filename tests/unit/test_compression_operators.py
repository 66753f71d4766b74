"""Each operator against its formula, written out plainly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.qsgd import QSGD, QSGDTopK
from mpi_opt.compression.random_k import RandomK
from mpi_opt.compression.selection import largest
from mpi_opt.compression.sign import Sign, SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Key, Purpose


def key(round=0):
    return Key(3, 1, Purpose.COMPRESSION, round)


def brute_force(v, k):
    order = sorted(range(v.size), key=lambda i: (-abs(v[i]), i))
    return sorted(i for i in order[:k] if v[i] != 0)


def fp32(values):
    return np.asarray(values).astype(np.float32).astype(np.float64)


@given(st.lists(st.integers(-4, 4).map(float) | st.floats(allow_nan=False), min_size=1, max_size=60), st.data())
def test_largest_small(values, data):
    v = np.array(values)
    k = data.draw(st.integers(1, v.size))
    assert largest(v, k).tolist() == brute_force(v, k)


LONG = {
    "gaussian": lambda rng, d: rng.standard_normal(d),
    "few values": lambda rng, d: rng.integers(-3, 4, d).astype(float),
    "all equal": lambda rng, d: np.full(d, -0.5),
    "zero": lambda rng, d: np.zeros(d),
    "one spike": lambda rng, d: np.eye(1, d, d - 1)[0],
    "mostly zero": lambda rng, d: rng.standard_normal(d) * (rng.random(d) < 0.004),
    "ascending": lambda rng, d: np.arange(d, dtype=float),
    "columns": lambda rng, d: np.tile([1.0, 1e-3, 0, 0, 0, 0, 0, 0, 0, 1e3], d)[:d] * (1 + rng.random(d)),
    "hidden from every stride": lambda rng, d: np.where(np.arange(d) % 9 == 0, 1e-9, 1.0) * rng.random(d),
    "only at a stride": lambda rng, d: np.where(np.arange(d) % 9 == 0, 1.0, 1e-9) * rng.random(d),
    "last bit": lambda rng, d: 1.0 + rng.integers(0, 2, d) * 2.0**-52,
    "denormal": lambda rng, d: rng.integers(0, 9, d) * 5e-324,
    "huge": lambda rng, d: rng.standard_normal(d) * 1e300,
}


@pytest.mark.parametrize("case", LONG)
@pytest.mark.parametrize("dim", [1025, 9001, 70_001])
def test_largest_long(case, dim):
    v = LONG[case](np.random.default_rng(dim), dim)
    # A stable sort by descending magnitude leaves ties in index order.
    order = np.argsort(-np.abs(v), kind="stable")
    for k in (1, 10, dim // 100, dim // 10, dim // 2, dim - 1, dim):
        expected = np.sort(order[:k])
        found = largest(v, k)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected[v[expected] != 0])


def test_identity_rounds_to_fp32():
    v = np.array([0.1, -1e-50, 1 / 3])
    np.testing.assert_array_equal(Identity().compress(v, key()).dense(), fp32(v))
    np.testing.assert_array_equal(Identity(64).compress(v, key()).dense(), v)


def test_top_k_keeps_values_and_drops_what_fp32_cannot_tell_from_zero():
    v = np.array([1e-60, 0.1, 0.0, -7.0, 0.1])
    message = TopK(2).compress(v, key())
    assert message.indices.tolist() == [1, 3]
    np.testing.assert_array_equal(message.values, fp32([0.1, -7.0]))
    assert TopK(5).compress(v, key()).indices.tolist() == [1, 3, 4]
    assert TopK(5, 64).compress(v, key()).indices.tolist() == [0, 1, 3, 4]


def test_sign_top_k_scale_is_the_mean_of_what_is_kept():
    v = np.array([0.0, 2.0, -2.0, 2.0, 0.3, -9.1])
    message = SignTopK(3).compress(v, key())
    scale = float(np.float32((2.0 + 2.0 + 9.1) / 3))
    np.testing.assert_array_equal(message.dense(), [0, scale, -scale, 0, 0, -scale])
    fewer = SignTopK(6).compress(v, key())
    assert fewer.count == 5
    assert fewer.scale == float(np.float32((6 + 0.3 + 9.1) / 5))
    assert SignTopK(2).compress(np.full(4, 1e-60), key()).count == 0
    assert SignTopK(2, 64).compress(np.full(4, 1e-60), key()).count == 2


def test_sign_counts_zero_as_positive():
    v = np.array([0.0, -1.0, 5.0, -0.0])
    np.testing.assert_array_equal(Sign().compress(v, key()).dense(), [1.5, -1.5, 1.5, 1.5])
    assert Sign().compress(np.zeros(4), key()).count == 0


def test_random_k_is_a_uniform_projection():
    v = np.arange(1.0, 11.0)
    hits = np.zeros(10)
    for i in range(3000):
        message = RandomK(3).compress(v, key(i))
        assert message.count == 3
        np.testing.assert_array_equal(message.values, v[message.indices])
        hits[message.indices] += 1
    # 3000 draws at probability 0.3: standard deviation 25
    assert np.abs(hits - 900).max() < 130


@pytest.mark.parametrize("levels", [1, 2, 7, 300])
def test_qsgd_rounds_right_in_the_mean(levels):
    v = np.random.default_rng(0).standard_normal(30)
    beta = min(30 / levels**2, np.sqrt(30) / levels)
    norm = float(np.float32(np.linalg.norm(v)))
    draws = np.array([QSGD(levels).compress(v, key(i)).dense() for i in range(1500)])
    steps = draws * (1 + beta) * levels / norm
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    # each entry is one of the two multiples of norm/s around it
    assert (np.abs(draws * (1 + beta) - v) < norm / levels * (1 + 1e-6)).all()
    error = np.abs((1 + beta) * draws.mean(axis=0) - v)
    assert (error < 5 * norm / levels / np.sqrt(1500)).all()


def test_qsgd_top_k_is_qsgd_of_the_kept():
    v = np.random.default_rng(0).standard_normal(30)
    kept = largest(v, 6)
    q = QSGDTopK(6, 5).compress(v, key())
    alone = QSGD(5).compress(v[kept], key())
    np.testing.assert_array_equal(q.dense()[kept], alone.dense())
    assert q.count == np.count_nonzero(q.dense()) == alone.count


def test_qsgd_of_one_spike_is_exact_up_to_the_scale():
    v = np.zeros(50)
    v[17] = -2.0
    message = QSGD(4).compress(v, key())
    assert message.indices.tolist() == [17]
    assert message.dense()[17] == -2.0 * (4 / (4 * (1 + np.sqrt(50) / 4)))


def test_qsgd_has_no_level_above_the_top():
    # This norm is rounded down in fp32, so that |v| / norm is above 1 by more than 2^-25.
    v = np.array([1.0 + 0.9 * 2.0**-24])
    for i in range(1500):
        assert QSGD(65535).compress(v, key(i)).levels.tolist() == [65535]


def test_qsgd_where_squares_overflow_or_vanish():
    for size in (1e200, 1e-200, 5e-324):
        message = QSGD(3, value_bits=64).compress(np.full(9, size), key())
        # |v| = 3 size exactly: every entry is 1 step of norm/3
        np.testing.assert_allclose(message.levels, 1)
        assert message.norm == 3 * size


def test_each_block_has_its_own_k_and_scale():
    v = np.concatenate([np.arange(1.0, 101.0), [1000.0, -3000.0]])
    message = Blockwise(SignTopK("2%"), [100, 2]).compress(v, key())
    expected = np.zeros(102)
    expected[[98, 99]] = 99.5
    expected[101] = -3000.0
    np.testing.assert_array_equal(message.dense(), expected)
    assert message.count == 3


def test_stated_omegas():
    assert TopK("10%").omega(50) == 0.1
    assert SignTopK(10).omega(50) == 0.1
    assert SignTopK(2).omega(50) == 2 / 50
    assert Sign().omega(50) == 1 / 50
    assert QSGD(100).omega(50) == 1 / (1 + 50 / 1e4)
    assert QSGD(2).omega(49) == 1 / (1 + 3.5)
    assert QSGDTopK(4, 2).omega(40) == 0.1 / 2
    assert Blockwise(TopK(1), [5, 20]).omega(25) == 1 / 20
