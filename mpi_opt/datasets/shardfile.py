"""The data file that any number of processes reads by row slices (``shards.h5``): what is in it.

Layout (HDF5, latest format, every array contiguous): root attributes, which are the fields of ``Facts``, ``format``,
``format_version``, ``block`` and ``sha256`` over all of them, and the datasets

=========  ======================  ============================================================
name       type                    what
=========  ======================  ============================================================
indptr     int32 or int64          CSR only, (rows + 1): where each row's entries begin
indices    uint8, uint16 or int32  CSR only, (nonzeros): columns from 0
values     float64 or float32      CSR only, (nonzeros); not there where all are ``constant``
dense      float64, float32, u8    dense only, (rows, features); to be divided by ``divisor``
labels     float64                 (rows): as in the source
weights    float64                 (rows); only where ``weighted``
checks     uint32                  CRC-32 of every ``block`` bytes of each array, in the order above,
                                   then the CRC-32 of these numbers themselves
=========  ======================  ============================================================

HDF5's own checksums guard its metadata (so says the latest format), ``sha256`` the attributes, ``checks`` the arrays.
One process opens the file by HDF5 and learns where each array lies; then all read their slices as plain bytes.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError

FORMAT = "mpi_opt shards"
VERSION = 1
SIGNATURE = b"\x89HDF\r\n\x1a\n"

BLOCK = 1 << 16
"""Bytes under one checksum: small, because a slice's first and last blocks are read whole."""

INT32_MOST = 2**31 - 1
"""Most entries that pointers of 32 bits count."""

MOST_LABELS = 10_000
"""Labels are counted while there are no more than this many distinct ones."""

Layout: TypeAlias = Literal["csr", "dense"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file says about its set.

    Attributes
    ----------
    name : str
        The word that the set was converted from.
    layout : {"csr", "dense"}
    rows, features, nonzeros : int
        ``nonzeros``: stored entries (CSR) or entries that are not 0 (dense).
    index_base : int
        0 or 1: what the source calls its first column; here columns count from 0.
    divisor : float
        What dense features are divided by when read.
    constant : float or None
        The value of every stored entry of a CSR set, where there is only one.
    weighted : bool
        Whether rows have weights.
    label_counts : tuple of (float, int), or None
        Each label in the source and its rows, ascending; ``None`` where there are more than ``MOST_LABELS``.
    changed : int
        Values that storing them as float32 rounded.
    provenance : mapping
        JSON values: source files with bytes and SHA-256, how they were read, names of the features, command,
        versions, time.
    """

    name: str
    layout: Layout
    rows: int
    features: int
    nonzeros: int
    index_base: int
    divisor: float
    constant: float | None
    weighted: bool
    label_counts: tuple[tuple[float, int], ...] | None
    changed: int
    provenance: Mapping[str, Any]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the arrays of such a file and their shapes, in the file's order."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.layout == "csr":
            shapes |= {"indptr": (self.rows + 1,), "indices": (self.nonzeros,)}
            if self.constant is None:
                shapes["values"] = (self.nonzeros,)
        else:
            shapes["dense"] = (self.rows, self.features)
        shapes["labels"] = (self.rows,)
        if self.weighted:
            shapes["weights"] = (self.rows,)
        return shapes


class Place(NamedTuple):
    """Where an array lies: from which byte of the file, its type, number of items, and its blocks' CRC-32."""

    at: int
    dtype: np.dtype[Any]
    items: int
    checks: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Contents:
    """A file's facts and where its arrays lie; sent to the processes that read slices."""

    path: Path
    facts: Facts
    block: int
    places: Mapping[str, Place]


def attributes(facts: Facts) -> dict[str, Any]:
    """Return the root attributes that stand for ``facts``, their hash among them."""
    found: dict[str, Any] = {"format": FORMAT, "format_version": VERSION, "block": BLOCK}
    for field in fields(facts):
        value = getattr(facts, field.name)
        found[field.name] = value if isinstance(value, str | int | float | bool) else _text(value)
    found["sha256"] = hash_of(found)
    return found


def recipe_of(facts: Facts) -> str:
    """Return how a synthetic set is called; nothing for others."""
    return str(facts.provenance.get("recipe", ""))


def names_of(facts: Facts) -> tuple[str, ...] | None:
    """Return the features' names; ``None`` where the source had none, or not one for each."""
    found = facts.provenance.get("names")
    return tuple(map(str, found)) if isinstance(found, list) and len(found) == facts.features else None


def words_of(facts: Facts) -> tuple[str, ...] | None:
    """Return the words that the labels 0, 1, ... stand for; ``None`` where labels were numbers."""
    found = facts.provenance.get("reading", {}).get("labels")
    return tuple(map(str, found)) if isinstance(found, list) else None


def blocks_of(nbytes: int, block: int) -> int:
    """Return how many checksums an array has."""
    return -(-nbytes // block)


def is_hdf5(path: Path) -> bool:
    """Return whether a file begins as HDF5 does.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _text(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, sort_keys=True)


def hash_of(found: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a file's attributes, their own hash left out."""
    plain = {name: value for name, value in found.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
