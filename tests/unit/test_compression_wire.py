"""The wire format: sizes, bounds, and what decoding refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.compression import bits, rice
from mpi_opt.compression.messages import Levels, Signs, log2_binomial
from mpi_opt.compression.registry import COMPRESSORS, make_compressor
from mpi_opt.compression.sign import SignTopK
from mpi_opt.compression.wire import SignsCodec
from mpi_opt.draws import Key, Purpose

KEY = Key(0, 1, Purpose.COMPRESSION, 4)
PARAMS = {
    "identity": {},
    "top-k": {"k": 6},
    "random-k": {"k": 6},
    "sign": {},
    "sign-top-k": {"k": 40},
    "qsgd": {"levels": 7},
    "qsgd-top-k": {"k": 35, "levels": 3},
    "blockwise": {"sizes": [5, 18, 18], "inner": {"name": "sign-top-k", "k": "30%"}},
    "blockwise, silent ones": {"sizes": [5, 18, 18], "inner": {"name": "sign-top-k", "k": "30%"}, "partial": True},
    "blockwise, values": {"sizes": [5, 18, 18], "inner": {"name": "top-k", "k": 9}},
    "blockwise, packed": {"sizes": [5, 18, 18], "inner": {"name": "qsgd", "levels": 3}},
    "blockwise, packed, silent ones": {"sizes": [5, 18, 18], "inner": {"name": "qsgd", "levels": 3}, "partial": True},
}
DIM = 41


def encode(codec, message):
    out = np.zeros(codec.max_bytes, dtype=np.uint8)
    size = codec.encode(message, out)
    return out[: sum(size)].copy(), size


@pytest.mark.parametrize(("dim", "k"), [(270_896, 2709), (1_000_000, 1000), (1_000_000, 10_000), (1_000_000, 100_000)])
@pytest.mark.parametrize("seed", range(3))
def test_sign_top_k_is_within_one_and_a_half_percent_of_the_floor(dim, k, seed):
    v = np.random.default_rng(seed).standard_normal(dim)
    message = SignTopK(k).compress(v, KEY)
    data, size = encode(SignTopK(k).codec(dim, 0), message)
    floor = log2_binomial(dim, k) + k + 32
    assert message.count == k
    assert message.floor_bits() == floor
    assert 8 * data.size <= 1.015 * floor
    assert sum(size) == data.size


def test_ten_of_7850_take_at_most_24_bytes_whatever_they_are():
    codec = SignTopK(10).codec(7850, 0)
    assert codec.max_bytes <= 24
    for seed in range(200):
        support = np.sort(np.random.default_rng(seed).choice(7850, 10, replace=False))
        message = Signs(7850, support, support % 3 == 0, 0.5)
        data, _ = encode(codec, message)
        assert data.size <= 24
        assert codec.decode(data, 0, 0) == message


def test_a_percentage_is_rounded_to_the_nearest_count():
    v = np.random.default_rng(0).standard_normal(270_896)
    assert SignTopK("1%").compress(v, KEY).count == 2709


def test_where_a_bitmap_is_shorter_it_is_what_travels():
    for dim, k in ((1000, 300), (1000, 500), (1000, 999)):
        support = np.sort(np.random.default_rng(k).choice(dim, k, replace=False))
        data, size = encode(SignsCodec(dim, k, 32), Signs(dim, support, support < 500, 1.0))
        assert size.payload <= 4 + -(-(dim + k) // 8)
    data, size = encode(SignsCodec(1000, 1000, 32), Signs(1000, np.arange(1000), np.arange(1000) < 500, 1.0))
    assert tuple(size) == (1, 4 + 125)


@pytest.mark.parametrize("levels", [3, 4, 7, 255, 256])
def test_quantized_levels_never_take_more_than_plain_ones(levels):
    v = np.random.default_rng(0).standard_normal(600)
    operator = make_compressor("qsgd", {"levels": levels})
    message = operator.compress(v, KEY)
    data, size = encode(operator.codec(600, 0), message)
    assert size.payload <= 4 + -(-(600 * levels.bit_length() + message.count) // 8)


def test_the_zero_message_is_one_byte_and_silence_is_none():
    for name in ("top-k", "sign", "sign-top-k", "qsgd", "qsgd-top-k"):
        operator = make_compressor(name, PARAMS[name])
        codec = operator.codec(DIM, 0)
        data, size = encode(codec, operator.compress(np.zeros(DIM), KEY))
        assert data.tolist() == [0]
        assert tuple(size) == (1, 0)
        assert codec.decode(data, 1, 4).count == 0
        with pytest.raises(ValueError, match="0 bytes"):
            codec.decode(data[:0], 1, 4)


def test_a_message_written_out_by_hand():
    # support {1, 6, 7} of 9: gaps 1, 4, 0; b = 1: low bits 1 0 0, high parts 0, 2, 0: unary 1 001 1
    message = Signs(9, np.array([1, 6, 7]), np.array([True, False, True]), 1.0)
    data, size = encode(SignsCodec(9, 3, 32), message)
    stream = [1, 0, 1] + [1, 0, 0] + [1, 0, 0, 1, 1]
    packed = [sum(bit << j for j, bit in enumerate(stream[:8])), sum(bit << j for j, bit in enumerate(stream[8:]))]
    assert data.tolist() == [2 | 1 << 3, 3, 0, 0, 0x80, 0x3F, *packed]
    assert tuple(size) == (2, 6)


@settings(max_examples=60)
@given(st.data())
def test_max_bytes_bounds_every_support(data):
    dim = data.draw(st.integers(1, 3000))
    most = data.draw(st.integers(1, dim))
    support = data.draw(
        st.one_of(
            st.sets(st.integers(0, dim - 1), min_size=1, max_size=min(most, 60)).map(sorted),
            # runs at the end, the costliest place
            st.integers(1, most).map(lambda n: range(dim - n, dim)),
            st.integers(1, most).map(lambda n: [*range(n - 1), dim - 1]),
            st.integers(1, most).map(lambda n: [i * dim // n for i in range(n)]),
        )
    )
    support = np.array(support, dtype=np.int64)
    message = Signs(dim, support, support % 2 == 0, 2.5)
    codec = SignsCodec(dim, most, 32)
    sent, _ = encode(codec, message)  # into exactly max_bytes
    assert codec.decode(sent, 0, 0) == message
    assert codec.max_bytes <= 7 + -(-(dim + most) // 8)


def test_max_bytes_is_reached():
    for dim, k in ((7850, 10), (1000, 30), (123, 12)):
        codec = SignsCodec(dim, k, 32)
        worst = np.append(np.arange(k - 1), dim - 1)
        b = ((dim - k) // k).bit_length() - 1
        assert rice.max_bits(dim, k) == k * (b + 1) + ((dim - k) >> b)
        sent, _ = encode(codec, Signs(dim, worst, worst > 0, 1.0))
        assert codec.max_bytes - sent.size <= k * b // 8 + 1


def test_every_operator_is_here():
    assert set(COMPRESSORS) <= set(PARAMS)


def check_valid(message, codec):
    """A message that was accepted is one that could have been sent."""
    dense = message.dense()
    assert dense.shape == (DIM,)
    assert np.isfinite(dense).all()
    assert 0 <= message.count <= np.sum(getattr(codec, "most", DIM))
    if isinstance(message, Levels):
        assert message.levels.max(initial=0) <= message.top
    out = np.zeros(codec.max_bytes, dtype=np.uint8)
    again = codec.decode(out[: sum(codec.encode(message, out))], 1, 4)
    assert again == message


def operator_of(name):
    return make_compressor(name.split(",")[0], PARAMS[name])


def make(name, values):
    operator = operator_of(name)
    codec = operator.codec(DIM, 0)
    return codec, encode(codec, operator.compress(values, KEY))[0]


def mutate(message, rng):
    """Return the bytes of ``message`` with one to three things wrong, most often near the front."""
    mutated = bytearray(message)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, min(9, len(mutated)) + 1) if rng.random() < 0.5 else rng.integers(0, len(mutated) + 1))
        kind = rng.integers(0, 8)
        if kind == 0:
            del mutated[at:]
        elif kind == 1:
            mutated[at:at] = rng.bytes(int(rng.integers(1, 10)))
        elif at < len(mutated):
            mutated[at] = int(rng.integers(0, 256)) if kind < 4 else mutated[at] ^ 1 << int(rng.integers(0, 8))
    return np.frombuffer(bytes(mutated), dtype=np.uint8)


@pytest.mark.parametrize("name", PARAMS)
def test_mutated_messages_are_refused_or_valid(name):
    rng = np.random.default_rng(0)
    accepted = refused = 0
    for _ in range(8):
        values = rng.standard_normal(DIM)
        values[rng.integers(1, 2 * DIM) :] = 0.0
        codec, sent = make(name, values)
        for _ in range(150):
            try:
                message = codec.decode(mutate(sent.tobytes(), rng), 1, 4)
            except ValueError:
                refused += 1
            else:
                accepted += 1
                check_valid(message, codec)
    assert accepted > 20
    assert refused > 200


@pytest.mark.parametrize("name", PARAMS)
@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_valid(name, data):
    codec = operator_of(name).codec(DIM, 0)
    try:
        message = codec.decode(np.frombuffer(data, dtype=np.uint8), 1, 4)
    except ValueError:
        return
    check_valid(message, codec)


@pytest.mark.parametrize("name", PARAMS)
def test_every_truncation_and_extension_is_refused(name):
    codec, sent = make(name, np.random.default_rng(0).standard_normal(DIM))
    for n in range(sent.size):
        with pytest.raises(ValueError, match="malformed message"):
            codec.decode(sent[:n], 1, 4)
    for extra in (0, 1, 255):
        with pytest.raises(ValueError, match="malformed message"):
            codec.decode(np.append(sent, np.uint8(extra)), 1, 4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.0])
def test_scales_and_values_must_be_sound(value):
    codec, sent = make("sign-top-k", np.ones(DIM))
    sent[2:6].view("<f4")[0] = value
    with pytest.raises(ValueError, match="malformed message"):
        codec.decode(sent, 1, 4)
    codec, sent = make("top-k", np.ones(DIM))
    sent[2:6].view("<f4")[0] = value
    if value == -1.0:
        assert codec.decode(sent, 1, 4).values[0] == -1.0
    else:
        with pytest.raises(ValueError, match="malformed message"):
            codec.decode(sent, 1, 4)


def refused(codec, data, says):
    with pytest.raises(ValueError, match=says):
        codec.decode(np.array(data, dtype=np.uint8), 1, 4)


def test_headers_say_nothing_that_is_not_so():
    # One index, 0, of 41: kind 2 at parameter 0, count 1, scale 1.0, a positive sign and the unary 1.
    one = [2, 1, 0, 0, 0x80, 0x3F, 0b10]
    codec = SignTopK(2).codec(DIM, 0)
    assert codec.decode(np.array(one, dtype=np.uint8), 1, 4).indices.tolist() == [0]
    refused(codec, [2, 0, *one[2:]], "0 entries announced")
    refused(codec, [2, 3, *one[2:6], 0b111000], "3 entries announced, allowed are 1 to 2")
    refused(codec, [*one[:6], 0b110], "1 indices announced, 2 found")
    refused(codec, [1, *one[2:6], 0], "kind 1 is not one of")
    refused(codec, [7, *one[1:]], "kind 7")
    refused(codec, [2 | 31 << 3, *one[1:]], "ends within")
    refused(codec, [0, 0], "goes on")
    refused(codec, [0 | 1 << 3], "goes on")
    every = [1, 0, 0, 0x80, 0x3F, 0b101]
    codec = SignTopK(3).codec(3, 0)
    assert codec.decode(np.array(every, dtype=np.uint8), 1, 4).negative.tolist() == [True, False, True]
    refused(codec, [1 | 1 << 3, *every[1:]], "goes on")
    refused(codec, [*every[:5], 0b1101], "goes on after its end")
    dense = make_compressor("sign", {}).codec(3, 0)
    refused(dense, [*every[:5], 0b1101], "goes on after its end")


def test_levels_are_within_what_the_operator_has():
    # Two of five coordinates at most, levels 1..3 in two bits, all at 1; then level 4.
    codec = make_compressor("qsgd-top-k", {"k": 2, "levels": 3}).codec(5, 0)
    one = [2, 1, 0, 0, 0x80, 0x3F]
    assert codec.decode(np.array([*one, 0b1000 | 0b100], dtype=np.uint8), 1, 4).levels.tolist() == [3]
    refused(codec, [*one, 0b1000 | 0b110], "level 4 of 3")
    # Plain levels 1 0 1 0 0 and two signs are fine, three levels above 0 are not.
    scale = one[2:]
    plain = codec.decode(np.array([3, *scale, 0b00101, 0], dtype=np.uint8), 1, 4)
    assert plain.indices.tolist() == [0, 2]
    refused(codec, [3, *scale, 0b10101, 0], "3 levels above 0")
    refused(codec, [3, *scale, 0, 0], "0 levels above 0")


@given(st.integers(0, 32), st.integers(1, 700), st.integers(0, 2**32 - 1))
def test_planes(width, count, seed):
    values = np.random.default_rng(seed).integers(0, 1 << width, count)
    stream = np.empty(width * count, dtype=np.uint8)
    bits.write_planes(values, width, stream)
    assert stream.size == 0 or stream.max() <= 1
    np.testing.assert_array_equal(bits.read_planes(stream, width, count), values)
    np.testing.assert_array_equal(
        sum(stream[j * count : (j + 1) * count].astype(int) << j for j in range(width)), values
    )


@given(st.integers(0, 2**62))
def test_varints(value):
    out = np.zeros(10, dtype=np.uint8)
    end = bits.write_varint(value, out, 1)
    assert end - 1 == bits.varint_bytes(value)
    assert bits.read_varint(out[:end], 1) == (value, end)
    with pytest.raises(ValueError, match="header"):
        bits.read_varint(out[: end - 1], 1)


def test_varints_have_one_form():
    for data in ([0x80, 0x00], [0x81, 0x80, 0x00], [0xFF] * 10, []):
        with pytest.raises(ValueError, match="header"):
            bits.read_varint(np.array(data, dtype=np.uint8), 0)


def test_a_codec_is_used_again_without_traces():
    rng = np.random.default_rng(0)
    codec = SignTopK(20).codec(500, 0)
    for k in (20, 3, 20, 1, 17):
        support = np.sort(rng.choice(500, k, replace=False))
        message = Signs(500, support, rng.random(k) < 0.5, 1.5)
        data, _ = encode(codec, message)
        assert data.tolist() == encode(SignTopK(20).codec(500, 0), message)[0].tolist()
        assert codec.decode(data, 0, 0) == message
