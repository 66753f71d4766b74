"""Array types shared by every room of the house."""

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float64]
"""A float64 array; its shape is stated where it is used (mostly ``(d,)``)."""

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""A contiguous uint8 buffer, as handed to MPI."""

Indices: TypeAlias = npt.NDArray[np.int64]
"""Row or coordinate numbers, 0-based."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""True or False for each of some things in order."""

Features: TypeAlias = Any
"""A feature matrix: C-ordered float64 ``ndarray`` or ``scipy.sparse.csr_array``, shape ``(rows, features)``."""

LabelKind: TypeAlias = Literal["binary", "classes", "real"]
"""What labels a loss takes. ``binary``: -1 and +1; ``classes``: 0..C-1; ``real``: any numbers, left alone."""
