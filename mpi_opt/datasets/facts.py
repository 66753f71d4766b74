"""Figures of LIBSVM text, of a block, a part of a file, a file or many: parts are added up in their order."""

from collections import Counter
from dataclasses import dataclass, fields

import numpy as np

from mpi_opt.datasets.rows import Rows
from mpi_opt.types import Bytes

MOST_LABELS = 256
"""Distinct labels counted; a set with more has real numbers to predict, not classes."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a text holds. Figures from ``nonzeros`` on are of ``rows``, those without a fault.

    Attributes
    ----------
    bytes, lines : int
        Uncompressed; a last line without a newline counts.
    crlf : int
        Lines that end in CRLF.
    open_end : bool
        Whether the last line has no newline.
    empty_lines : int
        Lines that are no row: blank, or comment only.
    faulty_rows : int
        Rows with a fault.
    dropped_rows, zeroed_values, qids : int
        See ``rows.Seen``.
    rows : int
        Rows that a reader would keep.
    nonzeros, zeros : int
        Entries stored, and those among them that are 0.
    label_only : int
        Rows without features.
    longest : int
        Most entries in a row.
    smallest, largest : int or None
        Indices as written; ``None`` where there are none.
    labels : dict of float to int, or None
        Rows of each label, ``None`` where there are more than ``MOST_LABELS``.
    ends : tuple of float, or None
        First and last label, ``None`` without rows.
    ascends, descends : bool
        Whether no label is below (above) the one before it.
    """

    bytes: int = 0
    lines: int = 0
    crlf: int = 0
    open_end: bool = False
    empty_lines: int = 0
    faulty_rows: int = 0
    dropped_rows: int = 0
    zeroed_values: int = 0
    qids: int = 0
    rows: int = 0
    nonzeros: int = 0
    zeros: int = 0
    label_only: int = 0
    longest: int = 0
    smallest: int | None = None
    largest: int | None = None
    labels: Counter[float] | None = None
    ends: tuple[float, float] | None = None
    ascends: bool = True
    descends: bool = True

    def __add__(self, other: "Facts") -> "Facts":
        """Return the facts of this text followed by another."""
        added = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        ends, meet = self.ends or other.ends, (0.0, 0.0)
        if self.ends is not None and other.ends is not None:
            ends, meet = (self.ends[0], other.ends[1]), (self.ends[1], other.ends[0])
        lowest = [facts.smallest for facts in (self, other) if facts.smallest is not None]
        highest = [facts.largest for facts in (self, other) if facts.largest is not None]
        return Facts(
            **added,
            open_end=other.open_end if other.bytes else self.open_end,
            longest=max(self.longest, other.longest),
            smallest=min(lowest, default=None),
            largest=max(highest, default=None),
            labels=_together(self, other),
            ends=ends,
            ascends=self.ascends and other.ascends and meet[0] <= meet[1],
            descends=self.descends and other.descends and meet[0] >= meet[1],
        )


_COUNTS = tuple(field.name for field in fields(Facts) if field.type in (int, "int") and field.name != "longest")


def _together(one: Facts, other: Facts) -> Counter[float] | None:
    """Return the label counts of both; a text without rows has none to add."""
    counts = [facts.labels for facts in (one, other) if facts.rows]
    if None in counts:
        return None
    total: Counter[float] = sum((count for count in counts if count is not None), start=Counter())
    return total if len(total) <= MOST_LABELS else None


def block_facts(block: Bytes, lines_with_fields: int, faulty_rows: int, rows: Rows) -> Facts:
    """Return the facts of one block of whole lines.

    Parameters
    ----------
    block : ndarray of uint8
    lines_with_fields, faulty_rows : int
        Lines with a label, and those of them that have a fault.
    rows : Rows
        The others, what is not finite left out or replaced.
    """
    newlines = np.flatnonzero(block == 10)
    open_end = block.size > 0 and bool(block[-1] != 10)
    lines = newlines.size + open_end
    lengths, labels, indices = np.diff(rows.indptr), rows.labels, rows.indices
    seen, counts = np.unique(labels, return_counts=True)
    smallest = int(indices.min()) if indices.size else None
    return Facts(
        bytes=block.size,
        lines=lines,
        crlf=int(np.count_nonzero(block[newlines[newlines > 0] - 1] == 13)),
        open_end=open_end,
        empty_lines=lines - lines_with_fields,
        faulty_rows=faulty_rows,
        dropped_rows=rows.seen.dropped,
        zeroed_values=rows.seen.zeroed,
        qids=rows.seen.qids,
        rows=labels.size,
        nonzeros=indices.size,
        zeros=int(np.count_nonzero(rows.values == 0.0)),
        label_only=int(np.count_nonzero(lengths == 0)),
        longest=int(lengths.max(initial=0)),
        smallest=0 if rows.seen.zero_index else smallest,
        largest=int(indices.max()) if indices.size else None,
        labels=Counter(dict(zip(seen.tolist(), counts.tolist(), strict=True))) if seen.size <= MOST_LABELS else None,
        ends=(float(labels[0]), float(labels[-1])) if labels.size else None,
        ascends=bool((labels[1:] >= labels[:-1]).all()),
        descends=bool((labels[1:] <= labels[:-1]).all()),
    )
