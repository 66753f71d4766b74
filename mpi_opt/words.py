"""Help for a word that is not known."""

import difflib
from collections.abc import Iterable


def nearest(word: object, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with that of ``allowed`` which is nearest, or nothing where none is near."""
    near = difflib.get_close_matches(word.lower(), allowed, n=1, cutoff=0.5) if isinstance(word, str) else ()
    return f"; did you mean {near[0]!r}?" if near else ""
