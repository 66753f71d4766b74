"""A scaling test in four panels: time a step, speed-up, efficiency, shares of the phases.

Filled marks are measurements that nothing speaks against, hollow ones are marked in the table (oversubscribed, noisy,
one run only) and no line leads to them; dashed lines with "model" in their name were computed, not measured.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mpi_opt.report.figures.style import INK, MODEL_DASHES, Mark, label, legend, mark, new_figure, note
from mpi_opt.report.figures.ticks import log_axis
from mpi_opt.report.scaletable import heading
from mpi_opt.report.scaling import Forecast, Predicted, ScaleReport
from mpi_opt.scaling.merit import PHASES, Merit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURED, MARKED, IDEAL = "measured", "measured, marked", "ideal"
_DOTS = (0, (1.0, 1.6))


def scale_figure(report: ScaleReport) -> "Figure":
    """Return the figure of a scaling test.

    Raises
    ------
    JobError
        Matplotlib is not installed.
    """
    figure, (times, gains, efficiencies, shares) = new_figure(width=7.4, height=6.2, rows=2, columns=2)
    measured = [merit for merit in report.merits if merit.step is not None]
    reach = [merit.ranks for merit in measured] + [p.ranks for each in report.forecasts for p in each.points]
    if not measured:
        for axes in (times, gains, efficiencies, shares):
            note(axes, "no point has figures yet")
        return figure
    _curves(times, report, measured, lambda merit: merit.step, lambda point: point.seconds, bars=True)
    _curves(gains, report, measured, lambda merit: merit.speedup, lambda point: point.speedup)
    _curves(
        efficiencies,
        report,
        measured,
        lambda merit: None if merit.efficiency is None else 100.0 * merit.efficiency,
        lambda point: 100.0 * point.speedup / point.ranks,
    )
    span = [min(reach), max(reach)]
    gains.plot(span, span, color=INK, linewidth=0.8, linestyle=_DOTS, label=IDEAL)
    efficiencies.axhline(100.0, color=INK, linewidth=0.8, linestyle=_DOTS, label="_nolegend_")
    efficiencies.set_ylim(bottom=0.0)
    _shares(shares, measured)
    predicted = [point for each in report.forecasts for point in each.points]
    log_axis(times, "y", [*(merit.step or 0.0 for merit in measured), *(point.seconds for point in predicted)])
    log_axis(gains, "y", [*span, *(merit.speedup or 1.0 for merit in measured), *(p.speedup for p in predicted)])
    for axes in (times, gains, efficiencies):
        _ranks_axis(axes, reach)
    _ranks_axis(shares, [merit.ranks for merit in measured])
    label(times, x="ranks", y="seconds a step", title="Time a step")
    label(gains, x="ranks", y="speed-up", title="Speed-up (rows a second)")
    label(efficiencies, x="ranks", y="% of ideal", title="Efficiency")
    label(shares, x="ranks", y="% of the run clock", title="Where the time goes, mean over ranks")
    shares.legend(fontsize=8.0, frameon=False, labelcolor=INK, ncols=2, loc="upper center")
    legend(figure, gains)
    from matplotlib.font_manager import FontProperties

    for words in figure.legends:
        words.set_title(heading(report), prop=FontProperties(size=8.0))
        words.set_alignment("left")
    return figure


def caption(report: ScaleReport) -> str:
    """Return what the figure shows, in words, for a page or a paper."""
    marked = [f"{merit.ranks} ({', '.join(merit.marks)})" for merit in report.merits if merit.marks]
    text = f"{heading(report)}. Marks are medians over repeats, bars their range."
    if marked:
        text += f" Hollow marks are not to be trusted: ranks {', '.join(marked)}."
    if report.forecasts:
        text += " Dashed lines are a model's, not measured."
    return text


def _curves(
    axes: "Axes",
    report: ScaleReport,
    measured: Sequence[Merit],
    of: Callable[[Merit], float | None],
    model: Callable[[Predicted], float],
    *,
    bars: bool = False,
) -> None:
    for index, forecast in enumerate(report.forecasts, start=1):
        look = mark(index)
        axes.plot(
            [point.ranks for point in forecast.points],
            [model(point) for point in forecast.points],
            color=look.colour,
            linestyle=MODEL_DASHES,
            linewidth=1.2,
            zorder=2.6 if forecast.measured else 2.0,  # often hidden by a network as fast
            label=_model_name(forecast),
        )
    _points(axes, measured, of, mark(0), (MEASURED, MARKED), bars=bars)


def _points(
    axes: "Axes",
    measured: Sequence[Merit],
    of: Callable[[Merit], float | None],
    look: Mark,
    names: tuple[str, str],
    *,
    bars: bool = False,
) -> None:
    """Draw what was measured: clean points filled and joined, marked ones hollow and alone."""
    for clean, name in zip((True, False), names, strict=True):
        shown = [(merit, at) for merit in measured if merit.clean is clean and (at := of(merit)) is not None]
        if not shown:
            continue
        x, y = [merit.ranks for merit, _ in shown], [value for _, value in shown]
        spread = None
        if bars:
            below = [value - (merit.least or value) for merit, value in shown]
            spread = [below, [(merit.most or value) - value for merit, value in shown]]
        axes.errorbar(
            x,
            y,
            yerr=spread,
            color=look.colour,
            marker=look.marker,
            markersize=5.5,
            markerfacecolor=look.colour if clean else "white",
            linestyle=look.dashes if clean else "none",
            linewidth=1.4,
            elinewidth=0.9,
            capsize=2.5,
            clip_on=False,
            zorder=3,
            label=name,
        )


def _shares(axes: "Axes", measured: Sequence[Merit]) -> None:
    for index, phase in enumerate(PHASES):

        def share(merit: Merit, k: int = index) -> float | None:
            return None if merit.shares is None else 100.0 * merit.shares[k]

        _points(axes, measured, share, mark(index), (phase, "_nolegend_"))
        if not any(merit.clean for merit in measured):
            axes.lines[-1].set_label(phase)
    most = max((100.0 * share for merit in measured for share in merit.shares or ()), default=100.0)
    axes.set_ylim(0.0, 1.35 * most)


def _model_name(forecast: Forecast) -> str:
    where = f"{forecast.network}, measured here" if forecast.measured else forecast.network
    return f"model: {where}"


def _ranks_axis(axes: "Axes", ranks: Sequence[int]) -> None:
    """Show numbers of ranks on a scale of powers of two."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    least, most = min(ranks), max(ranks)
    powers = [2**k for k in range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1)]
    ticks = powers[:: max(1, math.ceil(len(powers) / 7))] if len(powers) > 7 else sorted({*powers, *ranks})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:.0f}"))
    axes.set_xlim(least / 1.2, most * 1.2)
