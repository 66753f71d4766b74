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

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mpi_opt.errors import DataError, JobError
from mpi_opt.liblineartext import LARGEST, READ, Reader
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
_SHOWN = 12
_OTHER_LOSS = ("L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")


def write_liblinear(model: Model, path: Path) -> list[str]:
    """Write a model as LIBLINEAR's text; return what a user should know about it.

    Preparation of columns goes into weights and intercepts; the numbers have 17 digits.

    Raises
    ------
    JobError
        The format cannot say it: a module, rows are divided by a norm, or a label is no 32-bit integer; or it cannot be
        written.
    """
    if model.module is not None:
        raise JobError(f"{path}: not written: the model is a module of PyTorch, LIBLINEAR's are linear")
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
    if model.words is not None:
        known = ", ".join(f"{label:.0f} for {model.called(label)}" for label in order[:_SHOWN])
        notes.append(f"LIBLINEAR has numbers for labels: {known}{', ...' if len(order) > _SHOWN else ''}")
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
    if label != round(label) or abs(label) > LARGEST:
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
            reader = Reader(text, str(source))
            solver, classes, labels, features, bias = reader.head()
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
    loss = "softmax" if softmax else READ[solver]
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
