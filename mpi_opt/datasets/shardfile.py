"""The data file that any number of processes reads by row slices (``shards.h5``): what is in it, and how it is opened.

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
import os
import zlib
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
_Numbers: TypeAlias = npt.NDArray[Any]

_ALLOWED = {
    "indptr": ("int32", "int64"),
    "indices": ("uint8", "uint16", "int32"),
    "values": ("float32", "float64"),
    "dense": ("uint8", "float32", "float64"),
    "labels": ("float64",),
    "weights": ("float64",),
}


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
        JSON values: source files with bytes and SHA-256, how they were read, command, versions, time.
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
    found["sha256"] = _hash(found)
    return found


def recipe_of(facts: Facts) -> str:
    """Return how a synthetic set is called; nothing for others."""
    return str(facts.provenance.get("recipe", ""))


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


def open_shards(path: Path) -> Contents:
    """Read everything but the arrays, and check it.

    Raises
    ------
    DataError
        Not such a file, of a later version, cut short or altered: names the file and what is wrong.
    """
    import h5py

    try:
        # a whole file never changes again, so there is nothing to lock
        with h5py.File(path, "r", locking=False) as file:
            found = _attributes(file)
            form = found.get("format")
            if form != FORMAT:
                raise DataError(
                    f"{path}: an HDF5 file of format {form!r}; allowed as data is {FORMAT!r}, as mpi-opt data convert "
                    "writes it"
                )
            version = int(found["format_version"])
            if version > VERSION:
                raise DataError(f"{path}: data file of version {version}, this mpi_opt reads versions up to {VERSION}")
            if found.pop("sha256", None) != _hash(found):
                raise DataError(f"{path}: damaged or changed by hand: its attributes do not have the hash they name")
            facts = _facts(found)
            sets = {name: h5py.h5d.open(file.id, name.encode()) for name in file}
            arrays = {name: (one.get_offset(), one.dtype, one.shape) for name, one in sets.items()}
        return _contents(path, facts, int(found["block"]), arrays)
    except DataError:
        raise
    except OSError as error:
        # HDF5 puts into OSError what the system said as well as what it makes of the bytes
        raise DataError(f"{path}: cannot be opened, perhaps it is damaged or cut short: {error}") from error
    except Exception as error:
        raise DataError(f"{path}: damaged: {error}") from error


def _contents(path: Path, facts: Facts, block: int, arrays: dict[str, tuple[Any, Any, tuple[int, ...]]]) -> Contents:
    at, dtype, (items,) = arrays.pop("checks")
    shapes = facts.shapes()
    if {name: shape for name, (_, _, shape) in arrays.items()} != shapes:
        raise DataError(f"{path}: damaged: its arrays do not have the shapes that its attributes say")
    for name, (_, kind, _) in arrays.items():
        if kind.name not in _ALLOWED[name]:
            raise DataError(f"{path}: damaged: {name} has the type {kind}; allowed are {', '.join(_ALLOWED[name])}")
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    counts = {name: blocks_of(sizes[name] * arrays[name][1].itemsize, block) for name in shapes}
    if dtype != np.dtype("<u4") or items != sum(counts.values()) + 1:
        raise DataError(f"{path}: damaged: {items} checksums of type {dtype}, expected {sum(counts.values()) + 1}")
    checks = np.fromfile(path, dtype=dtype, count=items, offset=at)
    if checks.size != items or zlib.crc32(checks[:-1].tobytes()) != checks[-1]:
        raise DataError(f"{path}: damaged or cut short: its checksums do not fit their own")
    places, first = {}, 0
    for name in shapes:
        start, kind, _ = arrays[name]
        places[name] = Place(0 if start is None else start, kind, sizes[name], checks[first : first + counts[name]])
        first += counts[name]
    held = os.path.getsize(path)
    if any(place.at + place.items * place.dtype.itemsize > held for place in places.values()):
        raise DataError(f"{path}: cut short: it holds {held} bytes, and its arrays reach further")
    return Contents(path, facts, block, places)


def _facts(found: Mapping[str, Any]) -> Facts:
    values = {field.name: found[field.name] for field in fields(Facts)}
    counts = json.loads(values["label_counts"])
    values["label_counts"] = None if counts is None else tuple((float(label), int(rows)) for label, rows in counts)
    values["provenance"] = json.loads(values["provenance"])
    values["weighted"] = bool(values["weighted"])
    if isinstance(values["constant"], str):
        values["constant"] = json.loads(values["constant"])
    return Facts(**values)


def _attributes(file: Any) -> dict[str, Any]:
    """Return the root attributes as Python's own types; opened by number, which takes a third of the time."""
    import h5py

    found: dict[str, Any] = {}
    for number in range(h5py.h5a.get_num_attrs(file.id)):
        attribute = h5py.h5a.open(file.id, index=number)
        value = np.empty(attribute.shape, dtype=attribute.dtype)
        attribute.read(value)
        plain = value.tolist()
        found[attribute.name.decode()] = plain.decode() if isinstance(plain, bytes) else plain
    return found


def _text(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, sort_keys=True)


def _hash(found: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in found.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
