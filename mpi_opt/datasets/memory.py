"""Whether a model over so many columns can be held: a stray index in a file of text must not end in a failed malloc."""

import os
import socket

import numpy as np

from mpi_opt.datasets.holding import Holding
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives

VECTORS = 10
"""Vectors of the model's length that a run holds at the least, about: model, gradient, copies, work space."""

NEVER_ASKED = 2**30
"""Bytes that fit everywhere."""


def machine_memory() -> float:
    """Return the bytes of memory of this machine; inf where it does not tell."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return np.inf
    return float(found) if found > 0 else np.inf


def check_room(train: Holding, columns: int, outputs: int, wanted: int | None, collectives: Collectives) -> None:
    """Refuse columns whose vectors no process could hold; called by all processes together.

    Several processes on one machine are not added up: what is refused can never run, the rest may.

    Parameters
    ----------
    train : Holding
    columns, outputs : int
        Features, and numbers of the model for each of them.
    wanted : int or None
        ``data.features``.
    collectives : Collectives

    Raises
    ------
    DataError
        On every process: names the set, the largest index and its row, or ``data.features``.
    """
    needed = 8 * VECTORS * columns * outputs
    if needed <= NEVER_ASKED:
        return
    memory = min(collectives.gather(machine_memory()))
    if needed <= memory:
        return
    classes = f" and {outputs} classes" if outputs > 1 else ""
    what = (
        f"{VECTORS} vectors of a model of {columns} features{classes} take {needed / 2**30:.0f} GiB, and a machine of "
        f"this run has {memory / 2**30:.0f}; allowed: at most {int(memory // (8 * VECTORS * outputs))} features"
    )
    at = np.empty(0, dtype=np.int64)
    if train.sparse is not None:
        index = train.features - 1 + train.index_base
        at = np.flatnonzero(train.sparse.indices == index)[:1]
    if not any(collectives.gather(at.size)) or (wanted is not None and wanted > train.features):
        asked = "" if wanted is None else f"data.features = {wanted}: "
        raise DataError(f"{train.name}: {asked}{what}")
    assert train.sparse is not None
    # One entry at most: its row is the first one that ends behind it.
    rows = train.numbers[np.searchsorted(train.sparse.indptr[1:], at, side="right")]
    holders = [int(first) for found in collectives.gather(rows.tolist()) for first in found]
    if not holders:  # a converted file or an array says how many features it has, whether they occur or not
        raise DataError(f"{train.name}: {what}")
    row = min(holders)
    raise DataError(
        f"{train.name}: row {row + 1} has the index {index}, the largest; {what}; correct {index}: in that row if it "
        "is no feature (data.features cannot make them fewer)"
    )


def check_dense(name: str, rows: int, columns: int, collectives: Collectives) -> float:
    """Refuse to store sparse rows dense where they do not fit; called by all processes together.

    Parameters
    ----------
    name : str
        What errors call the set.
    rows, columns : int
        What this process would store, and the number of features.
    collectives : Collectives

    Returns
    -------
    float
        Bytes on the machine that would hold most, all its processes together.

    Raises
    ------
    DataError
        On every process: names the set, the memory needed and the memory there is.
    """
    needed: dict[str, float] = {}
    memory: dict[str, float] = {}
    for host, nbytes, has in collectives.gather((socket.gethostname(), 8.0 * rows * columns, machine_memory())):
        needed[host] = needed.get(host, 0.0) + nbytes
        memory[host] = has
    for host, nbytes in needed.items():
        if nbytes > NEVER_ASKED and nbytes > memory[host]:
            raise DataError(
                f"{name}: prepare.center = true stores the sparse rows dense: {nbytes / 2**30:.0f} GiB on {host}, "
                f'which has {memory[host] / 2**30:.0f}; allowed: center = "auto", which leaves sparse data sparse, '
                "or more machines"
            )
    return max(needed.values())
