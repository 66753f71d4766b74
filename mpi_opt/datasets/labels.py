"""Labels as the file has them to labels as the loss wants them, one map for all processes and for the test set."""

from collections.abc import Mapping

import numpy as np

from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import LabelKind, Vector
from mpi_opt.words import number_text

MOST_CLASSES = 10_000
"""More distinct labels than this are taken for a regression target."""

_SHOWN = 12


def label_map(labels: Vector, kind: LabelKind, name: str, collectives: Collectives) -> Mapping[float, float] | None:
    """Return label in the file -> label used; the same on every process.

    Parameters
    ----------
    labels : ndarray of float64
        This process's labels, any number of them.
    kind : {"binary", "classes", "real"}
        Binary labels map in ascending order to -1 and +1, classes to 0..C-1; real ones have no map.
    name : str
        What errors call the set.
    collectives : Collectives
        Called by all processes together.

    Raises
    ------
    DataError
        On every process: not two labels for a binary loss, fewer than two classes, or labels that cannot be classes.
    """
    if kind == "real":
        return None
    # one too many is enough to refuse, and bounds what travels
    mine = np.unique(labels)[: MOST_CLASSES + 1]
    found = np.unique(np.concatenate(collectives.gather(mine)))
    shown = ", ".join(map(number_text, found[:_SHOWN].tolist())) + (", ..." if found.size > _SHOWN else "")
    if kind == "binary":
        if found.size != 2:
            raise DataError(
                f"{name}: has {_count(found.size)} distinct labels ({shown}), but logistic and squared-hinge losses "
                'take exactly two; loss = "softmax" takes several classes, "squared" and "huber" any numbers'
            )
        return {float(found[0]): -1.0, float(found[1]): 1.0}
    if found.size > MOST_CLASSES or not np.array_equal(found, np.round(found)):
        raise DataError(
            f"{name}: its {_count(found.size)} distinct labels ({shown}) are no classes; the softmax loss takes whole "
            f'numbers, at most {MOST_CLASSES:,} of them; "squared" and "huber" take any numbers'
        )
    if found.size < 2:
        raise DataError(
            f"{name}: has 1 distinct label ({shown}), but the softmax loss takes two classes or more; "
            '"squared" and "huber" take any numbers'
        )
    return {float(label): float(c) for c, label in enumerate(found)}


def apply_map(labels: Vector, mapping: Mapping[float, float] | None, name: str) -> Vector:
    """Return the labels used; not collective.

    Raises
    ------
    DataError
        A label that the training set does not have.
    """
    if mapping is None:
        return labels
    known = np.array(sorted(mapping))
    place = np.minimum(np.searchsorted(known, labels), known.size - 1)
    strange = np.flatnonzero(known[place] != labels)
    if strange.size:
        allowed = ", ".join(map(number_text, known[:_SHOWN].tolist())) + (", ..." if known.size > _SHOWN else "")
        raise DataError(
            f"{name}: label {number_text(labels[strange[0]])} is not in the training set, which has {allowed}"
        )
    return np.array([mapping[float(label)] for label in known])[place]


def _count(size: int) -> str:
    return f"more than {MOST_CLASSES:,}" if size > MOST_CLASSES else str(size)
