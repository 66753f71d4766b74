"""What happens to frames between hosts: links of a given rate, a delay, and what was counted. No clock, no devices.

Every host has one link to the switch, of the same rate in both directions. A frame leaves through its sender's link,
is under way for the delay, and arrives through its receiver's link, each link one frame after the other. A frame
enters the receiver's link while it still leaves the sender's, as through a switch that does not store frames: alone on
the network it takes ``delay + size / rate``.
"""

import heapq
import math
from dataclasses import asdict, dataclass, field

_LEAVES, _ARRIVES = 0, 1


class Shaper:
    """Frames under way.

    Parameters
    ----------
    hosts : int
    delay : float
        Seconds one way.
    rate : float
        Bytes a second of each link in each direction; infinite: no limit.
    queue : float
        Seconds of frames that may wait before one link; frames beyond are dropped.
    """

    def __init__(self, hosts: int, delay: float, rate: float, queue: float = 1.0) -> None:
        self._delay, self._rate, self._queue = delay, rate, queue
        self._up, self._down = [0.0] * hosts, [0.0] * hosts
        self._under_way: list[tuple[float, int, int, float, int, bytes]] = []
        self._number = 0

    @property
    def next(self) -> float:
        """When something happens next; infinite where nothing is under way."""
        return self._under_way[0][0] if self._under_way else math.inf

    def take(self, now: float, source: int, targets: list[int], frame: bytes) -> bool:
        """Take a frame from its sender; return whether there was room for it."""
        begins = max(self._up[source], now)
        if begins - now > self._queue:
            return False
        leaves = self._up[source] = begins + len(frame) / self._rate
        for target in targets:
            self._note(leaves + self._delay, _LEAVES, begins + self._delay, target, frame)
        return True

    def due(self, now: float) -> tuple[list[tuple[int, bytes]], int]:
        """Return what has arrived by ``now``, in order, as ``(host, frame)``, and how many frames found no room."""
        arrived, dropped = [], 0
        while self._under_way and self._under_way[0][0] <= now:
            at, _, stage, could_begin, target, frame = heapq.heappop(self._under_way)
            if stage == _ARRIVES:
                arrived.append((target, frame))
                continue
            begins = max(self._down[target], could_begin)
            if begins - at > self._queue:
                dropped += 1
                continue
            ends = self._down[target] = begins + len(frame) / self._rate
            # Frames of one host stay in order: of two at the same moment the one noted first goes first.
            self._note(max(ends, at), _ARRIVES, 0.0, target, frame)
        return arrived, dropped

    def _note(self, at: float, stage: int, could_begin: float, target: int, frame: bytes) -> None:
        self._number += 1
        heapq.heappush(self._under_way, (at, self._number, stage, could_begin, target, frame))


def tcp_payload(frame: bytes) -> int:
    """Return the bytes of a TCP stream that an Ethernet frame carries, its three headers not among them."""
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != 6:
        return 0
    ip_header = 4 * (frame[14] & 15)
    length = int.from_bytes(frame[16:18])  # of the datagram: short frames are padded
    return length - ip_header - 4 * (frame[14 + ip_header + 12] >> 4)


@dataclass
class Counts:
    """What went through the switch since its start, as ``[sender][receiver]``; frames to all count for each.

    Attributes
    ----------
    frames, bytes : list of list of int
        Ethernet frames, and their bytes from the first of the header to the last of the payload.
    payload : list of list of int
        The bytes of TCP streams in them; what is sent again counts again.
    dropped : int
        Frames that found no room.
    """

    frames: list[list[int]]
    bytes: list[list[int]]
    payload: list[list[int]]
    dropped: int = field(default=0)

    @classmethod
    def none(cls, hosts: int) -> "Counts":
        """Return counts of nothing."""
        return cls(*([[0] * hosts for _ in range(hosts)] for _ in range(3)))

    def add(self, source: int, target: int, frame: bytes) -> None:
        """Count a frame."""
        self.frames[source][target] += 1
        self.bytes[source][target] += len(frame)
        self.payload[source][target] += tcp_payload(frame)

    def as_dict(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return asdict(self)
