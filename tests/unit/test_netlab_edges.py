"""The bound that a switch's count is held against: true traffic passes, and known mistakes do not."""

import numpy as np
import pytest
from netlab import edges

MESSAGES, SIZE = 200, 5000


def traffic(size=SIZE, messages=MESSAGES):
    """Return counted bytes, messages, streams and frames of a ring of four, as TCP would carry them."""
    each = np.full(4, 2.0 * messages)
    counted, sent = edges.ring(4, each * size), edges.ring(4, each)
    stream = counted + 86 * sent * (1 + size // edges.PIECE)
    segments = sent * -(-(size + 86) // edges.SEGMENT)
    seen = stream + edges.HEADERS * (segments + segments.T / 2)
    return counted, sent, stream, seen


@pytest.mark.parametrize("size", [0, 40, SIZE, 100_000])
def test_what_tcp_carries_passes(size):
    assert edges.faults(*traffic(size)) == []


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_bytes_counted_wrongly_are_seen(factor):
    counted, messages, stream, seen = traffic()
    assert len(edges.faults(factor * counted, messages, stream, seen)) >= 8


def test_messages_of_another_edge_are_seen():
    counted, messages, stream, seen = traffic(40)
    stream[0, 2] += 5000
    seen[0, 2] += 6000
    found = edges.faults(counted, messages, stream, seen)
    assert len(found) == 2
    assert all(line.startswith("0 to 2") for line in found)


def test_messages_sent_and_not_counted_are_seen():
    counted, messages, stream, seen = traffic(40)
    assert edges.faults(counted / 2, messages / 2, stream, seen)


def test_what_is_sent_twice_is_seen_in_the_frames():
    counted, messages, stream, seen = traffic()
    assert all("frames" in line for line in edges.faults(counted, messages, stream, 1.2 * seen))


def test_two_nodes_have_one_neighbour():
    np.testing.assert_array_equal(edges.ring(2, np.array([10.0, 4.0])), [[0, 10], [4, 0]])
