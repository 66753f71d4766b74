"""A measured network as a table for people."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from mpi_opt.scaling.cost import NetworkProfile, exchange_seconds, reduction_seconds, spoken
from mpi_opt.scaling.curves import Curve
from mpi_opt.scaling.fitted import Line, Measurement, fit

_BINARY = ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_WIDTHS = (9, 11, 11, 7, 13)


def lines(found: Measurement) -> list[str]:
    """Return the lines: for each pattern its fit, and by size what was measured, what is fitted, and their ratio."""
    head = f"network      {found.ranks} rank{'s' * (found.ranks > 1)}, {found.library}"
    if not found.pairs:
        return [head, "             one rank sends nothing: start more with mpiexec -n N mpi-opt info --network"]
    profile = found.profile
    formulas = replace(profile, curves=None)
    text = [head, f"profile      {profile}"]
    for pair in found.pairs:
        a, b = pair.ranks
        line = fit(pair.curve)
        text += ["", f"ping-pong between ranks {a} and {b}, {pair.kind}: {_told(line)}; half a round trip"]
        text += _table(pair.curve, line)
    if found.exchange is not None:
        around = f"{found.degree} neighbour{'s' * (found.degree > 1)}"
        line = fit(found.exchange)
        text += [
            "",
            f"ring, all ranks at once, {around} each: {_told(line)}; one exchange, by bytes of a message",
            f"of it {spoken(found.posting, 's')} in the calls that hand over and take in, without waiting",
        ]
        text += _table(found.exchange, line, lambda size: exchange_seconds(size, found.degree, formulas))
    if found.reduction is not None:
        line = fit(found.reduction)
        text += ["", f"Reduce to rank 0 and Bcast of the answer: {_told(line)}; both together"]
        text += _table(found.reduction, line, lambda size: reduction_seconds(size, found.ranks, formulas))
    return text + [""] * bool(found.cautions) + [f"caution: {each}" for each in found.cautions]


def _told(line: Line) -> str:
    text = str(NetworkProfile(line.latency, line.bandwidth))
    if math.isfinite(line.threshold):
        text += f", {spoken(line.extra, 's')} more above {_size(line.threshold)}"
    return text


def _table(curve: Curve, line: Line, formula: Callable[[float], float] | None = None) -> list[str]:
    heads = ["size", "measured", "fitted", "ratio"] + ["by ping-pong"] * (formula is not None)
    rows = [heads]
    for size, seconds in zip(curve.nbytes, curve.seconds, strict=True):
        fitted = line.at(size)
        row = [_size(size), spoken(seconds, "s"), spoken(fitted, "s"), f"{seconds / fitted:.2f}"]
        rows.append(row if formula is None else [*row, spoken(formula(size), "s")])
    return [_row(row) for row in rows]


def _row(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=False))


def _size(nbytes: float) -> str:
    unit, name = next((each for each in _BINARY if nbytes >= each[0]), _BINARY[-1])
    return f"{nbytes / unit:g} {name}"
