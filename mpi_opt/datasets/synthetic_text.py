"""Blocks of rows as LIBSVM text."""

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.synthetic import Block
from mpi_opt.errors import JobError
from mpi_opt.metrics.files import target
from mpi_opt.types import Features, Indices, Vector

_AT_ONCE = 1 << 17
"""Entries turned into text at a time."""


def write_text(path: Path, line: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """Write a set as LIBSVM text, gzipped where the name ends in ``.gz``, and hand on each block once it is written.

    Indices count from 1. Zeros are left out. The file is there when the last block has been asked for, and whole.

    Parameters
    ----------
    path : Path
        Written beside it first, then put in its place.
    line : str
        The comment that the file begins with.
    blocks : iterable of Block

    Raises
    ------
    JobError
        The file cannot be written: names it and the reason. What was there is still there.
    """
    with _replacing(path) as file:
        file.write(f"# {line}\n".encode())
        for block in blocks:
            for text in _texts(block):
                file.write(text)
            yield block


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` once it is whole, and is gone if it does not become so."""
    try:
        place = target(path)
        fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
        try:
            with fresh.open("wb") as file:
                if path.suffix == ".gz":
                    # No name and no time inside: the same rows are the same bytes.
                    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                        yield cast(BinaryIO, packed)
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, place)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise JobError(f"--out {path}: cannot be written: {error.strerror or error}") from error


def _texts(block: Block) -> Iterator[bytes]:
    """Yield the lines of a block, some rows at a time."""
    indptr, columns, values = entries(block.features)
    first = 0
    while first < block.labels.size:
        last = int(np.searchsorted(indptr, indptr[first] + _AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), block.labels.size)
        inside = slice(indptr[first], indptr[last])
        counts = np.diff(indptr[first : last + 1])
        # one list of numbers, label and pairs row after row, and one format for all of it
        numbers = np.empty(counts.size + 2 * int(counts.sum()))
        starts = np.cumsum(1 + 2 * counts) - 1 - 2 * counts
        numbers[starts] = block.labels[first:last]
        pairs = np.ones(numbers.size, dtype=np.bool_)
        pairs[starts] = False
        numbers[pairs] = np.stack([columns[inside] + 1.0, values[inside]], axis=1).ravel()
        lines = {int(k): "%.15g" + " %d:%.15g" * int(k) + "\n" for k in np.unique(counts)}
        yield ("".join([lines[k] for k in counts.tolist()]) % tuple(numbers.tolist())).encode()
        first = last


def entries(features: Features) -> tuple[Indices, npt.NDArray[Any], Vector]:
    """Return index pointers, columns from 0 and values of the entries that are not zero, by rows."""
    if isinstance(features, np.ndarray):
        rows, columns = np.nonzero(features)
        return np.searchsorted(rows, np.arange(len(features) + 1)), columns, features[rows, columns]
    held = np.flatnonzero(features.data)
    return np.searchsorted(held, features.indptr), features.indices[held], features.data[held]
