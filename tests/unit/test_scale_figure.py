"""The plot of a scaling test, looked at as objects: hollow marks, dashed models, labels, data."""

import numpy as np
import pytest
from support.scaled import stored_report

from mpi_opt.report.figures.output import save
from mpi_opt.report.figures.scale import IDEAL, MARKED, MEASURED, caption, scale_figure
from mpi_opt.scaling.merit import merits

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def axes():
    return dict(zip(("times", "gains", "efficiencies", "shares"), scale_figure(stored_report()).axes, strict=True))


def lines(axes, name):
    found = [line for line in axes.get_lines() if line.get_label() == name]
    found += [bars.lines[0] for bars in axes.containers if bars.get_label() == name]
    return found


def test_axes_say_what_they_show(axes):
    assert [(a.get_xlabel(), a.get_ylabel()) for a in axes.values()] == [
        ("ranks", "seconds a step"),
        ("ranks", "speed-up"),
        ("ranks", "% of ideal"),
        ("ranks", "% of the run clock"),
    ]
    assert [a.get_xscale() for a in axes.values()] == ["log"] * 4
    assert [a.get_yscale() for a in axes.values()] == ["log", "log", "linear", "linear"]
    assert [t.get_text() for t in axes["shares"].get_legend().get_texts()] == [
        "compute",
        "compress",
        "communicate",
        "wait",
    ]


def test_clean_points_are_filled_and_joined_marked_ones_hollow_and_alone(axes):
    for name in ("times", "gains", "efficiencies"):
        (clean,), (marked,) = lines(axes[name], MEASURED), lines(axes[name], MARKED)
        assert clean.get_xdata().tolist() == [1, 2]
        assert marked.get_xdata().tolist() == [4, 8]
        assert clean.get_markerfacecolor() == clean.get_color()
        assert clean.get_linestyle() != "None"
        assert marked.get_markerfacecolor() == "white"
        assert marked.get_linestyle() == "None"
    (clean,), (marked,) = lines(axes["times"], MEASURED), lines(axes["times"], MARKED)
    assert clean.get_ydata().tolist() == pytest.approx([0.008, 0.0046])
    assert marked.get_ydata().tolist() == pytest.approx([0.0033, 0.011])
    (share,) = lines(axes["shares"], "wait")
    assert share.get_ydata().tolist() == pytest.approx([0.0, 4.0])
    hollow = [b.lines[0] for b in axes["shares"].containers if b.lines[0].get_markerfacecolor() == "white"]
    assert [line.get_xdata().tolist() for line in hollow] == [[4, 8]] * 4


def test_bars_are_the_range_over_repeats(axes):
    bars = next(bars for bars in axes["times"].containers if bars.get_label() == MEASURED)
    ((first, second),) = [collection.get_segments() for collection in bars.lines[2]]
    assert np.asarray(first)[:, 1].tolist() == pytest.approx([0.0079, 0.0081])
    assert np.asarray(second)[:, 1].tolist() == pytest.approx([0.0045, 0.0047])


def test_models_are_dashed_thin_without_marks_and_called_so(axes):
    (here,) = lines(axes["times"], "model: network, measured here")
    (wan,) = lines(axes["times"], "model: wan")
    assert here.get_xdata().tolist() == [1, 2, 4, 8]  # not beyond what was measured
    assert wan.get_xdata().tolist()[-1] == 1024
    assert wan.get_ydata().tolist()[-1] == 0.0208
    for line in (here, wan):
        assert line.is_dashed()
        assert line.get_marker() == "None"
        assert line.get_linewidth() < 1.4
    assert here.get_color() != wan.get_color()
    (gain,) = lines(axes["gains"], "model: wan")
    assert gain.get_ydata().tolist()[:2] == [1.0, 0.3361]
    (efficiency,) = lines(axes["efficiencies"], "model: wan")
    assert efficiency.get_ydata().tolist()[1] == pytest.approx(16.805)
    assert not lines(axes["shares"], "model: wan")
    named = {line.get_label() for line in axes["times"].get_lines() if line.is_dashed()}
    assert all(name.startswith("model: ") for name in named)


def test_the_ideal_line_is_ideal(axes):
    (line,) = lines(axes["gains"], IDEAL)
    assert list(line.get_xdata()) == list(line.get_ydata()) == [1, 1024]


def test_the_legend_names_all_and_the_caption_says_what_is_hollow():
    figure = scale_figure(stored_report())
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {
        MEASURED,
        MARKED,
        IDEAL,
        "model: wan",
        "model: network, measured here",
    }
    assert legend.get_title().get_text().startswith("a9a: strong scaling of sparq-sgd")
    words = caption(stored_report())
    assert "Hollow marks are not to be trusted: ranks 4 (noisy), 8 (oversubscribed, one run)." in words
    assert words.endswith("Dashed lines are a model's, not measured.")


def test_without_clean_points_phases_are_named_still_and_without_any_it_says_so(tmp_path):
    report = stored_report(forecasts=())
    marked = stored_report(merits=report.merits[2:], forecasts=())
    shares = scale_figure(marked).axes[3]
    assert [text.get_text() for text in shares.get_legend().get_texts()] == [
        "compute",
        "compress",
        "communicate",
        "wait",
    ]
    empty = scale_figure(stored_report(merits=merits(report.plan, []), forecasts=()))
    assert empty.axes[0].texts[0].get_text() == "no point has figures yet"
    assert [path.name for path in save(empty, tmp_path, "scale", ("png", "svg"))] == ["scale.png", "scale.svg"]
