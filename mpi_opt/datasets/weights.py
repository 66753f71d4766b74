"""What the loss of each row is multiplied by: weights of rows, from a file or the set, times weights of classes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from mpi_opt.datasets.compressed import open_stream
from mpi_opt.datasets.holding import Holding
from mpi_opt.datasets.shard import DataInfo, Shard
from mpi_opt.datasets.source import TextFiles, resolve
from mpi_opt.errors import DataError, JobError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Vector
from mpi_opt.words import number_text

_CHUNK = 1 << 24
"""Bytes of a weights file that are parsed at a time."""

_MARKS = b"0123456789+-.eE \t\r\n"
"""All that a line may hold; Python's numbers could also have underscores, and words for infinity."""

_SHOWN = 12


def read_weights(word: str, search: Sequence[Path], train: Holding, collectives: Collectives) -> Vector:
    """Return the weights of the rows that this process holds; called by all processes together.

    Rank 0 reads the file and sends each process what it asks for.

    Parameters
    ----------
    word : str
        A file (also ``.gz``, ``.bz2``, ``.xz``) of one number a line, one line a row of the set, in its order.
    search : sequence of Path
        Folders for relative words.
    train : Holding
        The set as read.
    collectives : Collectives

    Returns
    -------
    ndarray of float64, shape (held,)

    Raises
    ------
    DataError
        On every process: the set brings weights of its own; the file is missing, has another number of lines than the
        set has rows, or a line that is not a finite number >= 0: names file and line.
    """
    if train.weights is not None:
        raise DataError(f"data.weights = {word!r}: the set {train.name} has weights of its own; give one of the two")
    everyone, error = np.empty(0), None
    if collectives.rank == 0:
        try:
            everyone = _read(word, search, train)
        except DataError as caught:
            error = caught
    collectives.check(error)
    numbers, nothing = train.numbers, np.empty(0)
    asked = collectives.all_to_all([numbers if process == 0 else numbers[:0] for process in range(collectives.size)])
    return collectives.all_to_all([everyone[rows] if rows.size else nothing for rows in asked])[0]


def check_weights(train: Holding, collectives: Collectives) -> None:
    """Refuse weights of a set that are negative, not finite or all zero; called by all processes together.

    Raises
    ------
    DataError
        On every process: names the set and the first such row.
    """
    weights = train.weights
    if weights is None:
        return
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))[:1]
    mine = [(int(train.numbers[at]), float(weights[at])) for at in bad]
    found = [item for part in collectives.gather(mine) for item in part]
    if found:
        row, weight = min(found)
        raise DataError(f"{train.name}: row {row + 1} has the weight {weight:g}; allowed: finite numbers >= 0")
    if not any(collectives.gather(bool(weights.any()))):
        raise DataError(f"{train.name}: all rows have the weight 0; allowed: at least one above 0")


def class_weights(
    wanted: Literal["balanced"] | Mapping[str, float], shards: Sequence[Shard], info: DataInfo, collectives: Collectives
) -> Mapping[float, float]:
    """Return label in the file -> what the loss of its rows is multiplied by; called by all processes together.

    Parameters
    ----------
    wanted : "balanced" or mapping of str to float
        "balanced": ``N / (C N_c)`` for the N_c of N training rows with the label c, C labels among them. Else weights
        by the label as the file has it; labels left out weigh 1.
    shards : sequence of Shard
        The training rows of this process's nodes.
    info : DataInfo
        Of the training set, with labels.
    collectives : Collectives

    Raises
    ------
    JobError
        A label that the set does not have: names it and those it has.
    """
    mapping = info.labels
    assert mapping is not None
    if wanted != "balanced":
        given = {float(label): weight for label, weight in wanted.items()}
        strange = [label for label in given if label not in mapping]
        if strange:
            known = sorted(mapping)
            shown = ", ".join(map(number_text, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
            raise JobError(f"problem.class_weight: {info.name} has no label {number_text(strange[0])}; it has {shown}")
        return {label: given.get(label, 1.0) for label in mapping}
    used = np.array(sorted(mapping.values()))
    counts = np.zeros(used.size, dtype=np.int64)
    for shard in shards:
        counts += np.bincount(np.searchsorted(used, shard.labels), minlength=used.size)
    counts = collectives.sum(counts)
    weights = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
    weights[counts == 0] = 1.0
    by_used = dict(zip(used.tolist(), weights.tolist(), strict=True))
    return {label: by_used[value] for label, value in mapping.items()}


def row_weights(shard: Shard, info: DataInfo, classes: Mapping[float, float] | None) -> Vector | None:
    """Return what each row's loss is multiplied by, shape ``(N_i,)``; ``None`` where nothing is weighted."""
    if classes is None:
        return shard.weights
    assert info.labels is not None
    by_used = {info.labels[label]: weight for label, weight in classes.items()}
    used = np.array(sorted(by_used))
    result: Vector = np.array([by_used[value] for value in used])[np.searchsorted(used, shard.labels)]
    return result if shard.weights is None else result * shard.weights


def _read(word: str, search: Sequence[Path], train: Holding) -> Vector:
    """Return all weights of the file."""
    source = resolve(word, search)
    if not isinstance(source, TextFiles) or len(source.paths) != 1:
        raise DataError(f"data.weights = {word!r}: allowed is one file of text, one number a line")
    (path,) = source.paths
    parts: list[Vector] = []
    first = 1
    with open_stream(path) as stream:
        while lines := stream.readlines(_CHUNK):
            parts.append(_parse(lines, first, path))
            first += len(lines)
    result = np.concatenate([np.empty(0), *parts])
    if result.size != train.rows:
        raise DataError(
            f"{path}:{result.size}: ends after {result.size} weights, but the set {train.name} has {train.rows} rows; "
            "allowed: one line a row"
        )
    return result


def _parse(lines: list[bytes], first: int, path: Path) -> Vector:
    """Return the numbers of whole lines, the first of them numbered ``first``."""
    if not b"".join(lines).translate(None, _MARKS):
        try:
            numbers = np.array(lines).astype(np.float64)
        except ValueError:
            numbers = np.full(1, np.nan)
        if bool((np.isfinite(numbers) & (numbers >= 0.0)).all()):
            return numbers
    return np.array([_number(line.strip(), f"{path}:{first + at}") for at, line in enumerate(lines)])


def _number(text: bytes, place: str) -> float:
    """Return one weight, or name the place that has none."""
    try:
        number = float(text) if not text.translate(None, _MARKS) else np.nan
    except ValueError:
        number = np.nan
    if not 0.0 <= number < np.inf:
        shown = text[:40].decode("utf-8", "replace")
        raise DataError(f"{place}: weight {shown!r}; allowed: a finite number >= 0, one a line")
    return number
