"""Seconds by size as they were measured, read off between the sizes."""

from bisect import bisect_left
from dataclasses import dataclass

from mpi_opt.errors import JobError


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of something by its bytes: linear between the sizes measured, and on as between the last two.

    Parameters
    ----------
    nbytes : tuple of float
        Sizes, ascending, at least one.
    seconds : tuple of float
        One a size, > 0.

    Raises
    ------
    JobError
        Not such numbers.
    """

    nbytes: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        ascending = all(one < next_ for one, next_ in zip(self.nbytes, self.nbytes[1:], strict=False))
        if not self.nbytes or len(self.nbytes) != len(self.seconds) or not ascending or not self.nbytes[0] >= 0:
            raise JobError("a measured curve needs ascending sizes >= 0 and as many times")
        if not all(0 < each < float("inf") for each in self.seconds):
            raise JobError("a measured curve needs times above 0")

    def at(self, nbytes: float) -> float:
        """Return the seconds at a size; below the least size those of the least, beyond the largest never less."""
        sizes, seconds = self.nbytes, self.seconds
        if nbytes <= sizes[0] or len(sizes) == 1:
            return seconds[0]
        right = min(bisect_left(sizes, nbytes), len(sizes) - 1)
        slope = (seconds[right] - seconds[right - 1]) / (sizes[right] - sizes[right - 1])
        if nbytes > sizes[-1]:
            return seconds[-1] + max(slope, 0.0) * (nbytes - sizes[-1])
        return seconds[right - 1] + slope * (nbytes - sizes[right - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What was measured on the ranks themselves; ``None`` for what was not.

    Attributes
    ----------
    nodes : int
        Ranks that took part.
    message : Curve or None
        One message, from call to arrival.
    exchange : Curve or None
        A neighbour exchange of all ranks at once, by bytes of one message.
    degree : int
        Neighbours in that exchange.
    reduction : Curve or None
        Reduce to the master and Bcast of the answer, by bytes of the vector.
    posting : float
        Seconds of an exchange that the calls handing messages over and taking them in take, waiting left out; of the
        shortest messages.
    """

    nodes: int
    message: Curve | None = None
    exchange: Curve | None = None
    degree: int = 1
    reduction: Curve | None = None
    posting: float = 0.0
