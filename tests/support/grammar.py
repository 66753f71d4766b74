"""The grammar of LIBSVM text once more, slow and plain: line by line, field by field."""

import math
import re
from typing import NamedTuple

_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INDEX = re.compile(rb"([0-9]{1,19}):(.*)", re.DOTALL)
_COMMENT = re.compile(rb"(?<!\.)#")
_FIELD = re.compile(rb"[^ \t\n\v\f\r]+")
_QID = re.compile(rb"qid:.*", re.DOTALL)


class Read(NamedTuple):
    """Rows as (label, [(index, value), ...]), and where the faults are as (line, column)."""

    rows: list
    faults: list
    qids: int


def read(data: bytes, index_base: int = 1) -> Read:
    rows, faults, qids = [], [], 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        comment = _COMMENT.search(line)
        fields = list(_FIELD.finditer(line if comment is None else line[: comment.start()]))
        qids += sum(_QID.fullmatch(field[0]) is not None for field in fields)
        fields = [field for field in fields if _QID.fullmatch(field[0]) is None]
        if not fields:
            continue
        label = finite(fields[0][0])
        if label is None:
            faults.append((number, fields[0].start() + 1))
        features, before = [], -1
        for field in fields[1:]:
            parts = _INDEX.fullmatch(field[0])
            index = -1 if parts is None else int(parts[1])
            whole = index_base <= index < 2**31
            value = finite(parts[2]) if whole else None
            if value is None or index <= before:
                faults.append((number, field.start() + 1))
            features.append((index, value))
            before = index if whole else -1
        rows.append((label, features))
    return Read(rows, faults, qids)


def finite(token: bytes) -> float | None:
    if _NUMBER.fullmatch(token) is None:
        return None
    value = float(token)
    return value if math.isfinite(value) else None
