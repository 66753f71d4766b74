"""Words for people: help for one that is not known, and numbers as text."""

import difflib
from collections.abc import Iterable


def nearest(word: object, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with that of ``allowed`` which is nearest, or nothing where none is near."""
    near = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.5) if isinstance(word, str) else ()
    return f"; did you mean {near[0]!r}?" if near else ""


def number_text(number: float) -> str:
    """Return the shortest text that reads back as the same number; a whole one without a point."""
    if number == round(number) and abs(number) < 2**53:
        return f"{number + 0.0:.0f}"  # -0.0 + 0.0 is 0.0
    return repr(float(number))
