"""How good a model's predictions are on a labelled set: figures over all processes, and their text."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mpi_opt.datasets.naming import check_words
from mpi_opt.errors import DataError
from mpi_opt.metrics.scores import Counts, count_classes, count_errors, mean, roc_auc
from mpi_opt.model import Model
from mpi_opt.network.collectives import Collectives
from mpi_opt.predicting import Scored
from mpi_opt.predictor import decide, has_probabilities, log_losses, rankings
from mpi_opt.types import Indices, Vector
from mpi_opt.words import number_text, word_text

Figures: TypeAlias = dict[str, Any]
"""JSON's values; a figure that the data do not define is ``None``."""

_SHOWN = 12
"""Unknown labels, and classes of the confusion table, that are printed."""


def evaluate(model: Model, found: Scored, collectives: Collectives) -> Figures:
    """Return the figures of a set; called by all processes together, the same on each.

    Raises
    ------
    DataError
        On every process: labels that the model does not have, or that stand for other words.
    """
    figures: Figures = {"data": found.name, "rows": found.rows, "loss": model.loss, "model": model.sha256}
    notes = list(found.notes)
    if model.labels is None:
        errors = count_errors(found.labels, found.margins, collectives)
        figures |= {"mse": errors.mse, "rmse": errors.rmse, "mae": errors.mae, "r2": _known(errors.r2)}
        if math.isnan(errors.r2):
            notes.append("all values are equal: R^2 is undefined")
        return figures | {"notes": notes}
    truth = _classes(model, found, collectives)
    counts = count_classes(truth, decide(found.margins), len(model.order), collectives)
    areas = _areas(model, found.margins, truth, collectives)
    if has_probabilities(model):
        figures["log_loss"] = mean(log_losses(model, found.margins, truth), collectives)
    figures |= {"accuracy": counts.accuracy, "balanced_accuracy": counts.balanced_accuracy}
    if len(model.order) == 2:
        larger = int(np.argmax(model.order))
        figures |= {"f1": _known(float(counts.f1[larger])), "auc": _known(areas[larger])}
    else:
        figures |= {"f1_macro": _known(counts.macro_f1), "auc_macro": _known(float(np.mean(areas)))}
    figures["classes"] = [
        {
            "label": label,
            **({} if model.words is None else {"word": model.words[int(label)]}),
            "rows": int(counts.rows[c]),
            "predicted": int(counts.predicted[c]),
            "right": int(counts.right[c]),
            "recall": _known(float(counts.recall[c])),
            "precision": _known(float(counts.precision[c])),
            "f1": _known(float(counts.f1[c])),
            "auc": _known(areas[c]),
        }
        for c, label in _ascending(model)
    ]
    figures["confusion"] = None
    if counts.confusion is not None:
        order = [c for c, _ in _ascending(model)]
        figures["confusion"] = counts.confusion[np.ix_(order, order)].tolist()
    return figures | {"notes": notes + _remarks(model, counts)}


def _ascending(model: Model) -> list[tuple[int, float]]:
    """Return the numbers and labels of the classes, smallest label first."""
    return sorted(enumerate(model.order), key=lambda entry: entry[1])


def _classes(model: Model, found: Scored, collectives: Collectives) -> Indices:
    """Return the class numbers of the true labels."""
    check_words(found.name, found.words, model.words, found.model)
    order = np.array(model.order)
    ranks = np.argsort(order)
    place = np.minimum(np.searchsorted(order, found.labels, sorter=ranks), order.size - 1)
    classes = ranks[place]
    strange = np.unique(found.labels[order[classes] != found.labels])[: _SHOWN + 1]
    unknown = np.unique(np.concatenate(collectives.gather(strange)))
    if unknown.size:
        raise DataError(
            f"{found.name}: its labels {_listed(model, unknown)} are not among those of {found.model}, which are "
            f"{_listed(model, order[ranks])}"
        )
    return classes.astype(np.int64)


def _listed(model: Model, labels: Vector) -> str:
    return ", ".join(map(model.called, labels[:_SHOWN].tolist())) + (", ..." if labels.size > _SHOWN else "")


def _areas(model: Model, z: Vector, truth: Indices, collectives: Collectives) -> list[float]:
    """Return the area under the ROC curve of each class against all others."""
    if z.ndim == 1:
        area = roc_auc(z, truth == 0, collectives)
        return [area, area]
    return [roc_auc(row, truth == c, collectives) for c, row in enumerate(rankings(model, z))]


def _remarks(model: Model, counts: Counts) -> list[str]:
    """Return what to make of the counts."""
    said = []
    missing = np.sort(np.array(model.order)[counts.rows == 0])
    if missing.size:
        said.append(
            f"no row has the label {_listed(model, missing)}: its recall and the AUC are undefined; "
            "balanced accuracy is the mean over the others"
        )
    predicted = np.flatnonzero(counts.predicted)
    if predicted.size == 1:
        (only,) = predicted
        share = 100 * counts.rows[only] / counts.rows.sum()
        said.append(
            f"every row is predicted as {model.called(model.order[only])}, the label of {share:.4g} % of the rows: "
            "the model does not tell them apart"
        )
    return said


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) else figure


# --- text ---

_NAMES = {
    "log_loss": "log-loss",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "f1_macro": "F1, mean of classes",
    "auc": "AUC",
    "auc_macro": "AUC, mean of classes",
    "mse": "mean squared error",
    "rmse": "its root",
    "mae": "mean absolute error",
    "r2": "R^2",
}


def as_json(figures: Figures) -> str:
    """Return the figures as JSON text, one line."""
    return json.dumps(figures)


def as_text(figures: Figures) -> str:
    """Return the figures as lines to read."""
    lines = [f"{figures['data']}: {figures['rows']} rows, {figures['loss']} model {figures['model'][:12]}"]
    shown = {name: figures[key] for key, name in _NAMES.items() if key in figures}
    width = max(map(len, shown))
    lines += [f"{name:<{width}}  {_figure(value)}" for name, value in shown.items()]
    if "classes" in figures:
        lines += ["", *_table(["label", "rows", "predicted", "right", "recall", "precision", "F1", "AUC"], figures)]
        lines += _confusion(figures)
    return "\n".join([*lines, *(f"note: {note}" for note in figures["notes"])])


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"


def _table(head: Sequence[str], figures: Figures) -> list[str]:
    rows = [
        [
            _called(entry),
            *(str(entry[key]) for key in ("rows", "predicted", "right")),
            *(_figure(entry[key]) for key in ("recall", "precision", "f1", "auc")),
        ]
        for entry in figures["classes"]
    ]
    return _aligned([list(head), *rows])


def _called(entry: Mapping[str, Any]) -> str:
    """Return what a class is called in tables."""
    return word_text(entry["word"]) if "word" in entry else number_text(entry["label"])


def _confusion(figures: Figures) -> list[str]:
    """Return the table of true and predicted labels, where it is small enough to read."""
    counts = figures["confusion"]
    if counts is None or len(counts) > _SHOWN:
        return []
    labels = [_called(entry) for entry in figures["classes"]]
    rows = [[label, *map(str, row)] for label, row in zip(labels, counts, strict=True)]
    return ["", "rows of each label (down) predicted as (across)", *_aligned([["", *labels], *rows])]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
