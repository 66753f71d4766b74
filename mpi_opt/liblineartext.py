"""The text of LIBLINEAR's model files, read and checked; ``liblinear.py`` says how it is laid out."""

from array import array
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TextIO

import numpy as np

from mpi_opt.errors import DataError
from mpi_opt.types import Vector

READ: Mapping[str, str] = MappingProxyType(
    {
        "L2R_LR": "logistic",
        "L2R_LR_DUAL": "logistic",
        "L1R_LR": "logistic",
        "L2R_L2LOSS_SVC": "squared-hinge",
        "L2R_L2LOSS_SVC_DUAL": "squared-hinge",
        "L1R_L2LOSS_SVC": "squared-hinge",
        "L2R_L1LOSS_SVC_DUAL": "squared-hinge",
        "MCSVM_CS": "squared-hinge",
        "L2R_L2LOSS_SVR": "squared",
        "L2R_L2LOSS_SVR_DUAL": "squared",
        "L2R_L1LOSS_SVR_DUAL": "squared",
    }
)
"""Which of our losses predicts as a solver type does; the loss it trained with may be another."""

LARGEST = 2**31 - 1
"""Largest label and largest count: its numbers are 32-bit integers."""


class Head(NamedTuple):
    """What stands before the weights; ``labels`` are empty for regression, ``bias`` is below 0 without intercept."""

    solver: str
    classes: int
    labels: list[int]
    features: int
    bias: float


class Reader:
    """LIBLINEAR's text, line by line, with the line's number for errors."""

    def __init__(self, text: TextIO, name: str) -> None:
        self._text, self._name, self._line = text, name, 0

    def _lines(self) -> Iterator[str]:
        for line in self._text:
            self._line += 1
            yield line

    def wrong(self, what: str) -> DataError:
        """Return an error at the present line."""
        return DataError(f"{self._name}:{self._line}: {what}")

    def head(self) -> Head:
        """Return what stands before the weights.

        Raises
        ------
        DataError
            It is malformed, or of a kind that is not read: names file, line and what is allowed.
        """
        return _checked(self._keys(), self)

    def _keys(self) -> dict[str, list[str]]:
        """Return the words behind each key, up to ``w``."""
        found: dict[str, list[str]] = {}
        for line in self._lines():
            key, *words = line.split() or [""]
            if key == "w" and not words:
                return found
            if key not in ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho") or key in found:
                raise self.wrong(f"{line.strip()[:40]!r} where a new key or w belongs: is this a model of LIBLINEAR's?")
            found[key] = words
        raise self.wrong("ends before w, which begins the weights")

    def weights(self, count: int) -> Vector:
        """Return the numbers behind ``w``, shape ``(count,)``, after the head.

        Raises
        ------
        DataError
            There are more or fewer, or one is no finite number.
        """
        numbers = array("d")
        for line in self._lines():
            try:
                if "_" in line:
                    raise ValueError
                numbers.extend(map(float, line.split()))
            except ValueError:
                raise self.wrong(f"{line.strip()[:40]!r}: needed are numbers") from None
            if len(numbers) > count:
                raise self.wrong(f"more than the {count} numbers that the model has")
        if len(numbers) < count:
            raise self.wrong(f"ends after {len(numbers)} of {count} numbers: the file is cut off")
        found: Vector = np.array(numbers, dtype=np.float64)
        if not np.isfinite(found).all():
            raise DataError(f"{self._name}: number {int(np.argmin(np.isfinite(found))) + 1} behind w is not finite")
        return found


def _checked(head: Mapping[str, list[str]], reader: Reader) -> Head:
    (solver,) = _words(head, "solver_type", 1, reader)
    if solver not in READ:
        raise reader.wrong(f"solver_type {solver}: allowed are {', '.join(READ)}")
    classes = _whole(_words(head, "nr_class", 1, reader)[0], "nr_class", 2, reader)
    features = _whole(_words(head, "nr_feature", 1, reader)[0], "nr_feature", 0, reader)
    (word,) = _words(head, "bias", 1, reader)
    try:
        bias = float(word)
    except ValueError:
        bias = float("nan")
    if not np.isfinite(bias):
        raise reader.wrong(f"bias {word}: needed is a finite number")
    labels: list[int] = []
    if READ[solver] != "squared":
        labels = [_whole(word, "label", -LARGEST - 1, reader) for word in _words(head, "label", classes, reader)]
        if len(set(labels)) < classes:
            raise reader.wrong("label: needed are different numbers")
    elif "label" in head or classes != 2:
        raise reader.wrong(f"{solver} is regression: it has no label, and nr_class 2")
    return Head(solver, classes, labels, features, bias)


def _words(head: Mapping[str, list[str]], key: str, count: int, reader: Reader) -> list[str]:
    words = head.get(key, [])
    if len(words) != count:
        raise reader.wrong(f"{key} has {len(words)} values, needed is {count}")
    return words


def _whole(word: str, key: str, smallest: int, reader: Reader) -> int:
    digits = word.removeprefix("-")
    if not (digits.isdecimal() and len(digits) <= 10 and smallest <= int(word) <= LARGEST):
        raise reader.wrong(f"{key} {word[:40]}: needed is a whole number from {smallest} to {LARGEST}")
    return int(word)
