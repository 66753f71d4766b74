"""Figures as files, and as a part of an HTML page."""

import io
import re
import threading
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
"""What `save` writes."""

INK = "#1b1b1b"
"""Lines and words; on the page it becomes the reader's text colour."""
RULE = "#c8c8c8"
"""The grid; on the page it becomes the reader's own."""

_OF_THE_PAGE = {
    INK: "currentColor",
    RULE: "var(--rule)",
    "#0072b2": "var(--blue)",
    "#d55e00": "var(--red)",
    "#009e73": "var(--green)",
}
"""What the page sets anew on dark ground (``page_style.CSS``)."""

_SETTINGS = {"svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}
"""Words stay words: they can be searched and read out; journals refuse the fonts that matplotlib makes of its own."""
_lock = threading.Lock()


def save(figure: "Figure", folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Write a figure as ``folder/name.format``, for each of ``formats`` (of `FORMATS`); return the files.

    The same figure gives the same bytes: no date goes in.

    Raises
    ------
    JobError
        A file cannot be written.
    """
    from mpi_opt.metrics.files import replace_file

    made = []
    for kind in formats:
        path = folder / f"{name}.{kind}"
        replace_file(path, _image(figure, kind, name), durable=False)
        made.append(path)
    return made


_UNDATED: dict[str, dict[str, object]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "mpi_opt"},
    "svg": {"Date": None, "Creator": "mpi_opt"},
}


def _image(figure: "Figure", kind: str, name: str) -> bytes:
    data = io.BytesIO()
    with _settings(), warnings.catch_warnings():
        # A run's name may hold letters that matplotlib's own font lacks; on the page the reader's fonts have them.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)  # laid out once: a second time would move things by a hair
        figure.savefig(data, format=kind, dpi=200, metadata=_UNDATED[kind])
    return _numbered(data.getvalue().decode(), name).encode() if kind == "svg" else data.getvalue()


def inline_svg(figure: "Figure", name: str, title: str, description: str) -> str:
    """Return a figure for an HTML page: no file, no script, readable on light and dark ground and by a screen reader.

    Parameters
    ----------
    figure : Figure
    name : str
        Begins every identifier in it; to be its own on the page.
    title, description : str
        What a screen reader says.
    """
    text = _image(figure, "svg", name).decode()
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # it would be the whole page's
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None  # matplotlib always writes one
    width = float(box.group(1).split()[2])
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="{box.group(1)}" style="width:100%;max-width:{width / 72 * 1.35:.2f}in;height:auto" '
        f'aria-labelledby="{name}-title {name}-words">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-words">{escape(description)}</desc>'
    )
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    # The paper is the page's own; words and rules take its colours.
    svg = re.sub(r'(<g id="[^"]*">\s*<path d="[^"]*"\s*style=")fill: #ffffff', r"\1fill: none", svg, count=1)
    for colour, variable in _OF_THE_PAGE.items():
        svg = svg.replace(colour, variable)
    return svg


def _numbered(svg: str, name: str) -> str:
    """Return an SVG whose identifiers are its own and the same every time: ``name-1``, ``name-2``, ..."""
    order: dict[str, str] = {}
    for found in re.findall(r'\bid="([^"]+)"', svg):
        order.setdefault(found, f"{name}-{len(order) + 1}")
    svg = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{order[m.group(1)]}"', svg)
    return re.sub(r'(url\(#|href="#)([^")]+)', lambda m: m.group(1) + order.get(m.group(2), m.group(2)), svg)


@contextmanager
def _settings() -> Iterator[None]:
    """Set what matplotlib only takes for the whole process; one figure at a time, and put back what was there."""
    import matplotlib

    parameters = cast("MutableMapping[str, object]", matplotlib.rcParams)
    with _lock:
        before = {key: parameters[key] for key in _SETTINGS}
        try:
            parameters.update(_SETTINGS)
            yield
        finally:
            parameters.update(before)
