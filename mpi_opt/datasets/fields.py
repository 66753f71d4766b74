"""A block of LIBSVM text to its fields: where each begins, what number it holds, and which are wrong."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpi_opt.datasets.numbers import PAD, Events, Mask, Words, find_events, read_numbers, read_runs
from mpi_opt.types import Bytes, Indices, Vector

LARGEST = 2**31 - 1
"""Largest index a file may hold: columns are numbered by int32."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a block of whole lines, comments and ``qid:`` fields taken out.

    Attributes
    ----------
    events : Events
        The text (its first byte stands behind a newline that is not the file's) and its non-digits.
    at : ndarray of int64, shape (fields,)
        The event, white space, that each field begins behind.
    first : ndarray of bool, shape (fields,)
        Whether a field is its line's first, the label.
    features : ndarray of int64, shape (nonzeros,)
        ``at`` of the fields that are not labels.
    indptr : ndarray of int64, shape (rows + 1,)
        Where the features of each row begin.
    labels : ndarray of float64, shape (rows,)
    index : ndarray of uint64, shape (nonzeros,)
        As written; arbitrary where bad.
    values : ndarray of float64, shape (nonzeros,)
        Labels and values are infinite where they are beyond the range of doubles, and else arbitrary where bad.
    descends : ndarray of bool, shape (nonzeros,)
        Whether the index is not above the one before it in the line.
    bad_label : ndarray of bool, shape (rows,)
    bad_value, bad : ndarray of bool, shape (nonzeros,)
        Whether the value is no finite number; whether anything is wrong with the feature.
    qids : int
        ``qid:`` fields taken out.
    index_base : int
        Smallest index allowed.
    """

    events: Events
    at: Indices
    first: Mask
    features: Indices
    indptr: Indices
    labels: Vector
    index: Words
    values: Vector
    descends: Mask
    bad_label: Mask
    bad_value: Mask
    bad: Mask
    qids: int
    index_base: int


def find_fields(block: Bytes, index_base: int) -> Fields:
    """Return the fields of whole lines of text (uint8); ``index_base`` is the smallest index allowed."""
    text = np.empty(block.size + 2 + PAD, dtype=np.uint8)
    text[0] = 10
    text[1 : -1 - PAD] = block
    text[-1 - PAD :] = 32
    text[-1 - PAD] = 10
    qids = _blank_ignored(text)
    events = find_events(text)

    # a field begins behind white space: with a digit, or with an event that is not white space
    at = np.flatnonzero(events.space[:-1] & ((events.gap > 0) | ~events.space[1:]))
    line = np.cumsum(events.kind == 10)[at]
    first = np.ones(at.size, dtype=np.bool_)
    np.not_equal(line[1:], line[:-1], out=first[1:])
    rows = np.flatnonzero(first)
    indptr = np.append(rows - np.arange(rows.size), at.size - rows.size)

    labels, bad_label = read_numbers(events, at[rows])
    features = at[~first]
    digits = events.gap[features]
    index = read_runs(text, events.at[features] + 1, digits)
    bad = (digits == 0) | (digits > 19) | (index > LARGEST) | (index < index_base) | (events.kind[features + 1] != 58)
    descends = np.zeros(features.size, dtype=np.bool_)
    np.less_equal(index[1:], index[:-1], out=descends[1:])
    starts = indptr[1:-1]
    descends[starts[starts < features.size]] = False
    if bad.any():
        # what comes behind an index that is none is judged by itself
        descends[1:] &= ~bad[:-1]
    bad |= descends
    values, bad_value = read_numbers(events, features + 1)
    bad |= bad_value
    return Fields(
        events,
        at,
        first,
        features,
        indptr,
        labels,
        index,
        values,
        descends,
        bad_label,
        bad_value,
        bad,
        qids,
        index_base,
    )


def _blank_ignored(text: Bytes) -> int:
    """Overwrite comments and ``qid:`` fields with blanks, in place; return the number of such fields."""
    hashes = np.flatnonzero(text == 35)
    if hashes.size:
        # 1.#INF, as some C libraries write infinity, is a field: cut at the mark it would be a harmless 1
        hashes = hashes[text[hashes - 1] != 46]
        ends = np.flatnonzero(text == 10)
        _fill(text, hashes, ends[np.searchsorted(ends, hashes)])
    if not (text == 113).any():
        return 0
    space = (text == 32) | ((text - np.uint8(9)) <= 4)
    q, i, d, colon = (text[shift : text.size - 4 + shift] == byte for shift, byte in enumerate(b"qid:", start=1))
    marks = np.flatnonzero(q & i & d & colon & space[:-4]) + 1
    ends = np.flatnonzero(space)
    _fill(text, marks, ends[np.searchsorted(ends, marks)])
    return int(marks.size)


def _fill(text: Bytes, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> None:
    """Blank out ``text[starts:stops]``; the spans may overlap."""
    depth = np.zeros(text.size + 1, dtype=np.int32)
    np.add.at(depth, starts, 1)
    np.add.at(depth, stops, -1)
    text[np.cumsum(depth[:-1]) > 0] = 32
