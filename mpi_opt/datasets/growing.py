"""One-dimensional arrays that grow at their end and are never held twice."""

from typing import Any

import numpy as np
import numpy.typing as npt


class Growing:
    """An array in the making.

    It is resized where it lies: C's ``realloc`` moves the pages of a large array, not their contents, while a list of
    parts would be held beside the array that they are joined to.

    Parameters
    ----------
    dtype : dtype-like
        Of the array.
    """

    _SPARE = 8
    """An eighth of what is there is added at least, so that what does get copied is copied a few times only."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._array: npt.NDArray[Any] = np.empty(0, dtype=dtype)
        self.size = 0

    def add(self, part: npt.NDArray[Any]) -> None:
        """Append ``part``, one-dimensional."""
        needed = self.size + part.size
        if needed > self._array.size:
            # nobody else has seen the array before it is finished
            self._array.resize(max(needed, self._array.size + self._array.size // self._SPARE), refcheck=False)
        self._array[self.size : needed] = part
        self.size = needed

    def finish(self) -> npt.NDArray[Any]:
        """Return the array, cut to what was added; nothing is added to it any more."""
        self._array.resize(self.size, refcheck=False)
        return self._array
