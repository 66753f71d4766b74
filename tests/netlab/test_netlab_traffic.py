"""What the switch saw is what the runs counted, and what TCP, IP, Ethernet and MPI put around it.

Two runs of one job that differ in their steps alone: start, evaluations, end and launcher are the same in both, so the
difference is the method's own messages and some control.
"""

import numpy as np
import pytest
from netlab import edges

APART = 3000.0
"""Bytes between any two hosts for some control reductions and the launcher's; a run takes ten of the former."""


def beyond(ran, name):
    """Return what the long run took beyond the short one: counted bytes and messages a node, streams, frames."""
    long, short = ran(name), ran(f"{name}-short")
    assert long.dropped == short.dropped == 0
    counted, messages = (
        long.total(*names) - short.total(*names)
        for names in (("payload_bytes", "header_bytes"), ("messages", "silences"))
    )
    assert long.course.rows == short.course.rows == 2
    return counted, messages, long.stream - short.stream, long.bytes - short.bytes


@pytest.mark.parametrize("name", ["sparq", "d-psgd"])
def test_each_edge_carries_what_was_counted(name, ran):
    counted, messages, stream, seen = beyond(ran, name)
    assert (messages == messages[0]).all()
    found = edges.faults(edges.ring(4, counted), edges.ring(4, messages), stream, seen, APART)
    assert not found, "\n".join(found)
    if name == "d-psgd":  # messages long enough for the bound to be narrow: a twentieth more or less is seen
        for wrong in (0.95, 1.05):
            assert edges.faults(edges.ring(4, wrong * counted), edges.ring(4, messages), stream, seen, APART)
    diagonal = stream[[0, 1, 2, 3], [2, 3, 0, 1]]
    assert (diagonal <= APART).all()
    assert (np.abs(diagonal) < 0.2 * stream[[0, 1, 2, 3], [1, 2, 3, 0]]).all()


def test_silence_costs_an_envelope_and_speech_its_bytes(ran):
    run = ran("sparq")
    assert 0.02 < run.total("messages").sum() / run.total("messages", "silences").sum() < 0.7
    counted, messages, stream, _ = beyond(ran, "sparq")
    edge = stream[1, 2] - counted[1] / 2
    assert 30 * messages[1] / 2 < edge < edges.ENVELOPE * messages[1] / 2 + APART


def test_whole_models_take_little_more_than_themselves(ran):
    counted, _, stream, seen = beyond(ran, "d-psgd")
    around = [stream[i, (i + 1) % 4] for i in range(4)], [seen[i, (i + 1) % 4] for i in range(4)]
    for i in range(4):
        assert counted[i] / 2 <= around[0][i] <= 1.02 * counted[i] / 2
        assert 1.04 * counted[i] / 2 <= around[1][i] <= 1.15 * counted[i] / 2


def test_reductions_carry_what_was_counted(ran):
    counted, messages, stream, seen = beyond(ran, "newton")
    # By trees: other edges than to and from the master, but as many messages and bytes in all.
    assert messages[1] == 40
    assert counted.sum() <= stream.sum() <= counted.sum() + edges.ENVELOPE * messages.sum() + 12 * APART
    assert stream.sum() <= seen.sum() <= stream.sum() + edges.HEADERS * 2 * messages.sum() + 12 * APART
