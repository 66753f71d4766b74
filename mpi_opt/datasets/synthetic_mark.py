"""What the first line of a synthetic set says, so that results name it whatever its file is called."""

import re
from pathlib import Path

from mpi_opt.datasets.compressed import open_stream
from mpi_opt.errors import DataError

_MARK = re.compile(rb"# synthetic: ([a-z0-9-]+) ")
_MARK_BYTES = 200


def named(word: str, path: Path) -> str:
    """Return what a set of text is called: the job's word, and the recipe's name where that is not in it."""
    try:
        with open_stream(path) as stream:
            found = _MARK.match(stream.read(_MARK_BYTES))
    except DataError:
        return word  # whoever reads it will say so
    if found is None or found[1].decode() in word:
        return word
    return f"{word} (synthetic: {found[1].decode()})"
