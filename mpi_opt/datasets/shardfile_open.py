"""A ``shards.h5`` opened and checked: its facts, and where its arrays lie."""

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.datasets.shardfile import FORMAT, VERSION, Contents, Facts, Place, blocks_of, hash_of
from mpi_opt.errors import DataError

_ALLOWED = {
    "indptr": ("int32", "int64"),
    "indices": ("uint8", "uint16", "int32"),
    "values": ("float32", "float64"),
    "dense": ("uint8", "float32", "float64"),
    "labels": ("float64",),
    "weights": ("float64",),
}
"""Types that each array may have."""


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
            if found.pop("sha256", None) != hash_of(found):
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
