"""The looks that all figures share: told apart without colour, axes that show the start, files without dates."""

import math
import sys
import threading
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.report.figures.style import (
    COLOURS,
    FORMATS,
    inline_svg,
    label,
    legend,
    legend_columns,
    line,
    linear_axis,
    log_axis,
    mark,
    new_figure,
    note,
    power_text,
    save,
)


def test_marks_differ_in_more_than_colour():
    marks = [mark(index) for index in range(280)]
    assert len(set(marks)) == 280
    assert len({look.colour for look in marks[:7]}) == 7
    # in black and white
    assert len({(look.marker, look.dashes) for look in marks[:40]}) == 40


def test_colours_are_far_apart():
    """Also for who lacks one kind of cone (Viénot, Brettel, Mollon 1999: LMS with one coordinate from the others)."""
    rgb = np.array([[int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)] for colour in COLOURS]) ** 2.2
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    protan = np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]])
    deutan = np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]])
    for lack in (np.eye(3), protan, deutan):
        seen = np.clip(rgb @ (np.linalg.inv(to_lms) @ lack @ to_lms).T, 0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)
        assert apart[~np.eye(len(seen), dtype=bool)].min() > 0.1


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.01, "0.01"), (2000.0, "2000"), (1e-6, "10⁻⁶"), (5e4, "5·10⁴"), (math.inf, "")],
)
def test_numbers_at_ticks(value, text):
    assert power_text(value) == text


@settings(max_examples=30)  # each a figure
@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=5))
def test_a_positive_axis_is_logarithmic_and_has_ticks(values):
    _, (axes,) = new_figure()
    axes.plot(values, values)
    assert log_axis(axes, "y", values)
    assert axes.get_yscale() == "log"
    if max(values) > 1.2 * min(values):
        shown = [tick for tick in axes.get_yticks() if min(values) <= tick <= max(values)]
        assert len(shown) >= 2
    assert all(axes.yaxis.get_major_formatter()(tick, 0) for tick in axes.get_yticks())


def test_the_start_has_a_place_on_a_logarithmic_axis():
    _, (axes,) = new_figure()
    assert log_axis(axes, "x", [0.0, 4.0, 40.0, np.nan, np.inf], lambda value: f"{value:g} B")
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] == 0.0
    assert axes.get_xticks()[0] == 0.0
    assert axes.xaxis.get_major_formatter()(0.0, 0) == "0 B"
    place = axes.transData.transform([[0, 0], [4, 0], [40, 0], [400, 0]])[:, 0]
    assert place[0] < place[1]
    assert place[3] - place[2] == pytest.approx(place[2] - place[1])


@pytest.mark.parametrize("values", [[], [0.0], [-1.0, 1.0], [np.nan]])
def test_what_cannot_be_logarithmic_stays_linear(values):
    _, (axes,) = new_figure()
    assert not log_axis(axes, "y", values)
    assert axes.get_yscale() == "linear"


def test_a_linear_axis_begins_at_nothing():
    _, (axes,) = new_figure()
    axes.plot([1, 5], [2, 3])
    linear_axis(axes, "x", lambda value: f"{value:.0f} kB")
    assert axes.get_xlim()[0] == 0.0
    assert axes.xaxis.get_major_formatter()(2, 0) == "2 kB"


def test_lines_have_marks_bands_and_names():
    figure, (axes,) = new_figure()
    x = np.arange(100.0)
    line(axes, x, x + 1, mark(0), "measured", band=(x, x + 2))
    line(axes, x[:3], x[:3], mark(1), "modelled", model=True)
    label(axes, x="Rounds", y="Gap", title="a")
    legend(figure, axes)
    measured, modelled = axes.get_lines()
    np.testing.assert_array_equal(measured.get_xydata(), np.column_stack([x, x + 1]))
    assert measured.get_color() == mark(0).colour
    assert modelled.get_markerfacecolor() == "none"
    assert measured.get_linestyle() != modelled.get_linestyle()
    assert len(axes.collections) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["measured", "modelled"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("Rounds", "Gap", "a")


def test_a_point_alone_has_a_mark():
    """A line of one known point has no stroke: without a mark it would be invisible."""
    figure, (axes,) = new_figure()
    line(axes, np.arange(50.0), np.where(np.arange(50) == 7, 1.0, np.nan), mark(0), "")
    assert axes.get_lines()[0].get_markevery() == 1


def test_legends_stay_within_the_figure():
    assert legend_columns(["a"] * 3, 6.4) == 3
    assert legend_columns(["x" * 44] * 3, 6.4) == 1


def small():
    figure, (axes,) = new_figure(width=3, height=2)
    line(axes, [1, 2, 3], [3, 2, 1], mark(0), "<one> & two")
    label(axes, x="x", y="y")
    legend(figure, axes)
    return figure


def test_files(tmp_path):
    """The same bytes from the same figure drawn again, and from one made anew."""
    figure = small()
    made = save(figure, tmp_path, "small", FORMATS)
    first = [path.read_bytes() for path in made]
    assert [path.name for path in made] == ["small.png", "small.pdf", "small.svg"]
    assert [data[:4] for data in first] == [b"\x89PNG", b"%PDF", b"<?xm"]
    assert [path.read_bytes() for path in save(figure, tmp_path, "small", FORMATS)] == first
    assert [path.read_bytes() for path in save(small(), tmp_path, "small", FORMATS)] == first
    assert b"/FontType 3" not in first[1]  # journals refuse those
    assert b"Type3" not in first[1]


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(JobError, match="cannot write"):
        save(small(), tmp_path / "nowhere", "small", ["png"])


def test_inline_svg_is_its_own():
    text = inline_svg(small(), "fig-a", "Title <1>", "Words & more")
    root = ElementTree.fromstring(text)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    assert all(name.startswith("fig-a-") for name in ids)
    referred = set(root.get("aria-labelledby").split())
    assert referred <= set(ids)
    assert root.get("role") == "img"
    words = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith(("title", "desc", "}text"))]
    assert words[:2] == ["Title <1>", "Words & more"]
    assert "<one> & two" in [word.strip() for word in words]  # words are words
    used = [
        value for element in root.iter() for key, value in element.items() if key.endswith("href") and value[0] == "#"
    ]
    assert used
    assert {value[1:] for value in used} <= set(ids)
    assert "#ffffff" not in text.split("</g>")[0]
    assert "currentColor" in text
    assert "<style" not in text
    assert inline_svg(small(), "fig-a", "Title <1>", "Words & more") == text


def test_settings_of_the_process_are_put_back(tmp_path):
    names = sorted(set(matplotlib.rcParams) - {"backend"})  # which is looked for by being read
    before = [matplotlib.rcParams[name] for name in names]
    save(small(), tmp_path, "small", FORMATS)
    assert [matplotlib.rcParams[name] for name in names] == before


def test_threads_draw_at_once(tmp_path):
    expected = inline_svg(small(), "a", "t", "d")
    found = []
    threads = [threading.Thread(target=lambda: found.append(inline_svg(small(), "a", "t", "d"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [expected] * 4


def test_words_in_empty_axes():
    _, (axes,) = new_figure()
    note(axes, "nothing")
    assert [text.get_text() for text in axes.texts] == ["nothing"]


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(JobError, match=r"pip install 'mpi_opt\[report\]'"):
        new_figure()
