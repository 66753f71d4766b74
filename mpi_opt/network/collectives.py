"""The few collective operations that readers, evaluation and the run loop are handed; none is part of a step.

``Solo`` serves one process (lockstep, tests, tools); ``network/mpi.py`` has the one over a communicator.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Collectives(Protocol):
    """Operations among the processes of a run. Every process calls the same one in the same order."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

    def max(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the element-wise maximum over processes, float64."""
        ...

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the element-wise sum over processes, folded in rank order: the same bits everywhere."""
        ...

    def gather(self, item: Any) -> list[Any]:
        """Return every process's ``item`` (small, picklable) in rank order, on every process."""
        ...

    def broadcast(self, item: Any, root: int = 0) -> Any:
        """Return the root's ``item`` (small, picklable) on every process."""
        ...

    def all_to_all(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Send ``arrays[p]`` (one-dimensional, one dtype) to process p; return what came, in rank order."""
        ...

    def check(self, error: Exception | None) -> None:
        """Raise everywhere if any process has an error: the first by rank, with its class and message.

        Called by all after a phase that may fail on one process, so that nobody goes on alone.
        """
        ...


class Solo:
    """The collectives of a single process."""

    rank = 0
    size = 1

    def max(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return ``values`` as a float64 array."""
        return np.array(values, dtype=np.float64)

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a copy of ``values``."""
        return values.copy()

    def gather(self, item: Any) -> list[Any]:
        """Return ``[item]``."""
        return [item]

    def broadcast(self, item: Any, root: int = 0) -> Any:
        """Return ``item``."""
        return item

    def all_to_all(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return ``[arrays[0]]``."""
        return [arrays[0]]

    def check(self, error: Exception | None) -> None:
        """Raise ``error`` if there is one."""
        if error is not None:
            raise error
