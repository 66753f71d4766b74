"""The operators by the names that job files use. A new one is one file and one line here."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from mpi_opt.compression.base import Compressor
from mpi_opt.compression.blockwise import Blockwise
from mpi_opt.compression.identity import Identity
from mpi_opt.compression.qsgd import QSGD, QSGDTopK
from mpi_opt.compression.random_k import RandomK
from mpi_opt.compression.sign import Sign, SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.errors import JobError
from mpi_opt.words import nearest

COMPRESSORS: dict[str, type[Any]] = {
    "identity": Identity,
    "top-k": TopK,
    "random-k": RandomK,
    "sign": Sign,
    "sign-top-k": SignTopK,
    "qsgd": QSGD,
    "qsgd-top-k": QSGDTopK,
    "blockwise": Blockwise,
}


def make_compressor(name: str, params: Mapping[str, object]) -> Compressor:
    """Return the operator called ``name`` with the parameters of its dataclass.

    A parameter that is itself a table with a ``name``, such as ``inner`` of blockwise, is made likewise.

    Raises
    ------
    JobError
        The name or a parameter is unknown, one is missing, or a value is not allowed.
    """
    if name not in COMPRESSORS:
        raise JobError(f"compressor.name = {name!r}: unknown{_choice(name, COMPRESSORS)}")
    operator = COMPRESSORS[name]
    fields = {f.name: f for f in dataclasses.fields(operator) if f.init}
    values: dict[str, object] = {}
    for key, value in params.items():
        if key not in fields:
            raise JobError(f"compressor.{key}: {name} has no such parameter{_choice(key, fields)}")
        values[key] = _nested(key, value) if isinstance(value, Mapping) else value
    missing = [f for f in fields if fields[f].default is dataclasses.MISSING and f not in values]
    if missing:
        raise JobError(f"compressor {name} needs the parameter {missing[0]}")
    made: Compressor = operator(**values)
    return made


def _nested(key: str, table: Mapping[str, object]) -> Compressor:
    rest = dict(table)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        raise JobError(f"compressor.{key}.name = {name!r}: must be one of {', '.join(COMPRESSORS)}")
    return make_compressor(name, rest)


def _choice(word: str, known: Iterable[str]) -> str:
    return nearest(word, known) or f"; known are {', '.join(known)}"
