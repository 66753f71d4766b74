"""A scaling test as text for a terminal, Markdown for a paper, CSV and JSON for programs."""

import csv
import io
import json
from collections.abc import Callable, Sequence

from mpi_opt.report.formats import aligned, barred
from mpi_opt.report.scaling import Forecast, Reached, ScaleReport, as_mapping, as_records
from mpi_opt.run.progress import size
from mpi_opt.scaling.cost import spoken
from mpi_opt.scaling.merit import NOISE, NOISY, ONCE, OVERSUBSCRIBED, PHASES, Merit

_MARKS = {
    OVERSUBSCRIBED: "oversubscribed: fewer cores than ranks and their threads, so ranks took turns; the time says "
    "nothing about scaling",
    NOISY: f"noisy: the repeats lie more than {NOISE:.0%} of their median apart",
    ONCE: "one run: the spread over repeats is not known",
}
_MODEL = "Model, seconds a step (computed, not measured; in brackets against a measurement that is not marked *)"
_SHOWN = (16, 64, 256, 1024)
"""Numbers of ranks that the model's table tells, besides those measured."""


def as_text(report: ScaleReport) -> str:
    """Return the tables (figures, target, model), what failed, and the notes."""
    parts = [heading(report), aligned(_figures(report))]
    if report.target:
        parts += [f"apart from that: {report.target}\n\n{aligned(_reached(report))}"]
    if report.forecasts:
        parts += [f"{_MODEL[0].lower()}{_MODEL[1:]}:\n\n{aligned(_model(report))}"]
    return "\n\n".join([*parts, *_remarks(report, "")]) + "\n"


def as_markdown(report: ScaleReport) -> str:
    """Return the same in Markdown."""
    parts = [heading(report), barred(_figures(report))]
    if report.target:
        parts += [f"Apart from that: {report.target}".replace("\n", "  \n"), barred(_reached(report))]
    if report.forecasts:
        parts += [f"{_MODEL}:", barred(_model(report))]
    return "\n\n".join([*parts, *_remarks(report, "- ")]) + "\n"


def as_json(report: ScaleReport) -> str:
    """Return one JSON object; see ``docs/scaling.md``."""
    return json.dumps(as_mapping(report), indent=2, allow_nan=False) + "\n"


def as_csv(report: ScaleReport) -> str:
    """Return one line for each number of ranks; what is not known is empty."""
    records, text = as_records(report), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(records[0])
    writer.writerows([["" if value is None else value for value in record.values()] for record in records])
    return text.getvalue()


def heading(report: ScaleReport) -> str:
    """Return what was measured, in a line."""
    plan = report.plan
    what = "the same rows for all" if plan.mode == "strong" else f"{plan.rows} rows a rank"
    times = f"{plan.repeats} run{'s' * (plan.repeats > 1)} each"
    return f"{report.name}: {plan.mode} scaling of {report.method}, {what}, {times}, warm-up left out"


def _figures(report: ScaleReport) -> list[list[str]]:
    fraction = "Karp-Flatt" if report.plan.mode == "strong" else "serial (Gustafson)"
    head = ["ranks", "runs", "step", "min..max", "speed-up", "efficiency", fraction, *PHASES, "sent/step/node", "mark"]
    return [head, *([str(merit.ranks), *_row(merit, report.plan.repeats)] for merit in report.merits)]


def _row(merit: Merit, repeats: int) -> list[str]:
    runs = f"{merit.runs} of {repeats}"
    if merit.step is None or merit.least is None or merit.most is None or merit.shares is None or merit.sent is None:
        return [runs, *["-"] * 10, "no figures"]
    return [
        runs,
        spoken(merit.step, "s"),
        f"{spoken(merit.least, 's')}..{spoken(merit.most, 's')}" if merit.runs > 1 else "-",
        _number(merit.speedup, "{:.2f}"),
        _number(merit.efficiency, "{:.0%}"),
        _number(merit.serial, "{:.3f}"),
        *(f"{share:.1%}" for share in merit.shares),
        size(merit.sent) if merit.sent >= 1000 else f"{merit.sent:.3g} B",  # a mean: often a few, and no whole number
        ", ".join(merit.marks) or "-",
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _reached(report: ScaleReport) -> list[list[str]]:
    rows = [["ranks", "met by", "steps", "rounds", "sent by all", "run clock", "min..max"]]
    for each in report.reached:
        many = each.met > 1 and each.least is not None and each.most is not None
        rows.append(
            [
                str(each.ranks),
                f"{each.met} of {each.runs}",
                _to(each, each.step, "{:.0f}".format),
                _to(each, each.round, "{:.0f}".format),
                _to(each, each.sent, size),
                _to(each, each.seconds, lambda value: spoken(value, "s")),
                f"{spoken(each.least or 0.0, 's')}..{spoken(each.most or 0.0, 's')}" if many else "-",
            ]
        )
    return rows


def _to(reached: Reached, value: float | None, show: Callable[[float], str]) -> str:
    if value is None:
        return "not reached" if reached.runs else "-"
    return show(value)


def _model(report: ScaleReport) -> list[list[str]]:
    """Return the predictions beside what was measured, on the rank counts measured and a few beyond."""
    measured = {merit.ranks: merit for merit in report.merits}
    known = {point.ranks for forecast in report.forecasts for point in forecast.points}
    ranks = sorted(known & {*measured, *_SHOWN})
    rows = [["ranks", "measured", *(_title(forecast) for forecast in report.forecasts)]]
    for count in ranks:
        merit = measured.get(count)
        step = None if merit is None else merit.step
        mark = "*" if merit is not None and merit.marks else ""
        cells = [str(count), "-" if step is None else spoken(step, "s") + mark]
        for forecast in report.forecasts:
            point = forecast.at(count)
            against = step if forecast.measured and not mark else None
            cells.append("-" if point is None else _against(point.seconds, against))
        rows.append(cells)
    return rows


def _title(forecast: Forecast) -> str:
    return f"{forecast.network} (here)" if forecast.measured else forecast.network


def _against(seconds: float, step: float | None) -> str:
    return spoken(seconds, "s") + (f" ({seconds / step - 1:+.0%})" if step else "")


def _remarks(report: ScaleReport, bullet: str) -> Sequence[str]:
    marks = {mark for merit in report.merits for mark in merit.marks}
    lines = [f"mark: {words}" for mark, words in _MARKS.items() if mark in marks]
    lines += [
        f"{'' if forecast.measured else 'network '}{_title(forecast)}: {forecast.words}"
        for forecast in report.forecasts
    ]
    lines += [f"failed: {failure}" for failure in report.failures]
    lines += [f"note: {note}" for note in report.notes]
    return ["\n".join(f"{bullet}{line}" for line in lines)] if lines else []
