"""The faults of a block of LIBSVM text: kinds with array operations, words for those that are told."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.fields import LARGEST, Fields
from mpi_opt.datasets.malformed import Kind, explain
from mpi_opt.datasets.numbers import Events, Mask, spelled_not_finite
from mpi_opt.types import Indices


class Faults(NamedTuple):
    """Faults in the order of the text: numbers of fields (int64), kinds (uint8, of ``Kind``), rows (int64)."""

    fields: Indices
    kinds: npt.NDArray[np.uint8]
    rows: Indices


class Place(NamedTuple):
    """A fault that is told: line in the block and byte in the line, both from 1, kind, and words for it."""

    line: int
    column: int
    kind: Kind
    message: str


def find_faults(found: Fields) -> Faults:
    """Return all faults of a block; cheap where there are few, and without a loop over them where there are many."""
    wrong = np.empty(found.at.size, dtype=np.bool_)
    wrong[found.first], wrong[~found.first] = found.bad_label, found.bad
    fields = np.flatnonzero(wrong)
    is_label = found.first[fields]
    kinds = np.zeros(fields.size, dtype=np.uint8)
    kinds[is_label] = _label_kinds(found, np.flatnonzero(found.bad_label))
    kinds[~is_label] = _feature_kinds(found, np.flatnonzero(found.bad))
    return Faults(fields, kinds, (np.cumsum(found.first) - 1)[fields])


def tell(found: Fields, field: int, kind: int) -> Place:
    """Return place and words of one fault."""
    previous = None if found.first[field] or found.first[field - 1] else _written(found, field - 1)
    words = explain(Kind(kind), _written(found, field), previous, found.index_base)
    return Place(*place_of(found, field), Kind(kind), words)


def place_of(found: Fields, field: int) -> tuple[int, int]:
    """Return a field's line in the block and its byte in the line, both from 1."""
    begin = int(found.events.at[found.at[field]]) + 1
    # the newline in front of the block stands for the end of the line before
    newlines = np.flatnonzero(found.events.text[:begin] == 10)
    return int(newlines.size), begin - int(newlines[-1])


def _written(found: Fields, field: int) -> str:
    events, at = found.events, int(found.at[field])
    end = at + 1 + int(np.argmax(events.space[at + 1 :]))
    return events.text[events.at[at] + 1 : events.at[end]].tobytes().decode("utf-8", "backslashreplace")


def _next(events: Events, marks: Mask, at: Indices) -> Indices:
    """Return the first event behind each of ``at`` among ``marks``; the number of events where there is none."""
    places = np.append(np.flatnonzero(marks), events.at.size)
    return places[np.searchsorted(places, at, side="right")]


def _controls(events: Events, at: Indices, end: Indices) -> Mask:
    """Return which fields hold control characters, which text never does."""
    kind = events.kind
    return _next(events, ((kind < 32) & ~events.space) | (kind == 127), at) < end


def _label_kinds(found: Fields, rows: Indices) -> npt.NDArray[np.uint8]:
    """Return the kinds of fault of the labels of ``rows``, all of them bad."""
    events, at = found.events, found.at[found.first][rows]
    end = _next(events, events.space, at)
    colon = _next(events, events.kind == 58, at)
    commas = _next(events, events.kind == 44, at) < end
    line_end = _next(events, events.kind == 10, at)
    conditions = [
        _controls(events, at, end),
        commas & (colon > line_end),
        commas & (colon > end),
        colon < end,
        spelled_not_finite(events, at, end),
        np.isinf(found.labels[rows]),
    ]
    kinds = [
        Kind.BINARY,
        Kind.COMMA_SEPARATED,
        Kind.SEVERAL_LABELS,
        Kind.LABEL_MISSING,
        Kind.LABEL_NOT_FINITE,
        Kind.LABEL_TOO_LARGE,
    ]
    return np.select(conditions, kinds, Kind.LABEL_NO_NUMBER).astype(np.uint8)


def _feature_kinds(found: Fields, features: Indices) -> npt.NDArray[np.uint8]:
    """Return the kinds of fault of features, all of them bad."""
    events, at, index = found.events, found.features[features], found.index[features]
    end = _next(events, events.space, at)
    digits, following = events.gap[at], events.kind[at + 1]
    whole = (digits > 0) & (following == 58)
    negative = (digits == 0) & (following == 45) & (events.gap[at + 1] > 0) & (events.kind[at + 2] == 58)
    descends = found.descends[features]
    conditions = [
        _controls(events, at, end),
        _next(events, events.kind == 58, at) >= end,
        negative,
        ~whole,
        (digits > 19) | (index > LARGEST),
        index < found.index_base,
        descends & (index == found.index[features - 1]),
        descends,
        spelled_not_finite(events, at + 1, end),
        np.isinf(found.values[features]),
    ]
    kinds = [
        Kind.BINARY,
        Kind.NO_COLON,
        Kind.NEGATIVE_INDEX,
        Kind.INDEX_NO_NUMBER,
        Kind.INDEX_TOO_LARGE,
        Kind.INDEX_BELOW_BASE,
        Kind.INDEX_REPEATED,
        Kind.INDEX_DESCENDS,
        Kind.VALUE_NOT_FINITE,
        Kind.VALUE_TOO_LARGE,
    ]
    return np.select(conditions, kinds, Kind.VALUE_NO_NUMBER).astype(np.uint8)
