"""Names of runs that are no plain words: formulas, terminal codes, bytes that are no text, letters without a glyph."""

import pytest

from mpi_opt.report.figures.output import inline_svg
from mpi_opt.report.figures.style import label, legend, line, mark, new_figure
from mpi_opt.words import one_line

_ODD = ["$\\frac{1}$", "a $x$ b", "_hidden", "日本", "new\nline\x1b[31m", "bad\udcff", "<b>&\"'"]


@pytest.mark.parametrize("name", _ODD)
def test_a_figure_shows_any_name(name):
    figure, (axes,) = new_figure()
    line(axes, [1, 2], [1, 2], mark(0), one_line(name))
    label(axes, x="x", y="y", title=one_line(name))
    legend(figure, axes)
    text = inline_svg(figure, "f", "t", "d")
    assert "<b>" not in text
    if name in ("$\\frac{1}$", "a $x$ b"):
        assert text.count(name) >= 2
    assert "_hidden" in text or name != "_hidden"


def test_a_name_stays_on_its_line():
    assert one_line("a\nb\x1b[31m\udcff ü") == r"a\nb\x1b[31m\udcff ü"
