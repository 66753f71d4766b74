"""A comparison as text for a terminal, Markdown for a paper, CSV and JSON for programs."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mpi_opt.report.columns import NAMES, SPREAD, Record, Value
from mpi_opt.report.comparison import Comparison, as_mapping, places_of
from mpi_opt.run.progress import size

_NEVER = "not reached"
_WHERE = {"average": "averaged model", "mean": "nodes' mean", "worst": "worst node"}


class _Cell(NamedTuple):
    """A column of a printed table: its head, and how a record's cell is made."""

    head: str
    of: Callable[[Record], str]


def as_text(comparison: Comparison) -> str:
    """Return three tables (what was sent, what time it took, what was reached) and the notes."""
    parts = ["\n".join(comparison.heading)]
    parts += [aligned(_cells(table, comparison.records)) for table in _tables(comparison)]
    if comparison.notes:
        parts.append("\n".join(f"note: {note}" for note in comparison.notes))
    return "\n\n".join(parts) + "\n"


def as_markdown(comparison: Comparison) -> str:
    """Return the same in Markdown."""
    parts = ["  \n".join(comparison.heading)]
    parts += [barred(_cells(table, comparison.records)) for table in _tables(comparison)]
    if comparison.notes:
        parts.append("\n".join(f"- {note}" for note in comparison.notes))
    return "\n\n".join(parts) + "\n"


def as_json(comparison: Comparison) -> str:
    """Return one JSON object: ``schema``, ``question``, ``runs`` with the columns of ``columns.py``, ``notes``."""
    return json.dumps(as_mapping(comparison), indent=2, allow_nan=False) + "\n"


def as_csv(comparison: Comparison) -> str:
    """Return one line for each run or group, under the names of ``columns.py``; an unknown value is empty."""
    names = list(NAMES)
    if any(f"{SPREAD[0]}_min" in record for record in comparison.records):
        names += [f"{name}_{end}" for name in SPREAD for end in ("min", "max")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for record in comparison.records:
        writer.writerow([_plain(record.get(name)) for name in names])
    return text.getvalue()


def _plain(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def as_cells(comparison: Comparison) -> list[list[list[str]]]:
    """Return the tables of `as_text` as rows of cells, each with its head first."""
    return [_cells(table, comparison.records) for table in _tables(comparison)]


def _tables(comparison: Comparison) -> list[list[_Cell]]:
    """Return the tables, each a list of columns."""
    asked = comparison.question.target is not None
    run = _Cell("run", lambda record: str(record["run"]))
    grouped = any(record["runs"] != 1 for record in comparison.records)
    short = any(record["short_rounds"] for record in comparison.records)
    told = [_Cell("runs", lambda record: f"{record['reached']} of {record['runs']}" if asked else str(record["runs"]))]
    sent = [
        run,
        *(told if grouped else []),
        _Cell("method", lambda record: str(record["method"] or "-")),
        _Cell("nodes", _count("nodes")),
        _Cell("H", _count("sync_every")),
        _Cell("rounds", _reached("round", _whole)),
        *([_Cell("not yet at", _spread("round_before", _whole))] if asked else []),
        *([_Cell("short", _spread("short_rounds", _whole))] if short else []),
        _Cell("messages", _spread("messages", _whole)),
        _Cell("fired", _fired),
        _Cell("payload", _spread("payload_bytes", size)),
        _Cell("headers", _spread("header_bytes", size)),
        _Cell("floor", _spread("floor_bytes", size)),
        _Cell("control", _spread("control_bytes", size)),
        _Cell("x fewer rounds", _ratio("rounds_ratio")),
        _Cell("x fewer bytes", _ratio("bytes_ratio")),
    ]
    times = [
        run,
        *(_Cell(name, _spread(f"{name}_seconds", _seconds)) for name in ("compute", "compress", "communicate", "wait")),
        _Cell("run clock", _reached("seconds", _seconds)),
        _Cell("x faster", _ratio("seconds_ratio")),
    ]
    places = places_of(comparison)
    figure = comparison.question.measure.name
    values = [
        run,
        _Cell("state", lambda record: str(record["state"])),
        _Cell("evaluations", _spread("evaluations", _whole)),
        *(_Cell(f"{figure}, {_WHERE[place]}", _spread(f"value_{place}", _figure)) for place in places),
    ]
    if not asked:
        return [sent, times, values]
    values.append(_Cell("best", _best))
    everywhere = [run]
    for place in places:
        everywhere.append(_Cell(f"rounds, {_WHERE[place]}", _reached(f"round_to_{place}", _whole)))
        everywhere.append(_Cell("sent", _spread(f"sent_bytes_to_{place}", size)))
    everywhere.append(_Cell("rounds, whole run", _spread("last_round", _whole)))
    everywhere.append(_Cell("sent", _spread("last_sent_bytes", size)))
    return [sent, times, values, everywhere]


def _count(name: str) -> Callable[[Record], str]:
    return lambda record: "-" if record[name] is None else str(record[name])


def _spread(name: str, show: Callable[[float], str]) -> Callable[[Record], str]:
    """Return what shows a number, with least and most of a group behind it."""

    def cell(record: Record) -> str:
        middle, least, most = (record.get(f"{name}{end}") for end in ("", "_min", "_max"))
        if not isinstance(middle, int | float):
            return "-"
        if isinstance(least, int | float) and least != most:
            ends = (show(least), show(most) if isinstance(most, int | float) else "never")
            return f"{show(middle)} ({ends[0]} to {ends[1]})"
        return show(middle)

    return cell


def _reached(name: str, show: Callable[[float], str]) -> Callable[[Record], str]:
    return lambda record: _NEVER if record[name] is None else _spread(name, show)(record)


def _ratio(name: str) -> Callable[[Record], str]:
    def cell(record: Record) -> str:
        shown = _spread(name, lambda value: f"{value:.3g}" if value < 1000 else f"{value:.0f}")(record)
        return f"at least {shown}" if record["ratio_is_bound"] and shown != "-" else shown

    return cell


def _fired(record: Record) -> str:
    fired, syncs = record["fired"], record["syncs"]
    reduces = record["compressor"] is None  # where all sum, nobody decides to speak
    if reduces or not isinstance(fired, int | float) or not isinstance(syncs, int | float) or not syncs:
        return "-"
    blocks = record["blocks_fired"]
    told = f", blocks {blocks:.0%}" if isinstance(blocks, int | float) else ""
    return f"{_whole(fired)} ({fired / syncs:.0%}{told})"


def _best(record: Record) -> str:
    shown = _spread("best", _figure)(record)
    if record["reached"] or shown == "-":
        return shown
    return f"{shown} (round {_spread('best_round', _whole)(record)})"


def _whole(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _figure(value: float) -> str:
    return f"{value:.5g}"


def _cells(table: Sequence[_Cell], records: Sequence[Record]) -> list[list[str]]:
    return [[cell.head for cell in table], *([cell.of(record) for cell in table] for record in records)]


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns of text, the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def barred(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the head, as a table of Markdown: the first column to the left, others right."""
    head, *others = rows
    return "\n".join([_bar(head), _bar(["---", *["---:"] * (len(head) - 1)]), *(_bar(row) for row in others)])


def _bar(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
