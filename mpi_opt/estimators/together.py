"""What the ranks of a fit agree on before it starts: errors, parameters, features, classes, weights.

Every function here that takes collectives is called by all ranks together. An error of one rank is raised on all, as
the `ValueError` or `TypeError` that scikit-learn's users expect, with the rank's number in front.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import RankFailedError
from mpi_opt.network.collectives import Collectives, Solo
from mpi_opt.types import Indices, Vector

T = TypeVar("T")

_KINDS: Mapping[str, type[Exception]] = {
    "ValueError": ValueError,
    "TypeError": TypeError,
    "RankFailedError": RankFailedError,
}


@contextmanager
def processes(comm: Any) -> Iterator[Collectives]:
    """Give the collectives of a communicator; an error that a rank raises alone inside ends all ranks.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm or None
        ``None`` is one process, and starts no MPI.

    Raises
    ------
    TypeError
        Something else.
    """
    if comm is None:
        yield Solo()
        return
    if not hasattr(comm, "allgather") or not hasattr(comm, "Dup"):
        raise TypeError(f"comm = {comm!r}; allowed: None, or an intracommunicator of mpi4py")
    from mpi_opt.network.mpi import collectives_of, ending_all

    with ending_all(comm):
        yield collectives_of(comm)


def everywhere(collectives: Collectives, call: Callable[[], T]) -> T:
    """Return ``call()``; if it raises on any rank, raise the first one's error on all."""
    if collectives.size == 1:
        return call()
    mine: Exception | None = None
    try:
        result = call()
    except Exception as error:
        mine = error
    told = collectives.gather(None if mine is None else _told(mine))
    failed = next(((rank, item) for rank, item in enumerate(told) if item is not None), None)
    if failed is not None:
        rank, (kind, text) = failed
        everybodys = all(item == told[0] for item in told)
        shared = _KINDS[kind](text if everybodys else f"rank {rank}: {text}")
        shared.everywhere = True  # type: ignore[attr-defined]
        raise shared from mine
    return result


def _told(error: Exception) -> tuple[str, str]:
    for name, kind in _KINDS.items():
        if isinstance(error, kind):
            return name, str(error)
    return "RankFailedError", f"{type(error).__name__}: {error}"


def check_alike(collectives: Collectives, what: str, values: Mapping[str, Any]) -> None:
    """Raise a ValueError on all ranks if one of ``values`` differs between them; their ``repr`` is compared."""
    if collectives.size == 1:
        return
    told = collectives.gather({name: repr(value) for name, value in values.items()})

    def compare() -> None:
        for name, first in told[0].items():
            odd = next((rank for rank, theirs in enumerate(told) if theirs.get(name) != first), None)
            if odd is not None:
                raise ValueError(
                    f"{what} {name} differs between ranks 0 ({first}) and {odd} ({told[odd].get(name)}); "
                    "allowed: the same on all ranks"
                )

    everywhere(collectives, compare)


def feature_names(collectives: Collectives, names: Sequence[str] | None, rows: int) -> list[str] | None:
    """Return the names of the features, alike on all ranks; a rank without rows may have none."""
    told = collectives.gather((None if names is None else list(names), rows))

    def compare() -> list[str] | None:
        shared: list[str] | None = next((theirs for theirs, count in told if count), told[0][0])
        for rank, (theirs, count) in enumerate(told):
            if theirs != shared and (count or theirs is not None):
                raise ValueError(f"rank {rank}: its feature names {theirs} differ from the other ranks' {shared}")
        return shared

    return everywhere(collectives, compare)


def classes_of(collectives: Collectives, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct labels of all ranks, sorted, shape ``(K,)``.

    Raises
    ------
    ValueError, TypeError
        No rank has rows, labels cannot be sorted, or some ranks have numbers and some text.
    """
    found = collectives.gather(everywhere(collectives, lambda: np.unique(y)))

    def union() -> npt.NDArray[Any]:
        held = [(rank, labels) for rank, labels in enumerate(found) if labels.size]
        if not held:
            raise ValueError("no rank has rows: at least one row is needed")
        numbers = [(rank, labels.dtype.kind in "biuf") for rank, labels in held]
        odd = next((rank for rank, number in numbers if number != numbers[0][1]), None)
        if odd is not None:
            raise ValueError(f"labels are numbers on some ranks and not on others: see ranks {numbers[0][0]} and {odd}")
        return np.unique(np.concatenate([labels for _, labels in held]))

    return everywhere(collectives, union)


def class_weights(
    collectives: Collectives,
    setting: Mapping[Any, float] | str | None,
    classes: npt.NDArray[Any],
    codes: Indices,
    weights: Vector,
) -> tuple[Vector, Vector]:
    """Return what each class's rows are multiplied by, and the classes' total weight before that; each ``(K,)``.

    Parameters
    ----------
    setting : mapping, "balanced" or None
        As scikit-learn has it: ``"balanced"`` is ``S / (K S_c)`` with the total weights ``S_c`` over ALL ranks; classes
        that a mapping leaves out weigh 1.
    classes : ndarray, shape (K,)
    codes : ndarray of int64, shape (rows,)
        Each row's place in ``classes``.
    weights : ndarray, shape (rows,)
        Of the rows.

    Raises
    ------
    ValueError
        Everywhere: fewer than two classes have weight, or the mapping does not fit.
    """
    totals = collectives.sum(np.bincount(codes, weights, classes.size).astype(np.float64, copy=False))

    def chosen() -> Vector:
        if not totals.sum() > 0:
            raise ValueError("the sample weights are all zero: at least one must be above zero")
        if isinstance(setting, str):
            return totals.sum() / (classes.size * np.where(totals > 0, totals, 1.0))  # type: ignore[no-any-return]
        factors = np.ones(classes.size)
        for label, factor in (setting or {}).items():
            at = np.flatnonzero(classes == label)
            if not at.size:
                raise ValueError(f"class_weight names class {label!r}, which the data do not have: {classes!r}")
            factors[at] = factor
        if not (np.isfinite(factors).all() and (factors >= 0).all()):
            raise ValueError(f"class_weight = {setting!r}; allowed: finite numbers >= 0")
        return factors

    factors = everywhere(collectives, chosen)
    positive = np.flatnonzero(totals * factors > 0)

    def count() -> None:
        if positive.size < 2:
            raise ValueError(
                "rows of at least 2 classes with a weight above zero are needed, but the data contain only one class: "
                f"{classes[positive].tolist()}"
            )

    everywhere(collectives, count)
    return factors, totals


def refuse(collectives: Collectives, why: str) -> None:
    """Raise a ValueError on all ranks, which all call this."""

    def call() -> None:
        raise ValueError(why)

    everywhere(collectives, call)
