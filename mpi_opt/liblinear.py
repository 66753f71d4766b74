"""LIBLINEAR's model files: text that its ``predict`` reads and its ``train`` writes.

The format (LIBLINEAR 2.50, ``save_model``)::

    solver_type L2R_LR
    nr_class 2
    label 1 -1                 not for regression
    nr_feature 123
    bias 1                     below 0: no intercept; else the value of one more feature
    w
    one line a feature (and one for the bias): one number a column

Two classes have one column, positive for the first label; more have one each, in the order of ``label``. MCSVM_CS is
the only type whose scores are those of a classifier of many columns and that gives no probabilities: softmax models of
three classes or more are written as such. LIBLINEAR counts columns from 1.
"""

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import numpy as np

from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics.files import replace_file
from mpi_opt.model import Model, save_model
from mpi_opt.types import Vector

_WRITTEN: Mapping[str, str] = MappingProxyType(
    {
        "logistic": "L2R_LR",
        "squared-hinge": "L2R_L2LOSS_SVC",
        "squared": "L2R_L2LOSS_SVR",
        "huber": "L2R_L2LOSS_SVR",
    }
)
_READ: Mapping[str, str] = MappingProxyType(
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

_OTHER_LOSS = ("L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")
_LARGEST = 2**31 - 1


def write_liblinear(model: Model, path: Path) -> list[str]:
    """Write a model as LIBLINEAR's text; return what a user should know about it.

    Preparation of columns goes into weights and intercepts; the numbers have 17 digits.

    Raises
    ------
    JobError
        The format cannot say it: rows are divided by a norm, or a label is no 32-bit integer; or it cannot be written.
    """
    if not model.preparation.affine:
        raise JobError(
            f"{path}: not written: the model divides each row by its {model.preparation.rows} norm, which LIBLINEAR's "
            "format cannot say; use mpi-opt predict, or train without preparation of rows"
        )
    weights, intercepts = _on_raw_features(model)
    solver, order = _WRITTEN.get(model.loss, "MCSVM_CS"), model.order
    notes = []
    if model.loss == "softmax" and model.columns == 2:
        # Of MCSVM_CS with two classes LIBLINEAR looks at the first column alone.
        solver, order = "L2R_LR", order[::-1]
        weights = weights[:, 1:] - weights[:, :1]
        intercepts = None if intercepts is None else intercepts[1:] - intercepts[:1]
    elif model.loss == "softmax":
        notes.append("LIBLINEAR predicts the same labels, but gives no probabilities for this type (MCSVM_CS)")
    if model.index_base == 0:
        notes.append("LIBLINEAR counts columns from 1, the model's data from 0: add 1 to every index of its data")
    head = [f"solver_type {solver}", f"nr_class {max(2, len(order))}"]
    if order:
        head.append("label " + " ".join(_label(label, path) for label in order))
    head += [f"nr_feature {model.features}", f"bias {-1 if intercepts is None else 1}", "w"]
    table = weights if intercepts is None else np.vstack([weights, intercepts])
    rows = ("".join(f"{number:.17g} " for number in row) for row in table.tolist())
    replace_file(path, "\n".join([*head, *rows, ""]).encode())
    return notes


def _on_raw_features(model: Model) -> tuple[Vector, Vector | None]:
    """Return weights (features, columns) and intercepts (columns,) that need no preparation."""
    weights = model.matrix[: model.features]
    intercepts = model.matrix[-1] if model.intercept else None
    prepared = model.preparation
    if prepared.factor is not None:
        weights = weights * prepared.factor[:, np.newaxis]
    if prepared.shift is not None:
        moved = prepared.shift @ weights
        intercepts = -moved if intercepts is None else intercepts - moved
    return weights, intercepts


def _label(label: float, path: Path) -> str:
    if label != round(label) or abs(label) > _LARGEST:
        raise JobError(f"{path}: not written: label {label!r} is no 32-bit integer, the only labels LIBLINEAR has")
    return f"{label:.0f}"


def import_liblinear(source: Path, path: Path, *, softmax: bool = False) -> list[str]:
    """Make a model file of LIBLINEAR's text; return what a user should know about it.

    Labels keep their order, so that ties are decided alike.

    Parameters
    ----------
    source, path : Path
        The text, and the model file to write.
    softmax : bool
        Take a model of type MCSVM_CS for a softmax model.

    Raises
    ------
    DataError
        The text is missing or malformed: names file, line and what is allowed.
    JobError
        ``softmax`` for another type, or the model file cannot be written.
    """
    try:
        with source.open(encoding="ascii") as text:
            reader = _Reader(text, str(source))
            head = reader.head()
            solver, classes, labels, features, bias = _checked(head, reader)
            if softmax and (solver != "MCSVM_CS" or classes < 3):
                raise JobError(
                    f"--loss softmax: {source} is of type {solver} with {classes} classes; allowed is MCSVM_CS with at "
                    "least 3"
                )
            columns = classes if labels and (classes > 2 or solver == "MCSVM_CS") else 1
            table = reader.weights((features + (bias >= 0)) * columns).reshape(-1, columns)
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: is no text of LIBLINEAR's, at byte {error.start}") from error
    except OSError as error:
        raise DataError(f"{source}: cannot be read: {error.strerror}") from error
    loss = "softmax" if softmax else _READ[solver]
    notes = []
    if solver in _OTHER_LOSS and not softmax:
        notes.append(f"{solver} was trained with another loss; {loss} predicts the same")
    if classes == 2 and labels:
        table = table[:, :1]  # all that LIBLINEAR looks at
        mapping: dict[float, float] | None = {float(labels[0]): 1.0, float(labels[1]): -1.0}
    else:
        mapping = {float(label): float(c) for c, label in enumerate(labels)} if labels else None
    if bias >= 0:
        table = np.vstack([table[:-1], bias * table[-1:]])
    save_model(
        path,
        table.ravel(),
        loss=loss,
        labels=mapping,
        features=features,
        intercept=bias >= 0,
        index_base=1,
        l2=0.0,
        job="",
        provenance={"imported": source.name, "solver_type": solver, "note": "l2 is not in LIBLINEAR's files"},
    )
    return notes


class _Reader:
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

    def head(self) -> dict[str, list[str]]:
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
        """Return the numbers behind ``w``, of which there must be ``count``."""
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


def _checked(head: Mapping[str, list[str]], reader: _Reader) -> tuple[str, int, list[int], int, float]:
    """Return solver type, classes, labels (none for regression), features and bias."""
    (solver,) = _words(head, "solver_type", 1, reader)
    if solver not in _READ:
        raise reader.wrong(f"solver_type {solver}: allowed are {', '.join(_READ)}")
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
    if _READ[solver] != "squared":
        labels = [_whole(word, "label", -_LARGEST - 1, reader) for word in _words(head, "label", classes, reader)]
        if len(set(labels)) < classes:
            raise reader.wrong("label: needed are different numbers")
    elif "label" in head or classes != 2:
        raise reader.wrong(f"{solver} is regression: it has no label, and nr_class 2")
    return solver, classes, labels, features, bias


def _words(head: Mapping[str, list[str]], key: str, count: int, reader: _Reader) -> list[str]:
    words = head.get(key, [])
    if len(words) != count:
        raise reader.wrong(f"{key} has {len(words)} values, needed is {count}")
    return words


def _whole(word: str, key: str, smallest: int, reader: _Reader) -> int:
    digits = word.removeprefix("-")
    if not (digits.isdecimal() and len(digits) <= 10 and smallest <= int(word) <= _LARGEST):
        raise reader.wrong(f"{key} {word[:40]}: needed is a whole number from {smallest} to {_LARGEST}")
    return int(word)
