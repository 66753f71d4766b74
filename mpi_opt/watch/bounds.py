"""How far a run is from its stop rules, and how long it may still take."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.jobkeys import Stop


class Bound(NamedTuple):
    """One stop rule that a run comes nearer to at a steady pace.

    Attributes
    ----------
    name : str
        Its key under ``[stop]``.
    value, limit : float
        How far the run has come, and where it ends.
    left : float or None
        Seconds left at the pace of late; ``None`` before that is known.
    """

    name: str
    value: float
    limit: float
    left: float | None

    @property
    def share(self) -> float:
        """``value / limit``, between 0 and 1."""
        return min(1.0, max(0.0, self.value / self.limit))


_SERIES = (("steps", "step"), ("rounds", "round"), ("epochs", "epoch"), ("seconds", "seconds"))


def bounds(stop: Stop, history: Mapping[str, npt.NDArray[Any]], busiest: float) -> list[Bound]:
    """Return the rules that end the run at a steady pace, the one that ends it first in front.

    Parameters
    ----------
    stop : Stop
        The job's.
    history : mapping of str to ndarray, shape (rows,)
        Series of one node: ``step``, ``round``, ``epoch``, ``seconds``, ``wall_seconds``, ``payload_bytes``,
        ``header_bytes``.
    busiest : float
        Bytes that the node which sent most has sent so far.
    """
    found = []
    wall = history.get("wall_seconds", np.zeros(0))
    for name, series in _SERIES:
        limit, values = getattr(stop, name), history.get(series, np.zeros(0))
        if isinstance(limit, int | float) and len(values):
            found.append(Bound(name, float(values[-1]), float(limit), _left(values, wall, limit)))
    if stop.megabytes is not None and len(wall):
        sent = history["payload_bytes"] + history["header_bytes"]
        scale = 1e-6 * (busiest / sent[-1] if sent[-1] else 1.0)
        found.append(Bound("megabytes", 1e-6 * busiest, stop.megabytes, _left(scale * sent, wall, stop.megabytes)))
    return sorted(found, key=lambda each: (each.left is None, each.left, -each.share))


def _left(values: npt.NDArray[Any], wall: npt.NDArray[Any], limit: float) -> float | None:
    """Return the seconds left at the pace of the second half of the rows."""
    first = len(values) // 2 - (len(values) == 2)
    if len(values) < 2 or not np.isfinite(values[-1]):
        return None
    gain, took = float(values[-1] - values[first]), float(wall[-1] - wall[first])
    if gain <= 0 or took <= 0:
        return None
    return max(0.0, (limit - float(values[-1])) * took / gain)
