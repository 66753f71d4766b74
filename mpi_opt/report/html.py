"""Pieces of HTML: text escaped, tables that can be sorted, names that can be identifiers."""

import math
import re
from collections.abc import Sequence
from html import escape

_UNITS = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "s": 1.0, "%": 0.01}


def tag(name: str, inside: str, **attributes: str) -> str:
    """Return an element; ``inside`` is HTML, attributes are text (``class_`` stands for ``class``)."""
    shown = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{shown}>{inside}</{name}>"


def table(rows: Sequence[Sequence[str]], caption: str) -> str:
    """Return a table whose first row is its head and whose first column names the rows; cells are text."""
    columns = range(len(rows[0]))
    words = [not any(sort_key(row[k]) is not None for row in rows[1:]) for k in columns]  # to the left
    head = "".join(_cell("th", rows[0][k], words[k], scope="col") for k in columns)
    body = []
    for row in rows[1:]:
        cells = [_cell("td" if k else "th", row[k], words[k], scope="" if k else "row") for k in columns]
        body.append(tag("tr", "".join(cells)))
    inside = f"{tag('caption', escape(caption))}\n<thead>{tag('tr', head)}</thead>\n<tbody>\n"
    inside += "\n".join(body) + "\n</tbody>"
    return tag("div", tag("table", inside), class_="wide", tabindex="0", role="region", aria_label=caption)


def _cell(name: str, text: str, words: bool, scope: str) -> str:
    given = {"scope": scope} if scope else {}
    if words:
        given["class"] = "words"
    elif name == "td" and (key := sort_key(text)) is not None:
        given["data-sort"] = f"{key:.12g}"
    return tag(name, escape(text), **given)


def sort_key(text: str) -> float | None:
    """Return the number that a cell begins with, in its unit's base; infinity for "not reached", ``None`` for words."""
    if text == "not reached":
        return math.inf
    found = re.match(r"(?:at least )?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?) ?([kMG]?B|s|%)?(?:$|[ ,(])", text)
    if found is None:
        return None
    return float(found.group(1)) * _UNITS[found.group(2) or "B"]


def slug(label: str, taken: set[str]) -> str:
    """Return a name for files and identifiers made of ``label``, and put it to those ``taken``."""
    base = re.sub(r"[^A-Za-z0-9-]+", "-", label).strip("-")[:60] or "run"
    name, count = base, 1
    while name.lower() in taken:  # some file systems do not tell capitals
        count += 1
        name = f"{base}-{count}"
    taken.add(name.lower())
    return name
