"""Whether a claim "less than a share of the best rival" held: of rounds or of seconds, to one target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS_SHARE = 0.6
"""LocalNewton's abstract: fewer than 60 % of the communication rounds."""

TIME_SHARE = 0.4
"""Likewise: less than 40 % of the time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim at one target.

    Attributes
    ----------
    ours : float or None
        What the method needed; ``None``: not reached.
    rival : str
        The best rival's name; empty where none reached the target.
    best : float or None
        What that one needed.
    held : bool or None
        ``None`` where nobody reached the target, so that there is nothing to judge.
    """

    ours: float | None
    rival: str
    best: float | None
    held: bool | None

    @property
    def share(self) -> float | None:
        """What the method needed of the best rival's amount, where both reached the target."""
        return None if self.ours is None or self.best is None else self.ours / self.best


def judge(ours: float | None, rivals: Mapping[str, float | None], bound: float) -> Verdict:
    """Hold a method against the best of its rivals.

    A target that only the method reaches is a claim held, one that only a rival reaches is one not held.

    Parameters
    ----------
    ours : float or None
        What the method needed, > 0; ``None``: not reached.
    rivals : mapping of str to float or None
        The same of each rival; of equal ones the first is named.
    bound : float
        The share that it must stay below.
    """
    reached = {name: amount for name, amount in rivals.items() if amount is not None}
    if not reached:
        return Verdict(ours, "", None, None if ours is None else True)
    name = min(reached, key=reached.__getitem__)
    best = reached[name]
    return Verdict(ours, name, best, ours is not None and ours < bound * best)


def in_words(verdict: Verdict, show: Callable[[float], str]) -> str:
    """Return the amounts, as in ``6 of 14 (GIANT), 43 %``."""
    ours = "not reached" if verdict.ours is None else show(verdict.ours)
    if verdict.best is None:
        return ours if verdict.ours is None else f"{ours}, no rival"
    text = (
        f"{ours} of {show(verdict.best)} ({verdict.rival})"
        if verdict.ours is not None
        else (f"not reached; {show(verdict.best)} ({verdict.rival})")
    )
    return text if verdict.share is None else f"{text}, {_percent(verdict.share)}"


def _percent(share: float) -> str:
    """Return three digits, so that a share just under a bound is told from one at it."""
    return f"{100 * share:.3g} %" if share < 9.995 else f"{100 * share:.0f} %"


def held_in_words(held: bool | None) -> str:
    """Return ``yes``, ``no`` or a dash."""
    return "–" if held is None else "yes" if held else "**no**"
