"""Words for people: help for one that is not known, and numbers as text."""

import difflib
import json
import math
from collections.abc import Iterable


def nearest(word: object, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with that of ``allowed`` which is nearest, or nothing where none is near."""
    near = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.5) if isinstance(word, str) else ()
    return f"; did you mean {near[0]!r}?" if near else ""


def word_text(word: str) -> str:
    """Return a word as it stands among others: as it is, or in quotes as JSON where blanks or signs would blur it."""
    if word.isprintable() and not any(sign in word for sign in ' "') and word:
        return word
    return json.dumps(word, ensure_ascii=not word.isprintable())


def one_line(text: str) -> str:
    """Return text in which what cannot be printed (line ends, terminal codes, no text) stands as an escape."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def number_text(number: float) -> str:
    """Return the shortest text that reads back as the same number; a whole one without a point."""
    if math.isfinite(number) and number == round(number) and abs(number) < 2**53:
        return f"{number + 0.0:.0f}"  # -0.0 + 0.0 is 0.0
    return repr(float(number))
