"""Whether what a switch saw agrees with what runs counted. No root needed."""

import numpy as np

HEADERS = 66
"""Bytes of Ethernet, IP and TCP before a segment's payload (14, 20, 20 and 12 of time stamps)."""

SEGMENT = 1448
"""Payload of a full segment on Ethernet."""

ENVELOPE = 110
"""The most that MPI and its transport put before a message, bytes; MPICH over libfabric's TCP: 86."""

PIECE = 16384
"""Messages longer than this are sent in pieces, each in an envelope."""


def faults(counted, messages, stream, seen, apart=0.0):
    """Return where the traffic of one run beyond another disagrees with its counted bytes: one line an edge.

    Parameters
    ----------
    counted, messages : ndarray, shape (n, n)
        Bytes handed to MPI from row to column, headers among them, and in how many messages, empty ones too.
    stream, seen : ndarray, shape (n, n)
        Bytes of TCP streams at the switch, and of all frames.
    apart : float
        What else any two hosts may have sent each other: control, acknowledgements of the launcher.
    """
    found = []
    for edge in np.argwhere(~np.eye(len(counted), dtype=bool)):
        i, j = edge
        most = counted[i, j] + ENVELOPE * (messages[i, j] + counted[i, j] / PIECE) + apart
        # A segment a message, and an acknowledgement of each that came the other way; full segments for long ones.
        segments = messages[i, j] + messages[j, i] + counted[i, j] / SEGMENT + counted[j, i] / SEGMENT
        if not counted[i, j] <= stream[i, j] <= most:
            found.append(
                f"{i} to {j}: {stream[i, j]} bytes in streams, {counted[i, j]:.0f} counted, at most {most:.0f}"
            )
        if not stream[i, j] <= seen[i, j] <= most + HEADERS * segments + apart:
            found.append(f"{i} to {j}: {seen[i, j]} bytes in frames, at most {most + HEADERS * segments + apart:.0f}")
    return found


def ring(n, each):
    """Return a matrix of what each node sends to either neighbour on a ring, from its total, shape (n,)."""
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in {(i - 1) % n, (i + 1) % n}:
            matrix[i, j] = each[i] / len({(i - 1) % n, (i + 1) % n})
    return matrix
