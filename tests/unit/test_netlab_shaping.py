"""The emulated network's links by themselves: closed forms, order, and what is counted. No root needed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from netlab.shaping import Counts, Shaper, tcp_payload


def deliver(shaper, until=math.inf):
    """Let time pass; return what arrives as (time, host, frame), and how many were dropped."""
    arrived, dropped = [], 0
    while shaper.next <= until and shaper.next < math.inf:
        now = shaper.next
        frames, lost = shaper.due(now)
        arrived += [(now, *each) for each in frames]
        dropped += lost
    return arrived, dropped


def test_a_frame_alone_takes_delay_and_size_over_rate():
    shaper = Shaper(2, delay=0.01, rate=1000.0)
    assert shaper.take(5.0, 0, [1], b"x" * 100)
    ((at, host, frame),), dropped = deliver(shaper)
    assert at == pytest.approx(5.0 + 0.01 + 0.1)
    assert (host, frame, dropped) == (1, b"x" * 100, 0)


def test_frames_of_one_sender_follow_each_other():
    shaper = Shaper(3, delay=0.01, rate=1000.0)
    for target in (1, 2, 1):
        shaper.take(0.0, 0, [target], bytes(100))
    arrived, _ = deliver(shaper)
    assert [(round(at, 9), host) for at, host, _ in arrived] == [(0.11, 1), (0.21, 2), (0.31, 1)]


def test_frames_to_one_receiver_share_its_link():
    shaper = Shaper(4, delay=0.01, rate=1000.0)
    for source in (1, 2, 3):
        shaper.take(0.0, source, [0], bytes([source]) * 100)
    arrived, _ = deliver(shaper)
    assert [round(at, 9) for at, _, _ in arrived] == [0.11, 0.21, 0.31]
    assert [frame[0] for _, _, frame in arrived] == [1, 2, 3]


def test_without_a_rate_only_the_delay_is_left():
    shaper = Shaper(3, delay=0.02, rate=math.inf)
    shaper.take(1.0, 0, [1, 2], bytes(1500))
    arrived, _ = deliver(shaper)
    assert [(at, host) for at, host, _ in arrived] == [(1.02, 1), (1.02, 2)]


def test_a_full_link_drops_and_says_so():
    shaper = Shaper(3, delay=0.0, rate=1000.0, queue=0.25)
    room = [shaper.take(0.0, 0, [1], bytes(100)) for _ in range(5)]
    assert room == [True, True, True, False, False]
    shaper = Shaper(8, delay=0.0, rate=1000.0, queue=0.25)
    assert all(shaper.take(0.0, source, [0], bytes(100)) for source in range(1, 8))
    arrived, dropped = deliver(shaper)
    assert len(arrived) + dropped == 7
    assert dropped > 0


@given(
    st.lists(
        st.tuples(st.floats(0, 0.1), st.integers(0, 3), st.integers(1, 3), st.integers(60, 1514)),
        min_size=1,
        max_size=60,
    )
)
def test_order_is_kept_and_no_link_is_faster_than_its_rate(sent):
    delay, rate = 0.005, 20_000.0
    shaper, now = Shaper(4, delay, rate, queue=math.inf), 0.0
    begun = {}
    for number, (pause, source, further, size) in enumerate(sent):
        now += pause
        frame = number.to_bytes(4) + bytes(size - 4)
        begun[number] = (now, source, (source + further) % 4, size)
        assert shaper.take(now, source, [(source + further) % 4], frame)
    arrived, dropped = deliver(shaper)
    assert dropped == 0
    assert sorted(int.from_bytes(frame[:4]) for _, _, frame in arrived) == list(range(len(sent)))
    for at, host, frame in arrived:
        since, _, target, size = begun[int.from_bytes(frame[:4])]
        assert host == target
        assert at >= since + delay + size / rate - 1e-9
    for receiver in range(4):
        mine = [(at, len(frame)) for at, host, frame in arrived if host == receiver]
        for k, (first, _) in enumerate(mine):
            for m in range(k + 1, len(mine)):
                assert mine[m][0] - first >= sum(size for _, size in mine[k + 1 : m + 1]) / rate - 1e-9
    for source in range(4):
        for target in range(4):
            pair = [
                int.from_bytes(f[:4]) for _, _, f in arrived if begun[int.from_bytes(f[:4])][1:3] == (source, target)
            ]
            assert pair == sorted(pair)


def tcp_frame(stream, padding=0, options=3, protocol=6):
    header = bytes([0x45, 0]) + (20 + 20 + 4 * options + stream).to_bytes(2) + bytes(5) + bytes([protocol]) + bytes(10)
    tcp = bytes(12) + bytes([(5 + options) << 4]) + bytes(7 + 4 * options)
    return bytes(12) + b"\x08\x00" + header + tcp + bytes(stream) + bytes(padding)


def test_the_bytes_of_a_stream():
    assert tcp_payload(tcp_frame(1000)) == 1000
    assert tcp_payload(tcp_frame(7, options=0)) == 7
    assert tcp_payload(tcp_frame(0, padding=6)) == 0
    assert tcp_payload(tcp_frame(100, protocol=17)) == 0
    assert tcp_payload(bytes(60)) == 0


def test_counts_by_sender_and_receiver():
    counts = Counts.none(3)
    counts.add(0, 2, tcp_frame(10))
    counts.add(0, 2, tcp_frame(30))
    counts.add(2, 1, bytes(42))
    told = counts.as_dict()
    assert told["frames"] == [[0, 0, 2], [0, 0, 0], [0, 1, 0]]
    assert told["payload"] == [[0, 0, 40], [0, 0, 0], [0, 0, 0]]
    assert told["bytes"] == [[0, 0, 40 + 2 * 66], [0, 0, 0], [0, 42, 0]]
    assert told["dropped"] == 0
