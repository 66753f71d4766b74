"""Blocks that speak by themselves: the decision by hand, the wire, counted bytes, and the job's keys."""

import re
import struct
from typing import NamedTuple

import numpy as np
import pytest
from support import cases
from support.jobs import write_job

from mpi_opt.algorithms.parts.tensor_trigger import TensorTrigger
from mpi_opt.algorithms.parts.trigger import Trigger
from mpi_opt.algorithms.sparq_sgd import SparqSGD
from mpi_opt.build import build
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.qsgd import QSGD
from mpi_opt.compression.random_k import RandomK
from mpi_opt.compression.sign import Sign, SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DivergedError, JobError
from mpi_opt.forecast.traffic import traffic
from mpi_opt.job import load_job, to_toml
from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.operators import Tensor, tensors_of, with_tensors
from mpi_opt.run.counting import CountedCompressor
from mpi_opt.run.timing import Phases
from mpi_opt.schedules import Constant, FiringRate

KEY = Key(3, 1, Purpose.COMPRESSION, 4)


def bools(*values):
    return np.array(values, dtype=bool)


# --- the decision ---


def test_each_block_has_its_share_of_the_bound():
    trigger = TensorTrigger([3, 1], Constant(8.0))
    # eta = 0.5: the model's bound is 2, that of the blocks 1.5 and 0.5
    drift = trigger.drift(np.array([1.0, 0.0, -0.5, 1.0]))
    assert drift.tolist() == [1.25, 1.0]
    fired, bound, memory = trigger.decide(drift, 0, 0.5, trigger.memory())
    assert fired.tolist() == [False, True]
    assert bound == 2.0
    assert memory.silent.tolist() == [1, 0]
    fired, _, memory = trigger.decide(np.array([1.5, 0.5]), 0, 0.5, memory)  # equal is not above
    assert fired.tolist() == [False, False]
    assert memory.silent.tolist() == [2, 1]


def test_each_block_has_its_own_longest_silence():
    trigger = TensorTrigger([2, 2], Constant(1e9), longest_silence=3)
    memory, seen = trigger.memory(), []
    for drift in ([0.0, 1e30], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]):
        fired, _, memory = trigger.decide(np.array(drift), 0, 1.0, memory)
        seen.append(fired.tolist())
    assert seen == [[False, True], [False, False], [True, False], [False, True]]


def test_each_block_has_its_own_controller():
    trigger = TensorTrigger([6, 2], FiringRate(0.5, 1.0))
    memory = trigger.memory()
    fired, bound, memory = trigger.decide(np.array([3.0, 0.0]), 0, 0.5, memory)
    assert fired.tolist() == [True, False]
    assert bound == 0.0
    # c of the first block is 3 / 0.75 / 0.25, then raised by 1 - 0.5; the second has seen nothing yet
    np.testing.assert_allclose(memory.log_levels, [np.log(16.0) + 0.5, np.nan])
    fired, bound, memory = trigger.decide(np.array([3.0, 1e-3]), 1, 0.5, memory)
    assert fired.tolist() == [False, True]
    assert bound == pytest.approx(3.0 * np.exp(0.5))
    np.testing.assert_allclose(memory.log_levels, [np.log(16.0), np.log(1e-3 / 0.25 / 0.25) + 0.5])


def test_controllers_with_an_initial_level_and_extreme_steps():
    trigger = TensorTrigger([1, 1], FiringRate(0.5, 1.0, 4.0))
    fired, bound, _ = trigger.decide(np.array([1.9, 2.1]), 0, 1.0, trigger.memory())
    assert (fired.tolist(), bound) == ([False, True], pytest.approx(4.0))
    fired, bound, _ = trigger.decide(np.array([1.0, 1.0]), 0, 1e200, trigger.memory())
    assert (fired.tolist(), bound) == ([False, False], np.inf)
    late = TensorTrigger([1, 1], FiringRate(0.5))
    fired, _, memory = late.decide(np.array([1.0, 0.0]), 0, 0.0, late.memory())
    assert fired.tolist() == [True, False]
    assert np.isnan(memory.log_levels).all()


@pytest.mark.parametrize("threshold", [Constant(3.0), FiringRate(0.6)])
def test_one_block_is_the_model(threshold):
    plain = cases.make("base", 5, trigger=Trigger(threshold))
    block = cases.make(
        "base", 5, trigger=TensorTrigger([cases.DIM], threshold),
        compressor=Blockwise(SignTopK(3), [cases.DIM], partial=True),
    )  # fmt: skip
    X, fired, *_ = cases.drive(plain, Lockstep(plain.neighbours, plain.codec), 90)
    Y, again, *_ = cases.drive(block, Lockstep(block.neighbours, block.codec), 90)
    np.testing.assert_array_equal(X, Y)
    np.testing.assert_array_equal(fired, again)
    assert fired.any()
    assert not fired.all()


def test_trigger_and_compressor_must_have_the_same_blocks():
    for compressor in (SignTopK(3), Blockwise(SignTopK(1), [3, 9], partial=True)):
        with pytest.raises(JobError, match=r"blocks of \[4, 8\] needs a blockwise compressor"):
            SparqSGD(
                step_size=Constant(0.1), trigger=TensorTrigger([4, 8], Constant(1.0)), compressor=compressor,
                consensus_rate=0.3,
            )  # fmt: skip


# --- the wire ---


@pytest.mark.parametrize("inner", [Identity(), Sign(), RandomK(2), QSGD(3)])
@pytest.mark.parametrize("count", [1, 3, 8, 9, 20])
def test_a_message_is_the_bitmap_and_the_speaking_blocks_alone(inner, count):
    rng = np.random.default_rng(count)
    sizes = rng.integers(1, 40, count).tolist()
    operator, v = Blockwise(inner, sizes, partial=True), rng.normal(size=sum(sizes))
    codec, out = operator.codec(v.size, 3), np.empty(10_000, dtype=np.uint8)
    for _ in range(6):
        speak = rng.random(count) < 0.5
        speak[rng.integers(count)] = True
        message = operator.compress_some(v, KEY, speak)
        expected, whole, at = np.zeros(v.size), operator.compress(v, KEY).dense(), 0
        alone = []
        for i, size in enumerate(sizes):
            if speak[i]:
                expected[at : at + size] = whole[at : at + size]
                own = operator._operators[i]
                alone.append(sum(own.codec(size, 3).encode(message.parts[i], out)))
            at += size
        np.testing.assert_array_equal(message.dense(), expected)
        size = codec.encode(message, out)
        lengths = sum(1 if n < 128 else 2 for n in alone[:-1])
        assert sum(size) == -(-count // 8) + lengths + sum(alone) <= codec.max_bytes
        assert out[: -(-count // 8)].tolist() == np.packbits(speak, bitorder="little").tolist()
        back = codec.decode(out[: sum(size)].copy(), 1, 4)
        assert back == message
        for weight in (1.0, 0.3):
            mine = np.linspace(-1, 1, v.size)
            theirs = mine.copy()
            message.add_to(mine, weight)
            back.add_to(theirs, weight)
            assert mine.tobytes() == theirs.tobytes()


def read_by_hand(data, sizes, signs):
    """Return the vector that a joint message of blocks says, in plain Python from the format's description."""
    blocks = -(-len(sizes) // 8)
    speak = [data[b // 8] >> b % 8 & 1 for b in range(len(sizes))]
    where = [j for b, n in enumerate(sizes) for j in range(sum(sizes[:b]), sum(sizes[: b + 1])) if speak[b]]
    owner = [b for b, n in enumerate(sizes) for _ in range(n) if speak[b]]
    kind, parameter, at = data[blocks] & 7, data[blocks] >> 3, blocks + 1
    out = [0.0] * sum(sizes)
    if kind == 0:
        assert at == len(data)
        return out, speak
    count, shift = (0, 0) if kind == 2 else (len(where), 0)
    while kind == 2:
        count |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            break
    floats = sum(speak) if signs else count
    values = struct.unpack(f"<{floats}f", bytes(data[at : at + 4 * floats]))
    stream = [byte >> j & 1 for byte in data[at + 4 * floats :] for j in range(8)]
    negative = [stream.pop(0) for _ in range(count)] if signs else []
    if kind == 2:
        low = [0] * count
        for plane in range(parameter):
            for j in range(count):
                low[j] |= stream.pop(0) << plane
        places, place = [], -1
        for j in range(count):
            high = 0
            while not stream.pop(0):
                high += 1
            place += 1 + (high << parameter | low[j])
            places.append(place)
    else:
        places = list(range(count))
    assert len(stream) < 8
    assert not any(stream)
    scales = dict(zip([b for b in range(len(sizes)) if speak[b]], values, strict=False))
    for j, place in enumerate(places):
        out[where[place]] = (-1) ** negative[j] * scales[owner[place]] if signs else values[j]
    return out, speak


@pytest.mark.parametrize("inner", [SignTopK(2), SignTopK("20%"), SignTopK(40), TopK("30%"), TopK(40)])
@pytest.mark.parametrize("count", [1, 3, 9, 20])
def test_a_joint_message_is_as_described_and_says_what_its_blocks_would(inner, count):
    rng = np.random.default_rng(count)
    sizes = [*rng.integers(1, 40, count - 1).tolist(), 40]
    operator, v = Blockwise(inner, sizes, partial=True), rng.normal(size=sum(sizes))
    v[: sizes[0]] *= rng.integers(0, 2)  # a block that may have nothing to say
    codec, out = operator.codec(v.size, 3), np.empty(10_000, dtype=np.uint8)
    for turn in range(6):
        speak = rng.random(count) < (0.5 if turn else 1.0)
        speak[rng.integers(count)] = True
        message = operator.compress_some(v, KEY, speak)
        expected, floor, at = np.zeros(v.size), 0.0, 0
        for i, size in enumerate(sizes):
            if speak[i]:
                alone = operator._operators[i].compress(v[at : at + size], KEY)
                expected[at : at + size] = alone.dense()
                floor += alone.floor_bits()
            at += size
        assert message.dense().tobytes() == expected.tobytes()
        assert message.floor_bits() == pytest.approx(floor)
        assert message.count == np.count_nonzero(expected)
        size = sum(codec.encode(message, out))
        assert size <= codec.max_bytes
        by_hand, spoke = read_by_hand(out[:size].tolist(), sizes, isinstance(inner, SignTopK))
        np.testing.assert_array_equal(by_hand, expected)
        assert spoke == speak.tolist()
        assert codec.decode(out[:size].copy(), 1, 4) == message


def test_values_too_small_for_their_bits_are_not_kept():
    v = np.array([1e-46, 1e-46, 2.0, 1e-46, 3.0])
    for inner, expected in ((TopK(2), [0, 0, 2, 0, 3]), (SignTopK(2), [0, 0, 2, 0, 3])):
        operator = Blockwise(inner, [2, 1, 2])
        message = operator.compress(v, KEY)
        alone = np.concatenate([inner.compress(v[:2], KEY).dense(), v[2:3], inner.compress(v[3:], KEY).dense()])
        assert message.dense().tolist() == alone.tolist()
        assert message.dense()[:3].tolist() == expected[:3]
        out = np.empty(operator.codec(5, 0).max_bytes, dtype=np.uint8)
        size = sum(operator.codec(5, 0).encode(message, out))
        assert operator.codec(5, 0).decode(out[:size], 0, 0) == message
    with pytest.raises(DivergedError, match="node 1, exchange 4"):
        Blockwise(SignTopK(1), [1, 1]).compress(np.array([0.0, 1e39]), KEY)


@pytest.mark.parametrize("inner", [SignTopK(1), Sign()])
def test_malformed_bitmaps_are_refused(inner):
    operator = Blockwise(inner, [3, 4, 5], partial=True)
    codec, out = operator.codec(12, 0), np.empty(100, dtype=np.uint8)
    size = sum(codec.encode(operator.compress_some(np.ones(12), KEY, bools(0, 1, 0)), out))
    good = out[:size].copy()
    assert codec.decode(good, 0, 0).dense().any()
    for first in (0, 2 | 8, 128):
        bad = good.copy()
        bad[0] = first
        with pytest.raises(ValueError, match="which of 3 blocks speak"):
            codec.decode(bad, 0, 0)
    with pytest.raises(ValueError, match="which of 3 blocks speak"):
        codec.decode(good[:0], 0, 0)
    with pytest.raises(ValueError, match="malformed"):
        codec.decode(np.append(good[:1] | 4, good[1:]), 0, 0)  # a block too few


def test_what_a_joint_message_cannot_be():
    codec = Blockwise(SignTopK(1), [3, 4], partial=True).codec(7, 0)
    one = [1, 2, 1, 0, 0, 0x80, 0x3F, 0b10]  # the first block: RICE of one entry, scale 1, positive, place 0
    assert codec.decode(np.array(one, dtype=np.uint8), 0, 0).dense().tolist() == [1, 0, 0, 0, 0, 0, 0]
    both = [3, 2, 2, *one[3:7], *one[3:7]]
    good = [*both, 0b100100]  # places 0 and 3: bits of two signs, then 1 0 0 1
    assert codec.decode(np.array(good, dtype=np.uint8), 0, 0).dense().tolist() == [1, 0, 0, 1, 0, 0, 0]
    for bad, says in (
        ([*both, 0b1100], "more entries than it may"),  # both in the first block
        ([3, 2, 1, *both[3:], 0b10], "does not fit its block"),  # a scale of a block without entries
        ([*one[:3], 0, 0, 0, 0, one[-1]], "does not fit its block"),
        ([*one[:3], 0, 0, 0x80, 0xBF, one[-1]], "does not fit its block"),
        ([1, 1, *one[3:]], "kind 1"),  # all three entries, where one is allowed
        ([1, 2, 2, *one[3:]], "2 entries announced"),
    ):
        with pytest.raises(ValueError, match=says):
            codec.decode(np.array(bad, dtype=np.uint8), 0, 0)


@pytest.mark.parametrize("inner", [SignTopK(1), Sign()])
def test_silence_is_no_message_and_whole_messages_leave_nothing_out(inner):
    partial, whole = (Blockwise(inner, [3, 4], partial=flag) for flag in (True, False))
    out = np.empty(100, dtype=np.uint8)
    with pytest.raises(TypeError, match="leave out 1 of 2"):
        whole.codec(7, 0).encode(partial.compress_some(np.ones(7), KEY, bools(1, 0)), out)
    with pytest.raises((TypeError, ValueError)):
        partial.codec(7, 0).encode(partial.compress_some(np.ones(7), KEY, bools(0, 0)), out)


def test_bytes_and_silences_of_a_run_are_those_of_its_messages():
    made = cases.make("by tensor", 5)
    sent, silent, seen = [0] * 5, [0] * 5, []

    class Spy:
        max_bytes, decode = made.codec.max_bytes, made.codec.decode

        def encode(self, message, out):
            size = made.codec.encode(message, out)
            by_hand, speak = read_by_hand(out[: sum(size)].tolist(), cases.BLOCKS, True)  # to the last byte
            np.testing.assert_array_equal(by_hand, message.dense())
            seen.append((speak, sum(size)))
            return size

    network = Lockstep(made.neighbours, Spy())
    _, fired, _, _ = cases.drive(made, network, 120)
    order = iter(seen)
    for row in fired:
        for i, spoke in enumerate(row):
            silent[i] += not spoke
            sent[i] += next(order)[1] if spoke else 0
    assert next(order, None) is None
    assert {sum(speak) for speak, _ in seen} >= {1, 2}
    for i, counted in enumerate(network.traffic):
        degree = len(made.neighbours[i])
        assert counted.payload_bytes + counted.header_bytes == sent[i] * degree
        assert counted.silences == silent[i] * degree
    assert sum(silent) > 0


def test_counted_seconds_are_those_of_the_speaking_blocks():
    phases = {1: Phases()}
    counting = CountedCompressor(Blockwise(TopK(1), [100, 900], partial=True), phases)
    counting.compress(np.ones(1000), KEY)
    all_of_it = phases[1].compress
    counting.compress_some(np.ones(1000), KEY, bools(1, 0))
    part = phases[1].compress - all_of_it
    call = counting.machine.call
    assert part - call == pytest.approx((all_of_it - call) / 10)


# --- the job ---

BLOCKS = "algorithm.compressor={name='blockwise',sizes='tensors',inner={name='sign-top-k',k=2}%s}"


def built_of(tmp_path, *changes, extra=""):
    job = load_job(write_job(tmp_path), ["data.intercept=true", BLOCKS % extra, *changes])
    return build(job, Solo(), 3, range(3))


def test_tensors_become_lengths_in_the_resolved_job(tmp_path):
    built = built_of(tmp_path, "algorithm.trigger='tensor'")
    assert built.job.algorithm.compressor.sizes == (6, 1)
    assert built.compressor == Blockwise(SignTopK(2), (6, 1), partial=True)
    assert built.algorithm.trigger == TensorTrigger((6, 1), Constant(1.0))
    again = load_job(to_toml(built.job))
    assert again == built.job
    assert build(again, Solo(), 3, range(3)).compressor == built.compressor
    plain = built_of(tmp_path)
    assert plain.compressor == Blockwise(SignTopK(2), (6, 1))
    assert isinstance(plain.algorithm.trigger, Trigger)


def test_softmax_has_weights_and_intercepts(tmp_path):
    built = built_of(tmp_path, "problem.loss='softmax'", extra=",kept={weights='25%'}")
    assert built.job.algorithm.compressor.sizes == (12, 2)
    assert built.job.algorithm.compressor.kept == ("25%", 2)
    assert built.compressor == Blockwise(SignTopK(2), (12, 2), kept=("25%", 2))
    assert load_job(to_toml(built.job)) == built.job
    alone = built_of(tmp_path, "data.intercept=false")
    assert alone.job.algorithm.compressor.sizes == (6,)


class Block(NamedTuple):
    name: str
    start: int
    size: int


class Layered:
    """A problem with named blocks of its own."""

    dim = 9
    blocks = (Block("fc.weight", 0, 6), Block("fc.bias", 6, 3))


def test_a_problem_names_its_own_tensors(tmp_path):
    assert tensors_of(Layered()) == [Tensor("fc.weight", 6), Tensor("fc.bias", 3)]
    job = load_job(write_job(tmp_path), [BLOCKS % ",kept={'fc.bias'=3}"])
    table = with_tensors(job, Layered()).algorithm.compressor
    assert (table.sizes, table.kept) == ((6, 3), (2, 3))
    job = load_job(write_job(tmp_path), [BLOCKS % ",kept={'fc.bia'=3}"])
    with pytest.raises(JobError, match=r"algorithm\.compressor\.kept\.fc\.bia: no tensor of the model.*fc\.bias"):
        with_tensors(job, Layered())
    job = load_job(write_job(tmp_path), [BLOCKS % ",kept=[1]"])
    with pytest.raises(JobError, match=r"algorithm\.compressor\.kept: 1 entries; allowed: one a tensor, 2"):
        with_tensors(job, Layered())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["algorithm.trigger='tensor'"], 'algorithm.trigger = "tensor": needs a compressor of blocks'),
        (["algorithm.trigger='layer'"], 'algorithm.trigger = "layer"'),
        (["algorithm.compressor={name='blockwise',sizes='layers',inner='sign'}"], "algorithm.compressor.sizes"),
        (
            ["algorithm.compressor={name='blockwise',sizes='tensors',inner='sign',kept=[1]}"],
            "algorithm.compressor.kept: has no meaning for sign",
        ),
        (
            ["algorithm.compressor={name='blockwise',sizes=[3,3],inner={name='top-k',k=1},kept={a=1}}"],
            "algorithm.compressor.kept: a table names tensors",
        ),
        (
            ["algorithm.compressor={name='blockwise',sizes=[3,3],inner={name='top-k',k=1},kept=[1]}"],
            "algorithm.compressor.kept: 1 entries; allowed: one a block, 2",
        ),
        ([BLOCKS % ",kept=['0%']"], "algorithm.compressor.kept"),
        (["algorithm.name='choco-sgd'", "algorithm.trigger='tensor'"], "algorithm.trigger: has no meaning"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(tmp_path, changes, says):
    path = write_job(tmp_path)
    text = path.read_text()
    if "choco-sgd" in changes[0]:
        path.write_text(text.replace("threshold = 1.0\n", ""))
    with pytest.raises(JobError, match=re.escape(says)):
        load_job(path, changes)


def test_plan_foretells_a_message_of_all_blocks(tmp_path):
    built = built_of(tmp_path, "algorithm.trigger='tensor'")
    # bitmap, kind, count, two scales, three signs and the places of 3 among 7 in 5 to 7 bits
    assert traffic(built).exchanged.message in (1 + 2 + 8 + 1, 1 + 2 + 8 + 2)


def test_tensors_without_entries_are_left_out():
    from types import SimpleNamespace

    blocks = [
        SimpleNamespace(name="a", size=3),
        SimpleNamespace(name="none", size=0),
        SimpleNamespace(name="b", size=1),
    ]
    assert tensors_of(SimpleNamespace(blocks=blocks)) == [Tensor("a", 3), Tensor("b", 1)]
