"""Latency and bandwidth out of measured times, and the file that keeps both."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.errors import JobError
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.scaling.curves import Curve, Curves

SAME_HOST, BETWEEN_HOSTS = "same host", "between hosts"
FORMAT, VERSION = "mpi_opt network", 1

_WORTH = 0.6
"""A step in the times is believed where it leaves at most so much of the fit's relative error..."""
_NOTICED = 0.1
"""... and the error was more than this."""


@dataclass(frozen=True, slots=True)
class Line:
    """``latency + nbytes / bandwidth``, and ``extra`` seconds more for messages longer than ``threshold`` bytes.

    The step is that from eager messages to rendezvous ones, which ask the receiver first; without it ``threshold`` is
    infinite and ``extra`` 0.
    """

    latency: float
    bandwidth: float
    threshold: float = math.inf
    extra: float = 0.0

    def at(self, nbytes: float) -> float:
        """Return the seconds of a size."""
        return self.latency + nbytes / self.bandwidth + (self.extra if nbytes > self.threshold else 0.0)


def fit(curve: Curve) -> Line:
    """Return the line with the least squared relative error, none of its parts negative.

    Relative, because sizes span six decades: in absolute terms the largest message alone would count.
    """
    sizes, seconds = np.array(curve.nbytes), np.array(curve.seconds)
    ones = np.ones_like(sizes)
    (latency, per_byte), error = _least([ones, sizes], seconds)
    best = (latency, per_byte, math.inf, 0.0)
    if error > _NOTICED and sizes.size >= 6:
        bound = _WORTH * error
        for threshold in sizes[1:-2]:
            (latency, per_byte, extra), left = _least([ones, sizes, (sizes > threshold).astype(float)], seconds)
            if left <= bound and extra > 0:
                best, bound = (latency, per_byte, float(threshold), extra), left
    latency, per_byte, threshold, extra = best
    return Line(latency, 1.0 / per_byte if per_byte else math.inf, threshold, extra)


def _least(columns: Sequence[Any], seconds: Any) -> tuple[list[float], float]:
    """Return the non-negative coefficients of ``columns`` that fit ``seconds``, and the RMS relative error."""
    from scipy.optimize import nnls

    scaled = np.stack(columns, axis=1) / seconds[:, None]
    norms = np.linalg.norm(scaled, axis=0)
    norms[norms == 0] = 1.0
    found, residual = nnls(scaled / norms, np.ones(seconds.size))
    return [float(each) for each in found / norms], float(residual) / math.sqrt(seconds.size)


@dataclass(frozen=True, slots=True)
class Pair:
    """Ping-pong between two ranks: their ``kind``, who they are, and half the round trip by size."""

    kind: str
    ranks: tuple[int, int]
    curve: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was measured on the ranks.

    Attributes
    ----------
    ranks : int
    pairs : tuple of Pair
        One of each kind that there is; none where there is one rank.
    degree : int
        Neighbours in the ring: 2, of two ranks 1.
    exchange, reduction : Curve or None
        By bytes of a message, and of a vector; ``None`` for one rank.
    posting : float
        Seconds of an exchange's calls, waiting left out.
    cautions : tuple of str
        Why the figures may mislead.
    library : str
        The MPI library.
    """

    ranks: int
    pairs: tuple[Pair, ...] = ()
    degree: int = 0
    exchange: Curve | None = None
    reduction: Curve | None = None
    posting: float = 0.0
    cautions: tuple[str, ...] = ()
    library: str = ""

    @property
    def line(self) -> Line:
        """The ping-pong's fit, that between hosts where there are several; one rank sends nothing."""
        return fit(self.pairs[-1].curve) if self.pairs else Line(0.0, math.inf)

    @property
    def profile(self) -> NetworkProfile:
        """The network for predictions: fitted figures, and the measured times where they reach."""
        line, overhead = self.line, 0.0
        if not self.pairs:
            return NetworkProfile(line.latency, line.bandwidth)
        message = self.pairs[-1].curve
        if self.exchange is not None and self.degree > 1:
            overhead = max(self.exchange.seconds[0] - message.seconds[0], 0.0) / (self.degree - 1)
        curves = Curves(
            nodes=self.ranks,
            message=message,
            exchange=self.exchange,
            degree=self.degree,
            reduction=self.reduction,
            posting=self.posting,
        )
        return NetworkProfile(line.latency, line.bandwidth, overhead, curves)

    def values(self) -> Mapping[str, Any]:
        """Return it as JSON values; ``null`` stands for infinite."""
        profile = self.profile
        return {
            "format": FORMAT,
            "version": VERSION,
            "library": self.library,
            "ranks": self.ranks,
            "latency": profile.latency,
            "bandwidth": _finite(profile.bandwidth),
            "overhead": profile.overhead,
            "pairs": [{"kind": each.kind, "ranks": list(each.ranks), **_curve(each.curve)} for each in self.pairs],
            "ring": None
            if self.exchange is None
            else {"degree": self.degree, "posting": self.posting, **_curve(self.exchange)},
            "reduction": None if self.reduction is None else _curve(self.reduction),
            "cautions": list(self.cautions),
        }


def _curve(curve: Curve) -> Mapping[str, Any]:
    line = fit(curve)
    return {
        "nbytes": list(curve.nbytes),
        "seconds": list(curve.seconds),
        "fit": {
            "latency": line.latency,
            "bandwidth": _finite(line.bandwidth),
            "threshold": _finite(line.threshold),
            "extra": line.extra,
        },
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def read_network(path: str | os.PathLike[str]) -> Measurement:
    """Read what ``mpi-opt info --network --json`` wrote.

    Fits are made anew from the times.

    Raises
    ------
    JobError
        No such file, or not of this kind: names it.
    """
    try:
        values = json.loads(Path(path).read_bytes())
    except OSError as failed:
        raise JobError(f"cannot read {path}: {failed.strerror or failed}") from None
    except ValueError as wrong:
        raise JobError(f"{path} is no JSON: {wrong}") from None
    told = f"{path} is not what mpi-opt info --network --json writes"
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise JobError(told)
    if values.get("version") != VERSION:
        raise JobError(f"{path} has version {values.get('version')} of the format; allowed: {VERSION}")
    try:
        ring, reduction = values["ring"], values["reduction"]
        return Measurement(
            ranks=int(values["ranks"]),
            pairs=tuple(
                Pair(str(each["kind"]), (int(each["ranks"][0]), int(each["ranks"][1])), _read_curve(each))
                for each in values["pairs"]
            ),
            degree=0 if ring is None else int(ring["degree"]),
            exchange=None if ring is None else _read_curve(ring),
            reduction=None if reduction is None else _read_curve(reduction),
            posting=0.0 if ring is None else float(ring["posting"]),
            cautions=tuple(str(each) for each in values["cautions"]),
            library=str(values["library"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as wrong:
        raise JobError(f"{told}: {type(wrong).__name__}: {wrong}") from None
    except JobError as wrong:
        raise JobError(f"{told}: {wrong}") from None


def _read_curve(values: Mapping[str, Any]) -> Curve:
    return Curve(tuple(float(each) for each in values["nbytes"]), tuple(float(each) for each in values["seconds"]))
