"""What a model file says of itself, for people and for programs."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mpi_opt.model import Model
from mpi_opt.modelstate import State
from mpi_opt.words import number_text, word_text

_SHOWN = 12


def facts(model: Model) -> dict[str, Any]:
    """Return all that a model carries but its numbers, as JSON's values.

    ``labels`` and ``class_weights`` are lists of pairs: JSON's mappings have keys of text. ``words``: what the labels
    0, 1, ... stand for.
    """
    prepared = model.preparation
    weights = model.weights if model.module is not None else model.matrix[: model.features]
    return {
        "loss": model.loss,
        "labels": _pairs(model.labels),
        "words": None if model.words is None else list(model.words),
        "features": model.features,
        "names": None if model.names is None else list(model.names),
        "intercept": model.intercept,
        "columns": model.columns,
        "weights": int(model.weights.size),
        "nonzero_weights": int(np.count_nonzero(model.weights)),
        "weight_norm": float(np.linalg.norm(weights)),
        "intercepts": model.matrix[-1].tolist() if model.intercept else None,
        "module": None if model.module is None or model.state is None else _module(model.module, model.state),
        "index_base": model.index_base,
        "l2": model.l2,
        "preparation": {
            "columns": prepared.columns,
            "shifted": prepared.shift is not None,
            "scaled": prepared.factor is not None,
            "rows": prepared.rows,
        },
        "class_weights": _pairs(model.class_weights),
        "validation": None if model.validation is None else dict(model.validation),
        "provenance": dict(model.provenance),
        "job": model.job,
        "sha256": model.sha256,
    }


def as_text(found: dict[str, Any]) -> str:
    """Return what ``facts`` found as lines to read; the job is left to JSON."""
    labels, prepared, words = found["labels"], found["preparation"], found["words"]

    def called(label: float) -> str:
        return number_text(label) if words is None else word_text(words[int(label)])

    shown = {
        "loss": found["loss"],
        "labels": "none (regression)" if labels is None else _listed([called(label) for label, _ in labels]),
        **({} if words is None else {"as numbers": _listed([number_text(label) for label, _ in labels])}),
        "features": f"{found['features']}, the first called {found['index_base']} in text",
        **({} if found["names"] is None else {"names": _listed([word_text(name) for name in found["names"]])}),
        **(_linear(found) if found["module"] is None else _tensors(found)),
        "l2": f"{found['l2']:.6g}",
        "columns": f"{prepared['columns']}{', shifted' if prepared['shifted'] else ''}",
        "rows": "as they are" if prepared["rows"] == "none" else f"divided by their {prepared['rows']} norm",
        "class weights": "none"
        if found["class_weights"] is None
        else _listed([f"{called(label)}: {weight:.6g}" for label, weight in found["class_weights"]]),
        "validation": "none" if found["validation"] is None else _said(found["validation"]),
        **_tables(found["validation"] or {}),
    }
    # provenance has a name of its own for the number of rows, and may have any
    noted = {f"trained: {name}": value for name, value in found["provenance"].items()}
    shown |= noted | {"sha256": found["sha256"]}
    width = max(map(len, shown))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())


def _linear(found: dict[str, Any]) -> dict[str, str]:
    """Return the lines on a linear model's weights."""
    intercepts = found["intercepts"]
    return {
        "weights": f"{found['weights']}, {found['nonzero_weights']} of them not 0, in {found['columns']} column(s); "
        f"norm {found['weight_norm']:.6g}",
        "intercept": "none" if intercepts is None else _listed([f"{b:.6g}" for b in intercepts]),
    }


def _tensors(found: dict[str, Any]) -> dict[str, str]:
    """Return the lines on a module."""
    module = found["module"]
    options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in module["options"].items())
    lines = {
        "module": module["name"] + (f", {options}" if options else ""),
        "row": f"shape {module['shape']}, {module['dtype']}",
        "parameters": f"{found['weights']}, {found['nonzero_weights']} of them not 0; norm {found['weight_norm']:.6g}",
    }
    for tensor in module["tensors"]:
        kind = "" if tensor["name"] in module["parameters"] else ", not trained"
        lines[f"  {tensor['name']}"] = f"{tensor['shape']} {tensor['dtype']}{kind}"
    return lines


def _module(module: Mapping[str, Any], state: State) -> dict[str, Any]:
    """Return what a model file says of its module, and its tensors' shapes and types."""
    tensors = [
        {"name": name, "shape": list(values.shape), "dtype": values.dtype.name} for name, values in state.items()
    ]
    return {**module, "tensors": tensors}


def _pairs(mapping: Any) -> list[list[float]] | None:
    return None if mapping is None else [[key, value] for key, value in mapping.items()]


def _said(values: dict[str, Any]) -> str:
    """Return the values that are words or numbers; lists are left to JSON."""
    plain = {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in values.items()}
    return ", ".join(f"{key} = {value}" for key, value in plain.items() if not isinstance(value, list | dict))


def _tables(values: dict[str, Any]) -> dict[str, str]:
    """Return a line for each row of the tables among the values."""
    rows = [row for value in values.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    return {f"  {number}": _said(row) for number, row in enumerate(rows, 1)}


def _listed(words: list[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (f", ... ({len(words)})" if len(words) > _SHOWN else "")
