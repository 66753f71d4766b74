"""What the studies share: tables in Markdown, and pages of which a part is made by a command."""

import re
from collections.abc import Sequence
from pathlib import Path

from mpi_opt.errors import JobError


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, one line a row."""
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def fill(page: Path, part: str, text: str) -> None:
    """Put ``text`` in the place of a part of a page, between the lines ``<!-- PART -->`` and ``<!-- end of PART -->``.

    Raises
    ------
    JobError
        The page cannot be read or written, or does not have the part exactly once.
    """
    try:
        before = page.read_text(encoding="utf-8")
        begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
        if before.count(begin) != 1 or before.count(end) != 1 or before.index(begin) > before.index(end):
            raise JobError(f"{page}: needs one line '{begin.strip()}' and after it one line '{end}'")
        between = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        page.write_text(between.sub(lambda _: f"{begin}\n{text}\n\n{end}", before), encoding="utf-8")
    except OSError as error:
        raise JobError(f"{page}: {error.strerror}") from None


def show(text: str, page: Path | None, part: str) -> None:
    """Print ``text``, or put it into a part of a page where one is given: see `fill`.

    Raises
    ------
    JobError
        See `fill`.
    """
    if page is None:
        print(text)  # noqa: T201
    else:
        fill(page, part, text)
