"""A figure that differs between nodes: its least, mean and largest value."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """Least, mean and largest value over the nodes."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of one value a node."""
        return cls(min(values), sum(values) / len(values), max(values))

    def told(self, say: Callable[[float], str] | None = None) -> str:
        """Return it as words: one value where all are alike, as far as ``say`` tells them apart."""
        say = _count if say is None else say
        if say(self.least) == say(self.most):
            return say(self.most)
        return f"{say(self.least)} to {say(self.most)}, mean {say(self.mean)}"


def _count(number: float) -> str:
    return f"{number:.0f}" if number == round(number) or number >= 100 else f"{number:.1f}"
