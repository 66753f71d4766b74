"""A range of a text file, looked through for every fault and for figures."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.byteranges import whole_lines
from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.facts import Facts, block_facts
from mpi_opt.datasets.faults import Place, find_faults, place_of, tell
from mpi_opt.datasets.fields import Fields, find_fields
from mpi_opt.datasets.libsvm import cut_lines
from mpi_opt.datasets.malformed import Kind
from mpi_opt.datasets.mending import fatal_faults, mend, rows_of
from mpi_opt.datasets.spec import NanRule
from mpi_opt.datasets.textfiles import CHUNK
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes

LISTED = 20
"""Faults told one by one."""


@dataclass(slots=True)
class Part:
    """What a range of a file holds; lines count from its beginning.

    Attributes
    ----------
    facts : Facts
    counts : ndarray of int64, shape (kinds,)
        Faults by ``Kind``.
    told : list of Place
        The first ``LISTED``.
    zero : tuple of int, or None
        Line and column of the first index 0.
    broken : str or None
        Why reading ended early.
    """

    facts: Facts = field(default_factory=Facts)
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(Kind), dtype=np.int64))
    told: list[Place] = field(default_factory=list)
    zero: tuple[int, int] | None = None
    broken: str | None = None


def check_range(path: Path, first: int, last: int | None, index_base: int, nan: NanRule) -> Part:
    """Look through the lines that begin in bytes ``first`` to ``last`` of the (uncompressed) file.

    Parameters
    ----------
    path : Path
    first : int
    last : int or None
        ``None`` for all that follows.
    index_base : {1, 0}
        Smallest index allowed.
    nan : {"refuse", "drop-row", "zero"}
        Which values that are not finite are no faults.
    """
    part = Part()
    try:
        with open_stream(path) as stream:
            for _, data in whole_lines(stream, path, first, last, CHUNK):
                for block in cut_lines(np.frombuffer(data, dtype=np.uint8)):
                    _check_block(part, block, index_base, nan)
    except DataError as error:
        part.broken = str(error).removeprefix(f"{path}: ")
    return part


def _check_block(part: Part, block: Bytes, index_base: int, nan: NanRule) -> None:
    found = find_fields(block, index_base)
    before, faulty = part.facts.lines, 0
    if found.bad.any() or found.bad_label.any():
        faults = find_faults(found)
        fatal = fatal_faults(faults, nan)
        fields, kinds = faults.fields[fatal], faults.kinds[fatal]
        part.counts += np.bincount(kinds, minlength=len(Kind))
        for number, kind in zip(fields[: LISTED - len(part.told)].tolist(), kinds.tolist(), strict=False):
            place = tell(found, number, kind)
            part.told.append(place._replace(line=place.line + before))
        faulty = np.unique(faults.rows[fatal]).size
        rows = mend(found, faults, fatal, nan)
    else:
        rows = rows_of(found)
    if index_base == 0 and part.zero is None:
        part.zero = _first_zero(found, before)
    part.facts += block_facts(block, found.labels.size, faulty, rows)


def _first_zero(found: Fields, before: int) -> tuple[int, int] | None:
    """Return line and column of the first index 0 in a block behind ``before`` lines."""
    zeros = np.flatnonzero((found.index == 0) & ~found.bad)
    if zeros.size == 0:
        return None
    line, column = place_of(found, int(np.flatnonzero(~found.first)[zeros[0]]))
    return line + before, column
