"""CIFAR-10's binary version: records of a label byte and 3 x 32 x 32 pixel bytes, channel by channel, without a header.

Krizhevsky 2009, Learning multiple layers of features from tiny images. The files are called ``.bin``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpi_opt.datasets.compressed import open_stream
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes

PIXELS = 3 * 32 * 32
_RECORD = 1 + PIXELS
_CLASSES = 10
_TEXT = frozenset(b"\n\r") | frozenset(range(32, 127))
"""What text begins with: printable characters and ends of lines; no label of a record is one."""
_NAMED = re.compile(r".+\.bin(\.gz|\.bz2|\.xz)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """Files of records, rows counted through them in order."""

    name: str
    paths: tuple[Path, ...]


def is_records(path: Path) -> bool:
    """Return whether a file is called like records and begins like one, perhaps with a label that is none.

    Text begins with a printable character or the end of a line.
    """
    if _NAMED.fullmatch(path.name) is None:
        return False
    with open_stream(path) as stream:
        head = stream.read(1)
    return len(head) == 1 and head[0] not in _TEXT


def read_records(paths: Sequence[Path]) -> tuple[Bytes, Bytes]:
    """Return the pixels, shape (rows, 3072), channel by channel and row by row, and the labels, shape (rows,).

    Raises
    ------
    DataError
        A file ends within a record, or a label is above 9: names the file and the record.
    """
    parts = []
    for path in paths:
        with open_stream(path) as stream:
            content = np.frombuffer(stream.read(), dtype=np.uint8)
        if content.size == 0 or content.size % _RECORD:
            raise DataError(
                f"{path}: holds {content.size} bytes; allowed are whole records of {_RECORD}, a label and {PIXELS} "
                "pixels"
            )
        table = content.reshape(-1, _RECORD)
        wrong = np.flatnonzero(table[:, 0] >= _CLASSES)
        if wrong.size:
            raise DataError(f"{path}: record {wrong[0] + 1}: label {table[wrong[0], 0]}; allowed are 0 to 9")
        parts.append(table)
    table = np.concatenate(parts)
    return np.ascontiguousarray(table[:, 1:]), table[:, 0].copy()
