"""What a check came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OK, FAILED, LEFT_OUT = "ok", "FAILED", "left out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one process found in one check.

    Attributes
    ----------
    detail : str
        What was compared, in figures; the first process's is shown.
    faults : sequence of str
        What is wrong, as seen here; empty where nothing is.
    left_out : str
        Why the check was not made; the same on all processes.
    """

    detail: str = ""
    faults: Sequence[str] = ()
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What all processes together found in one check.

    Attributes
    ----------
    name, about : str
        The check, and what it holds against what.
    status : {"ok", "FAILED", "left out"}
    detail : str
        What was compared, what is wrong and on which rank, or why the check was left out.
    remedy : str
        What to do where it failed; empty elsewhere.
    seconds : float
        Time it took.
    faults : tuple of str
        All that is wrong, by rank.
    """

    name: str
    about: str
    status: str
    detail: str
    remedy: str
    seconds: float
    faults: tuple[str, ...] = ()

    def text(self, width: int) -> str:
        """Return the line to print, its name padded to ``width``, and below it what to do."""
        line = f"{self.status:<8}  {self.name:<{width}}  {self.detail}"
        return f"{line}\n{'':{width + 12}}what to do: {self.remedy}" if self.remedy else line

    def values(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "about": self.about,
            "status": self.status,
            "detail": self.detail,
            "faults": self.faults,
            "what_to_do": self.remedy,
            "seconds": round(self.seconds, 3),
        }


def merged(name: str, about: str, remedy: str, outcomes: Sequence[Outcome], seconds: float) -> Finding:
    """Return what the outcomes of all processes, in rank order, come to."""
    faults = [
        f"rank {rank}: {fault}" if len(outcomes) > 1 else fault
        for rank, outcome in enumerate(outcomes)
        for fault in outcome.faults
    ]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return Finding(name, about, FAILED, faults[0] + more, remedy, seconds, tuple(faults))
    first = outcomes[0]
    if first.left_out:
        return Finding(name, about, LEFT_OUT, first.left_out, "", seconds)
    return Finding(name, about, OK, first.detail, "", seconds)
