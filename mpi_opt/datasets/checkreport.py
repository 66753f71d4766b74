"""The report of ``mpi-opt data check``: for people as text, for programs as one JSON document."""

import json
from dataclasses import asdict
from typing import Any

from mpi_opt.datasets.checking import LISTED, CheckedFile, Report
from mpi_opt.datasets.facts import MOST_LABELS, Facts
from mpi_opt.datasets.spec import NanRule
from mpi_opt.words import number_text

_FILES = 20
_LABELS = 20
_WIDTH = 14


def as_json(report: Report, nan: NanRule) -> str:
    """Return the report as one JSON document; ``docs/data-files.md`` says what its keys mean."""
    document: dict[str, Any] = {
        "ok": report.faults == 0,
        "index_base": report.index_base,
        "features": report.features,
        "nan": nan,
        "total": _facts(report.total),
        "files": [
            {"file": file.name, "compressed": file.compressed, "stored_bytes": file.size, **_facts(file.facts)}
            for file in report.files
        ],
        "faults": {
            "count": report.faults,
            "by_kind": {kind.slug: count for kind, count in report.counts.items()},
            "first": [
                {
                    "file": told.file,
                    "line": told.line,
                    "column": told.column,
                    "kind": told.kind.slug,
                    "message": told.message,
                }
                for told in report.told
            ],
        },
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _facts(facts: Facts) -> dict[str, Any]:
    """Return facts under the names of a document."""
    named = asdict(facts)
    for name in ("labels", "ends", "ascends", "descends", "open_end"):
        del named[name]
    named["last_newline_missing"] = facts.open_end
    labels = None if facts.labels is None else sorted(facts.labels.items())
    named["labels"] = None if labels is None else [{"label": label, "rows": rows} for label, rows in labels]
    named["label_order"] = _order(facts)
    return named


def _order(facts: Facts) -> str:
    if facts.ascends and facts.descends:
        return "one label" if facts.rows else "no rows"
    return "ascending" if facts.ascends else "descending" if facts.descends else "mixed"


def as_text(report: Report, nan: NanRule) -> str:
    """Return the report for people: facts, remarks, counts of faults and the first of them."""
    lines = [_file_line(file) for file in report.files[:_FILES]]
    if len(report.files) > _FILES:
        lines.append(f"... and {len(report.files) - _FILES} files more")
    lines += ["", *(f"{name:{_WIDTH}} {value}" for name, value in _figures(report)), ""]
    if report.faults == 0:
        return "\n".join([*lines, "no faults"])
    lines.append(f"{report.faults:,} {'faults' if report.faults > 1 else 'fault'}:")
    lines += [f"{count:>12,}  {kind.slug}" for kind, count in report.counts.items()]
    if report.faults > len(report.told):
        lines.append(f"the first {LISTED}:")
    lines += [str(told) for told in report.told]
    if nan == "refuse" and any(kind.slug.endswith("not-finite") for kind in report.counts):
        lines.append('data.nan = "drop-row" or "zero" reads such files; --nan says here what is left then')
    return "\n".join(lines)


def _file_line(file: CheckedFile) -> str:
    facts = file.facts
    span = "no index" if facts.smallest is None else f"indices {facts.smallest} to {facts.largest}"
    return f"{file.name}: {facts.rows:,} rows, {facts.nonzeros:,} entries, {span}"


def _figures(report: Report) -> list[tuple[str, str]]:
    """Return names and values of what is said of all files together."""
    facts = report.total
    cells = facts.rows * report.features
    share = f", {100 * facts.nonzeros / cells:.3g} % of the table" if cells else ""
    base = '0: say index_base = 0 (or "auto") in the job' if report.index_base == 0 else "1"
    figures = [
        ("rows", f"{facts.rows:,}"),
        ("features", f"{report.features:,}, counted from {base}"),
        ("entries", f"{facts.nonzeros:,}, at most {facts.longest:,} in a row{share}"),
        ("labels", _labels(facts)),
        ("order", _order_words(facts)),
        ("text", f"{facts.bytes:,} bytes, {facts.lines:,} lines"),
    ]
    remarks = (
        (facts.faulty_rows, "faulty rows", "not counted above"),
        (facts.dropped_rows, "dropped rows", "not finite, not counted above"),
        (facts.zeroed_values, "zeroed", "values that are not finite, taken as 0"),
        (facts.zeros, "explicit zeros", "entries that say 0; they are kept"),
        (facts.label_only, "label only", "rows without features, read as zeros"),
        (facts.empty_lines, "empty lines", "blank or comment, no rows"),
        (facts.qids, "qid", "qid: fields, ignored"),
        (facts.crlf, "CRLF", "lines that end in CRLF, read like others"),
        (
            sum(file.facts.open_end for file in report.files),
            "no newline",
            "of the files do not end in one, read like others",
        ),
    )
    return figures + [(name, f"{count:,} ({about})") for count, name, about in remarks if count]


def _labels(facts: Facts) -> str:
    if facts.labels is None:
        return f"more than {MOST_LABELS} different ones" if facts.rows else "none"
    counted = [f"{number_text(label)} ({rows:,})" for label, rows in sorted(facts.labels.items())[:_LABELS]]
    return ", ".join(counted) + (f", ... {len(facts.labels)} in all" if len(facts.labels) > _LABELS else "")


def _order_words(facts: Facts) -> str:
    order = _order(facts)
    if order in ("ascending", "descending"):
        return f'sorted by label, {order}: with partition = "contiguous" nodes see few of the labels'
    return {"mixed": "not sorted by label", "one label": "one label in all rows"}.get(order, order)
