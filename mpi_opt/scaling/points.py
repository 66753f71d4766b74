"""The points of a scaling test: which numbers of ranks, how often each, on how many rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mpi_opt.errors import JobError

Mode: TypeAlias = Literal["strong", "weak"]
"""The same rows for all numbers of ranks, or the same rows a rank."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One run: its number of ranks, and its repeat, counted from 0."""

    ranks: int
    repeat: int

    def name(self, test: str) -> str:
        """Return what the run of this point is called in the test of that name."""
        return f"{test}-{self.ranks}-{self.repeat}"

    def __str__(self) -> str:
        return f"{self.ranks} rank{'s' * (self.ranks > 1)}, repeat {self.repeat + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A scaling test.

    Attributes
    ----------
    mode : {"strong", "weak"}
    ranks : tuple of int
        Ascending.
    repeats : int
        Runs of each number of ranks.
    rows : int or None
        Weak: rows of each node that holds any. Strong: ``None``.
    masters : int
        Nodes that hold no rows, 0 or 1.
    """

    mode: Mode
    ranks: tuple[int, ...]
    repeats: int
    rows: int | None = None
    masters: int = 0

    def points(self) -> tuple[Point, ...]:
        """Return all points, repeat by repeat: what drifts in the meantime spreads over all numbers of ranks."""
        return tuple(Point(ranks, repeat) for repeat in range(self.repeats) for ranks in self.ranks)

    def rows_on(self, ranks: int) -> int | None:
        """Return the rows of all nodes together; ``None`` where they are the job's own."""
        return None if self.rows is None else self.rows * max(1, ranks - self.masters)


def rank_counts(text: str) -> tuple[int, ...]:
    """Return the numbers of ranks of ``"1,2,4,8"``, ascending.

    Raises
    ------
    JobError
        One of them is none, or is there twice: names it and what is allowed.
    """
    found = []
    for word in text.split(","):
        if not word.strip().isdecimal() or int(word) < 1:
            raise JobError(
                f"--ranks {text}: {word.strip()!r} is no number of ranks; allowed: integers >= 1, as 1,2,4,8"
            )
        if int(word) in found:
            raise JobError(f"--ranks {text}: {int(word)} is there twice")
        found.append(int(word))
    return tuple(sorted(found))


def weak_rows(total: int, ranks: Sequence[int], masters: int) -> int:
    """Return the rows a node such that the largest number of ranks uses all (but fewer than one a node).

    Parameters
    ----------
    total : int
        Rows that there are.
    ranks : sequence of int
    masters : int
        Nodes that hold no rows.

    Raises
    ------
    JobError
        There are fewer rows than nodes.
    """
    workers = max(1, max(ranks) - masters)
    if total < workers:
        raise JobError(f"--mode weak: {total} rows for {workers} nodes; allowed: at least one row a node")
    return total // workers
