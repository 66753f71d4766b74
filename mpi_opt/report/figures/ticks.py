"""Logarithmic axes: which can be, where their ticks are, and how numbers are written there."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Numbers: TypeAlias = npt.ArrayLike


def log_axis(axes: "Axes", which: str, values: Numbers, text: Callable[[float], str] | None = None) -> bool:
    """Make an axis logarithmic if all that it shows can stand on one; return whether it is.

    Parameters
    ----------
    axes : Axes
    which : {"x", "y"}
    values : array_like
        What it shows; NaN and infinities are passed over. A zero beside positive values (the start of a run, at which
        nothing was sent) gets its own place at the end, and what is below the least positive value is linear.
    text : callable, optional
        What is written at a tick; `power_text` by default.
    """
    finite = np.asarray(values, dtype=np.float64).ravel()
    finite = finite[np.isfinite(finite)]
    positive = finite[finite > 0]
    if not positive.size or (finite < 0).any():
        return False
    axis = axes.xaxis if which == "x" else axes.yaxis
    scale = axes.set_xscale if which == "x" else axes.set_yscale
    least, most = float(positive.min()), float(positive.max())
    if positive.size == finite.size:
        scale("log")
        _ticks(axis, _decades(least, most), text or power_text)
    else:
        from matplotlib.ticker import NullLocator

        scale("symlog", linthresh=least, linscale=0.35)
        _ticks(axis, [0.0, *(tick for tick in _decades(least, most) if tick >= least)], text or power_text)
        axis.set_minor_locator(NullLocator())
        (axes.set_xlim if which == "x" else axes.set_ylim)(0.0, most * 1.15)
    return True


def linear_axis(axes: "Axes", which: str, text: Callable[[float], str] | None = None) -> None:
    """Make an axis linear that begins at 0, with few ticks; ``text`` says what is written at one."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    if text is not None:
        axis.set_major_formatter(FuncFormatter(lambda value, _position: text(value)))
    (axes.set_xlim if which == "x" else axes.set_ylim)(0.0, None)


def _decades(least: float, most: float) -> list[float]:
    """Return powers of ten round the values, thinned out, or rounder numbers where there are hardly any."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    powers = range(low, high + 1)
    if sum(least <= 10.0**power <= most for power in powers) >= 2:
        return [10.0**power for power in range(low, high + 1, max(1, math.ceil((high - low) / 8)))]
    for digits in ((1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9), tuple(k / 10 for k in range(10, 100))):
        found = [digit * 10.0**power for power in powers for digit in digits]
        if sum(least <= tick <= most for tick in found) >= 2:
            break
    return found


def _ticks(axis: "Axis", values: Sequence[float], text: Callable[[float], str]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_major_formatter(FuncFormatter(lambda value, _position: text(value)))
    axis.set_minor_formatter(NullFormatter())


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_text(value: float) -> str:
    """Return a tick's number: ``0.1``, ``20``, ``10⁻⁶``, ``5·10⁴``."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ""
    power = math.floor(math.log10(abs(value)) + 1e-9)
    if -2 <= power <= 3:
        return f"{value:.6g}"
    digits = f"{value / 10.0**power:.3g}"
    raised = f"10{str(power).translate(_RAISED)}"
    return raised if digits == "1" else f"{digits}·{raised}"
