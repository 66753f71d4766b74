"""IDX files, the format of MNIST: a big-endian header, then unsigned bytes."""

import math
from pathlib import Path

import numpy as np

from mpi_opt.datasets.compressed import open_stream
from mpi_opt.errors import DataError
from mpi_opt.types import Bytes

WHITE = 255.0
"""The largest pixel; features are pixels divided by it."""


def is_idx(path: Path) -> bool:
    """Return whether a file begins like IDX: two zero bytes, a type code, the number of dimensions."""
    with open_stream(path) as stream:
        head = stream.read(4)
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in b"\x08\x09\x0b\x0c\x0d\x0e" and head[3] > 0


def read_idx(path: Path) -> Bytes:
    """Return the array of an IDX file of unsigned bytes, in the file's shape.

    Raises
    ------
    DataError
        Not an IDX file of unsigned bytes, or longer or shorter than its header says.
    """
    with open_stream(path) as stream:
        content = stream.read()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(
            f"{path}: begins with {content[:4].hex(' ')}; allowed is IDX of unsigned bytes, 00 00 08 and rank"
        )
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise DataError(f"{path}: holds {len(content)} bytes, but its header says it takes {header} itself")
    shape = tuple(np.frombuffer(content[4:header], dtype=">u4").tolist())
    if len(content) - header != math.prod(shape):
        raise DataError(f"{path}: holds {len(content)} bytes, but its header says {header} + {math.prod(shape)}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def read_images(images: Path, labels: Path) -> tuple[Bytes, Bytes]:
    """Return the pixels, shape (rows, pixels), and labels, shape (rows,), of a pair of files."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim < 2 or classes.ndim != 1 or pixels.shape[0] != classes.shape[0]:
        raise DataError(f"{images} has shape {pixels.shape} and {labels} {classes.shape}; they must have as many rows")
    return pixels.reshape(pixels.shape[0], -1), classes
