"""Whether a shard's labels, as mapped, fit a loss; those of a whole set are checked where they are read."""

import numpy as np

from mpi_opt.errors import DataError
from mpi_opt.problems.losses import Labels
from mpi_opt.types import LabelKind
from mpi_opt.words import number_text

_SHOWN = 8


def check_mapped_labels(kind: LabelKind, labels: Labels, loss: str, *, classes: int | None = None) -> None:
    """Check the labels of a shard, as problems take them; an empty shard fits every loss.

    Parameters
    ----------
    kind : {"binary", "classes", "real"}
        What the loss takes.
    labels : ndarray, shape (rows,)
        -1/+1 for "binary", whole numbers in 0..classes-1 for "classes", finite numbers for "real".
    loss : str
        Its name, for the message.
    classes : int, optional
        C; needed for "classes".

    Raises
    ------
    DataError
        Names the labels found and what the loss needs.
    """
    if kind == "binary":
        fits = (labels == 1) | (labels == -1)
        needed = "two labels, mapped to -1 and +1"
    elif kind == "classes":
        if classes is None:
            raise ValueError("the number of classes is needed to check labels of kind 'classes'")
        with np.errstate(invalid="ignore"):
            fits = (labels >= 0) & (labels < classes) & (labels == np.floor(labels))
        needed = f"whole numbers 0..{classes - 1}"
    else:
        fits = np.isfinite(labels)
        needed = "finite numbers"
    if not fits.all():
        raise DataError(f"labels do not fit the loss {loss}: found {found(labels)}; needed: {needed}")


def found(labels: Labels) -> str:
    """Return the distinct labels as text, the first few of them if there are many."""
    distinct = np.unique(labels)
    shown = ", ".join(map(number_text, distinct[:_SHOWN].tolist()))
    return shown if distinct.size <= _SHOWN else f"{shown}, ... ({distinct.size} distinct)"
