"""A report as one HTML page: it needs no network, no script and no file beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from mpi_opt.metrics import schema
from mpi_opt.report.comparison import Comparison
from mpi_opt.report.course import Course
from mpi_opt.report.figures.output import inline_svg
from mpi_opt.report.figures.picture import Picture
from mpi_opt.report.figures.timeline import TITLE as TIMELINE
from mpi_opt.report.formats import as_cells
from mpi_opt.report.html import table, tag
from mpi_opt.report.page_style import CSS, SCRIPT
from mpi_opt.report.phases import CLOCK, TURNS, phase_rows, phases

_TABLES = ("What was sent", "What time it took", "What was reached", "When each model reached it")
_SMALL = 420.0
"""Points: figures up to that wide shrink on narrow screens, wider ones can be moved sideways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """What a report shows of one run by itself.

    Attributes
    ----------
    course : Course
    others : tuple of str
        Runs of other seeds, of which this one stands for all.
    pictures : tuple of Picture
    """

    course: Course
    others: tuple[str, ...]
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report shows.

    Attributes
    ----------
    comparison : Comparison
    courses : tuple of Course
        All runs.
    remarks : tuple of str
        What a reader should know, beside the comparison's notes.
    pictures : tuple of Picture
        Of all runs together.
    runs : tuple of RunPart
    version : str
        Of mpi_opt.
    """

    comparison: Comparison
    courses: tuple[Course, ...]
    remarks: tuple[str, ...]
    pictures: tuple[Picture, ...]
    runs: tuple[RunPart, ...]
    version: str


def page(report: Report) -> str:
    """Return the page. The same report gives the same text."""
    title = f"Report: {', '.join(course.label for course in report.courses[:4])}"
    title += f" and {len(report.courses) - 4} more" if len(report.courses) > 4 else ""
    body = [
        tag("header", tag("h1", escape(title)) + _contents(report)),
        "<main>",
        _section("runs", "Runs", table(overview(report.courses), "The runs of this report")),
        _section("comparison", "Comparison", comparison_part(report.comparison, report.remarks)),
        _section("curves", "What communication bought", "\n".join(map(_figure, report.pictures))),
        *(_run(index, part) for index, part in enumerate(report.runs)),
        "</main>",
        tag("footer", tag("p", f"Made by mpi_opt {escape(report.version)}, mpi-opt report.")),
    ]
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>"
    )
    inside = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{inside}\n<script>{SCRIPT}</script>\n'
        "</body>\n</html>\n"
    )


def _contents(report: Report) -> str:
    places = [("runs", "Runs"), ("comparison", "Comparison"), ("curves", "What communication bought")]
    places += [(f"run-{index}", part.course.label) for index, part in enumerate(report.runs)]
    links = "".join(tag("li", tag("a", escape(words), href=f"#{place}")) for place, words in places)
    return tag("nav", tag("ul", links), aria_label="Contents")


def _section(name: str, title: str, inside: str) -> str:
    return f'<section id="{name}">\n{tag("h2", escape(title))}\n{inside}\n</section>'


def overview(courses: Sequence[Course]) -> list[list[str]]:
    """Return what the runs are, as rows of cells with the head first."""
    rows = [["run", "method", "nodes", "graph", "seed", "evaluations", "steps", "state"]]
    rows += [
        [
            course.label,
            "-" if course.job is None else course.job.algorithm.name,
            str(course.nodes),
            str(course.attributes["graph"]) or "-",
            str(course.attributes["seed"]),
            str(course.rows),
            str(int(course.shared["step"][-1])),
            course.word if course.state == schema.RUNNING else course.state,
        ]
        for course in courses
    ]
    return rows


def comparison_part(comparison: Comparison, remarks: Iterable[str]) -> str:
    """Return the comparison's tables and notes as HTML."""
    parts = [tag("p", escape(text)) for text in comparison.heading]
    parts += [table(rows, words) for rows, words in zip(as_cells(comparison), _TABLES, strict=False)]
    notes = [*remarks, *comparison.notes]
    if notes:
        parts.append(tag("h3", "Notes"))
        parts.append(tag("ul", "\n".join(tag("li", escape(text)) for text in notes), class_="note"))
    return "\n".join(parts)


def _figure(picture: Picture) -> str:
    head = tag("h3", escape(picture.title))
    if picture.figure is None:
        return head + tag("p", escape(picture.caption), class_="note")
    svg = inline_svg(picture.figure, f"fig-{picture.name}", picture.title, picture.alt)
    small = float(picture.figure.get_figwidth()) * 72 <= _SMALL
    drawn = tag("div", svg, class_="wide")
    return head + tag(
        "figure", drawn + tag("figcaption", escape(picture.caption)), class_="small" if small else "large"
    )


def _run(index: int, part: RunPart) -> str:
    course = part.course
    inside = [tag("h2", escape(course.label)), _facts(course)]
    if part.others:
        inside.append(tag("p", escape(f"Stands for its other seeds too: {', '.join(part.others)}."), class_="note"))
    for picture in part.pictures:
        inside.append(_figure(picture))
        if picture.title == TIMELINE:
            inside.append(table(phase_table(course), _phase_words(course)))
    return f'<section class="run" id="run-{index}">\n' + "\n".join(inside) + "\n</section>"


def _facts(course: Course) -> str:
    hosts = sorted(set(course.hosts))
    facts = [
        ("state", course.word if course.state == schema.RUNNING else course.state),
        ("started", str(course.attributes["started"])),
        ("hosts", f"{len(hosts)}: {', '.join(hosts[:4])}{' ...' if len(hosts) > 4 else ''}"),
        ("carried by", str(course.attributes["mpi_library"]).splitlines()[0][:120]),
        *([("seconds", course.clock)] if course.clock else []),
        ("command", str(course.attributes["command"])),
        ("mpi_opt", str(course.attributes["version_mpi_opt"])),
    ]
    return tag("dl", "".join(tag("dt", key) + tag("dd", escape(value)) for key, value in facts))


def phase_table(course: Course) -> list[list[str]]:
    """Return seconds of each phase over the ranks, as rows of cells with the head first."""
    rows = [["phase", "least", "mean", "most", "share of all"]]
    for name, least, mean, most, share in phase_rows(phases(course)):
        rows.append([name, f"{least:.3g} s", f"{mean:.3g} s", f"{most:.3g} s", f"{share:.1%}"])
    return rows


def _phase_words(course: Course) -> str:
    kind = phases(course).kind
    who = f"Seconds by phase over {course.nodes} " + ("nodes" if course.lockstep else "ranks")
    if kind == CLOCK:
        return f"{who}, simulated"
    return f"{who}, own work in one process" if kind == TURNS else f"{who}, whole run"
