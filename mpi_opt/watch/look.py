"""What the files of a run say now: read again and again, whatever state they are in."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError, MpiOptError
from mpi_opt.job import load_job
from mpi_opt.jobkeys import Job
from mpi_opt.metrics.lost import Lost, read_lost
from mpi_opt.metrics.tail import Tail, read_history, read_tail
from mpi_opt.run.checkpoint import found
from mpi_opt.status import age
from mpi_opt.watch.life import life

_HISTORY = (
    *("step", "round", "epoch", "seconds", "wall_seconds", "payload_bytes", "header_bytes"),
    *("objective_average", "gradient_norm"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A run as its files show it at one moment.

    Attributes
    ----------
    folder : Path
    state : {"waiting", "running", "silent", "killed", "ended"}
        ``waiting``: it has no metrics yet.
    words : str
        How it ended, or why it is thought to go on no more.
    job : Job or None
        The resolved job; ``None`` where it is not known.
    tails : tuple of Tail
        The nodes that take part, by number; those whose file cannot be read now as they were read last.
    history : mapping of str to ndarray, shape (rows,)
        Series of the node that has most rows.
    lost : tuple of Lost
        Nodes that died, and are not in ``tails``.
    flushed : float or None
        Seconds since a metrics file was last written.
    checkpoint, checkpoint_age : int or None, float or None
        Step of the newest checkpoint; seconds since it was written.
    trouble : str
        Which files cannot be read now; empty where all can.
    """

    folder: Path
    state: str
    words: str
    job: Job | None
    tails: tuple[Tail, ...]
    history: Mapping[str, npt.NDArray[Any]]
    lost: tuple[Lost, ...]
    flushed: float | None
    checkpoint: int | None
    checkpoint_age: float | None
    trouble: str

    @property
    def last(self) -> Mapping[str, float]:
        """The newest row of the node that has most; empty where there is none."""
        return first(self.tails).last if self.tails else {}

    @property
    def simulated(self) -> bool:
        """Whether seconds are those of a virtual clock."""
        return bool(self.tails and self.tails[0].attributes.get("clock", ""))

    def each(self, name: str) -> npt.NDArray[np.float64]:
        """Return a series' last value on every node that has one."""
        return np.array([tail.last.get(name, np.nan) for tail in self.tails if tail.rows])


def first(tails: Sequence[Tail]) -> Tail:
    """Return the node that has most rows; of several the lowest."""
    return max(tails, key=lambda tail: (tail.rows, -tail.node))


class _Stamp(NamedTuple):
    inode: int
    size: int
    changed: int


class Looker:
    """Looks at a run's files; what has not changed since the last time is not read again.

    Parameters
    ----------
    folder : Path
        The run's; it may be made later, and made anew.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[Path, tuple[_Stamp, Tail]] = {}
        self._history: tuple[_Stamp, dict[str, npt.NDArray[Any]]] | None = None
        self._job: tuple[str, Job | None] = ("", None)

    def look(self) -> View:
        """Return what the files say now."""
        troubles = self._read_tails()
        try:
            lost = read_lost(self._folder)
        except DataError as error:
            lost, troubles = (), [*troubles, str(error)]
        gone = {each.node for each in lost}
        tails = tuple(
            sorted((tail for _, tail in self._tails.values() if tail.node not in gone), key=lambda tail: tail.node)
        )
        flushed = age(tail.path for tail in tails)
        history = self._read_history(tails)
        state, words = self._state(tails, history, flushed)
        checkpoints = found(self._folder / "checkpoints")
        return View(
            folder=self._folder,
            state=state,
            words=words,
            job=self._read_job(tails),
            tails=tails,
            history=history,
            lost=lost,
            flushed=flushed,
            checkpoint=int(checkpoints[0].name.removeprefix("step_")) if checkpoints else None,
            checkpoint_age=age(checkpoints[:1]),
            trouble=_some(troubles),
        )

    def _read_tails(self) -> list[str]:
        """Read the files that have changed; return what is wrong with those that cannot be read."""
        troubles, there = [], {}
        for path in sorted((self._folder / "metrics").glob("rank_*.h5")):
            known = self._tails.get(path)
            try:
                stamp = _stamp(path)
                there[path] = known if known and known[0] == stamp else (stamp, read_tail(path))
            except FileNotFoundError:
                continue  # replaced or taken away between two lines
            except DataError as error:
                troubles.append(str(error))
                if known:
                    there[path] = known
        self._tails = there
        return troubles

    def _read_history(self, tails: Sequence[Tail]) -> dict[str, npt.NDArray[Any]]:
        if not tails:
            return {}
        path = first(tails).path
        stamp = self._tails[path][0]
        if self._history is None or self._history[0] != stamp:
            with suppress(DataError):  # read a moment ago: the next look will do
                self._history = (stamp, read_history(path, _HISTORY))
        return self._history[1] if self._history else {}

    def _read_job(self, tails: Sequence[Tail]) -> Job | None:
        text = str(tails[0].attributes.get("job", "")) if tails else ""
        if text != self._job[0]:
            try:
                self._job = (text, load_job(text))
            except MpiOptError:
                self._job = (text, None)
        return self._job[1]

    def _state(
        self, tails: Sequence[Tail], history: Mapping[str, npt.NDArray[Any]], flushed: float | None
    ) -> tuple[str, str]:
        if not tails or flushed is None:
            return "waiting", ""
        ends = [tail.status for tail in tails if tail.ended]
        if len(ends) == len(tails):
            # One that failed says more than those that ended with it.
            return "ended", next((end for end in ends if not end.startswith("done")), ends[0])
        wall = history.get("wall_seconds", np.zeros(0))
        return life(self._folder, flushed, float(np.diff(wall).max()) if len(wall) > 1 else 0.0)


def _stamp(path: Path) -> _Stamp:
    facts = path.stat()
    return _Stamp(facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _some(troubles: Sequence[str]) -> str:
    if not troubles:
        return ""
    more = f"; and {len(troubles) - 1} more" if len(troubles) > 1 else ""
    return " ".join(troubles[0].split()) + more
