"""The page of a report: well-formed, by itself, words where there is nothing to show; and the command."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored_runs import store

from mpi_opt import cli
from mpi_opt.comparing import Request as Comparing
from mpi_opt.comparing import compare
from mpi_opt.errors import DataError, JobError
from mpi_opt.report.html import slug, sort_key, table
from mpi_opt.report.page import comparison_part, overview, page, phase_table
from mpi_opt.report.reading import read_course
from mpi_opt.reporting import Request, make_report

GOLDEN = Path(__file__).parents[1] / "golden" / "report"
SLOW = [0.9, 0.6, 0.5, 0.3, 0.25]
FAST = [0.9, 0.3, 0.23, 0.22, 0.215]
ERRORS = [0.5, 0.3, 0.2, 0.1, 0.05]
_SGD = ("batch", "step_size", "sync_every", "threshold", "compressor", "consensus_rate")
NEWTON = [f"algorithm.{key}=" for key in _SGD]
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Checked(HTMLParser):
    """Reads a page strictly: every element is closed in order, identifiers are unique, nothing is fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.wanted = [], [], [], []
        self.tables, self.words, self.drawn = 0, [], 0
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.links) <= set(self.ids)
        assert self.wanted == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, dict(attrs))

    def handle_startendtag(self, tag, attrs):
        self._look(tag, dict(attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def _look(self, tag, attrs):
        self.ids += [attrs["id"]] if "id" in attrs else []
        for key in ("href", "xlink:href", "src", "srcset", "data", "action"):
            value = attrs.get(key)
            if value is not None and value.startswith("#"):
                self.links.append(value[1:])
            elif value is not None and not value.startswith("data:image/png;base64,"):
                self.wanted.append(value)
        self.tables += tag == "table"
        if tag == "svg":
            self.drawn += 1
            assert attrs["role"] == "img"
            self.links += attrs["aria-labelledby"].split()
        if tag == "html":
            assert attrs["lang"] == "en"

    @property
    def text(self):
        return " ".join(self.words)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [
        store(folder / "slow", SLOW, settings=["algorithm.sync_every=10"], a_round=10, payload=9000, errors=ERRORS),
        store(folder / "sparq", FAST, errors=ERRORS),
    ]


def test_golden_tables(runs):
    courses = [read_course(run) for run in runs]
    parts = [
        table(overview(courses), "Runs"),
        comparison_part(compare(Comparing(runs=runs, target=0.051, reference="0.2")), ["A remark & more."]),
        *(table(phase_table(course), course.label) for course in courses),
    ]
    assert "\n".join(parts) + "\n" == (GOLDEN / "tables.html").read_text()


def test_the_page_is_well_formed_and_by_itself(runs):
    report = make_report(Request(runs=runs, reference="0.2", target=0.051))
    text = page(report)
    found = Checked(text)
    assert text.startswith("<!DOCTYPE html>\n<html lang")
    assert '<meta name="viewport"' in text
    assert "<title>Report: slow, sparq</title>" in text
    assert found.drawn == 3 + 2 * 4
    assert found.tables == 1 + 4 + 2
    assert "@import" not in text
    assert not [word for word in ("fetch(", "XMLHttpRequest", "src=") if word in text]
    assert "url(" not in text.replace("url(#", "")
    assert "H (algorithm.sync_every) differs: 10 (slow), 5 (sparq)" in found.text


ODD = {
    "killed": {"objectives": FAST[:3], "status": "running", "lengths": [3, 2, 3]},
    "paused": {"objectives": FAST, "status": "paused: asked to stop (SIGTERM)"},
    "diverged": {"objectives": [0.9, 9.0, float("inf")], "status": "diverged: node 1 at step 40"},
    "begun": {"objectives": [0.9], "status": "running"},
    "alone": {"objectives": FAST, "nodes": 1, "attributes": {"graph": "ring"}},
    "clocked": {"objectives": FAST, "library": "lockstep", "attributes": {"clock": "simulated: 10gbe, <latency>"}},
    "newton": {
        "objectives": FAST,
        "settings": [*NEWTON, "algorithm.name=local-newton", "algorithm.local_steps=3"],
        "attributes": {"graph": "", "spectral_gap": float("nan"), "consensus_rate": float("nan")},
    },
    "a<b>&'\"c": {"objectives": FAST},
}
WORDS = {
    "killed": "killed goes on or was killed",
    "paused": "paused: asked to stop (SIGTERM)",
    "diverged": "diverged: node 1 at step 40",
    "begun": "One evaluation only: begun.",
    "alone": "The run has one node: its model is the average.",
    "clocked": "simulated: 10gbe, <latency>",
    "newton": "There is none: all nodes take part in every sum and average.",
    "a<b>&'\"c": "Report: a<b>&'\"c",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_runs_make_a_page(tmp_path, monkeypatch, name):
    """Drawn in full where a figure could fail on what they lack."""
    if name not in ("diverged", "begun", "alone", "newton"):
        svg = '<svg role="img" aria-labelledby="{0}"><title id="{0}">t</title></svg>'
        monkeypatch.setattr("mpi_opt.report.page.inline_svg", lambda figure, name, title, alt: svg.format(name))
    given = dict(ODD[name])
    run = store(tmp_path / "made", given.pop("objectives"), **given).rename(tmp_path / name)
    report = make_report(Request(runs=[run], reference="0.2"))
    found = Checked(page(report))
    assert WORDS[name] in found.text
    pictures = [*report.pictures, *report.runs[0].pictures]
    assert found.drawn == sum(picture.figure is not None for picture in pictures)


def test_runs_called_alike_have_files_of_their_own(tmp_path):
    one = store(tmp_path / "a" / "run", FAST)
    two = store(tmp_path / "b" / "run", FAST, settings=["algorithm.sync_every=10"])
    report = make_report(Request(runs=[one, two], reference="none"))
    names = [picture.name for part in report.runs for picture in part.pictures]
    assert len({name.lower() for name in names}) == len(names) == 8


def test_seeds_are_one_line_and_the_first_stands_for_all(tmp_path, monkeypatch):
    folders = [store(tmp_path / f"s{seed}", FAST, settings=[f"seed={seed}"]) for seed in range(3)]
    report = make_report(Request(runs=folders, reference="0.2"))
    assert [record["runs"] for record in report.comparison.records] == [3]
    assert [part.others for part in report.runs] == [("s1", "s2")]
    monkeypatch.setattr("mpi_opt.report.page.inline_svg", lambda figure, name, title, alt: name)
    text = page(report)
    assert "Stands for its other seeds too: s1, s2." in text
    assert "fig-s0-firing" in text


def test_without_the_data_there_is_no_gap_and_it_is_said(runs):
    report = make_report(Request(runs=runs))
    assert report.comparison.question.measure.name == "objective"
    assert "no gap to the optimum is shown: the reference optimum cannot be computed: " in report.remarks[0]
    assert report.pictures[0].title == "Objective"
    for asked in ({"reference": "compute"}, {"measure": "gap"}, {"target": 0.1}):
        with pytest.raises(DataError, match="the reference optimum cannot be computed"):
            make_report(Request(runs=runs, **asked))


def test_without_a_reference(runs):
    report = make_report(Request(runs=runs, reference="none"))
    assert report.comparison.question.measure.name == "objective"
    assert report.remarks == ()
    assert make_report(Request(runs=runs, reference="none", measure="error")).pictures[0].title == "Test error"
    with pytest.raises(JobError, match="--reference none with --measure gap"):
        make_report(Request(runs=runs, reference="none", measure="gap"))


def test_what_does_not_compare_is_refused(runs, tmp_path):
    other = store(tmp_path / "other", FAST, settings=["problem.l2=0.5"], errors=ERRORS)
    with pytest.raises(JobError, match="do not minimise the same function"):
        make_report(Request(runs=[runs[0], other]))
    assert make_report(Request(runs=[runs[0], other], measure="error")).pictures[0].title == "Test error"


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def undrawn(monkeypatch):
    """Files and pages of figures that are not drawn, which takes seconds; test_report_doc.py has them drawn."""
    monkeypatch.setattr("mpi_opt.report.figures.output._image", lambda figure, kind, name: kind.encode())
    monkeypatch.setattr("mpi_opt.report.page.inline_svg", lambda figure, name, title, alt: name)


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_into_report(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", str(runs[1]), "--reference", "0.2"]) == 0
    assert capsys.readouterr().out == "report/report.html and 14 figure files beside it\n"
    kinds = ("gap", "error", "nodes", "sparq-spread", "sparq-firing", "sparq-timeline", "sparq-graph")
    expected = {"report.html", *(f"{kind}.{end}" for kind in kinds for end in ("png", "pdf"))}
    assert {path.name for path in Path("report").iterdir()} == expected


@pytest.mark.parametrize(("given", "names"), [("none", set()), ("svg,png", {"svg", "png"})])
@pytest.mark.usefixtures("undrawn")
def test_formats(runs, tmp_path, given, names):
    assert cli.main(["report", str(runs[1]), "--reference", "none", "--format", given, "--out", str(tmp_path)]) == 0
    assert {path.suffix[1:] for path in tmp_path.iterdir()} == {"html", *names}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--format", "gif"], 2, "'gif' in 'gif': allowed: png, pdf, svg"),
        (["--target", "low"], 2, "allowed: a number"),
        (["--at", "best"], 2, "invalid choice"),
        (["--measure", "gap", "--target", "-1", "--reference", "0"], 2, "allowed for the measure gap: a number > 0"),
        (["--reference", "nowhere"], 2, "neither a number nor a run"),
        (["--reference", "compute"], 3, "the reference optimum cannot be computed"),
        (["--reference", "0.2", "--out", "FILE/x"], 2, "cannot be made"),
    ],
)
def test_what_is_wrong_is_told(runs, tmp_path, capsys, arguments, code, words):
    (tmp_path / "file").write_text("")
    given = [word.replace("FILE", str(tmp_path / "file")) for word in arguments]
    out = [] if "--out" in given else ["--out", str(tmp_path / "out")]
    assert cli.main(["report", str(runs[1]), *given, *out]) == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_the_extra_is_named(runs, tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["report", str(runs[1]), "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'mpi_opt[report]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_it_needs_no_display_and_no_global_state(runs, tmp_path):
    code = (
        "import sys; from mpi_opt.cli import main; code = main(sys.argv[1:]); "
        "assert 'matplotlib.pyplot' not in sys.modules; sys.exit(code)"
    )
    environ = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    arguments = ["report", str(runs[1]), "--reference", "0.2", "--format", "none", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**environ, "MPLBACKEND": "TkAgg"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- pieces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("12", 12.0),
        ("-0.5", -0.5),
        ("1.5e-06", 1.5e-6),
        ("132 kB", 132e3),
        ("41.7 MB", 41.7e6),
        ("0.1 s", 0.1),
        ("58.2%", 0.582),
        ("931 (58%)", 931.0),
        ("at least 6.67", 6.67),
        ("3 (1 to 5)", 3.0),
        ("not reached", float("inf")),
        ("-", None),
        ("sparq-sgd", None),
        ("10gbe", None),
        ("2 of 3", 2.0),
    ],
)
def test_cells_sort_by_their_numbers(text, key):
    assert sort_key(text) == (key if key is None else pytest.approx(key))


@settings(max_examples=40)
@given(st.lists(st.text(max_size=80), max_size=12))
def test_names_of_files_are_plain_and_apart(labels):
    taken = set()
    names = [slug(label, taken) for label in labels]
    assert len({name.lower() for name in names}) == len(names)
    assert all(name.isascii() and name.replace("-", "a").isalnum() for name in names)
