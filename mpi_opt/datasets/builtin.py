"""The small real sets that scikit-learn brings along, offline."""

from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mpi_opt.types import Vector


class _Recipe(NamedTuple):
    loader: str
    divisor: float


BUILTIN = MappingProxyType(
    {
        "digits": _Recipe("load_digits", 16.0),
        "breast-cancer": _Recipe("load_breast_cancer", 1.0),
        "iris": _Recipe("load_iris", 1.0),
        "wine": _Recipe("load_wine", 1.0),
    }
)
"""Name -> how it is made. Features are as published, but the digits' pixels (0..16) are divided by 16."""


def read_builtin(key: str) -> tuple[Vector, Vector, float]:
    """Return features (rows, features), labels (rows,) and what to divide the features by."""
    import sklearn.datasets

    recipe = BUILTIN[key]
    bunch: Any = getattr(sklearn.datasets, recipe.loader)()
    return np.ascontiguousarray(bunch.data, dtype=np.float64), bunch.target.astype(np.float64), recipe.divisor
