"""A figure with its words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure of a report, or the words that stand in its place.

    Attributes
    ----------
    name : str
        Of its files, and of its identifiers on the page.
    title : str
    figure : Figure or None
        ``None`` where there is nothing to show; then the caption says why.
    alt : str
        What it shows, for who cannot see it.
    caption : str
        How to read it.
    """

    name: str
    title: str
    figure: "Figure | None"
    alt: str
    caption: str


def words_instead(name: str, title: str, why: str) -> Picture:
    """Return what stands in the place of a figure that has nothing to show."""
    return Picture(name=name, title=title, figure=None, alt="", caption=why)
