"""Estimators and the model file: coefficients to the flat vector and back, labels of any kind to numbers and back."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt import __version__
from mpi_opt.errors import DataError
from mpi_opt.model import Model, load_model, save_model
from mpi_opt.types import Vector

Labels = npt.NDArray[Any]


def flatten(coef: Vector, intercept: Vector, *, loss: str, with_intercept: bool) -> Vector:
    """Return the flat model, shape ``(d,)``.

    Parameters
    ----------
    coef : ndarray, shape (K, p)
        One row, or one a class.
    intercept : ndarray, shape (K,)
    loss : str
        A softmax of one row is one of two classes, told apart by the row: each gets half, with opposite signs. The
        penalty's optimum is of this kind.
    with_intercept : bool
        Whether the vector has intercepts.
    """
    if loss == "softmax" and coef.shape[0] == 1:
        coef, intercept = np.vstack([-coef / 2, coef / 2]), np.concatenate([-intercept / 2, intercept / 2])
    parts = [coef.T, intercept[np.newaxis]] if with_intercept else [coef.T]
    return np.concatenate(parts).reshape(-1)


def unflatten(weights: Vector, features: int, *, loss: str, with_intercept: bool) -> tuple[Vector, Vector]:
    """Return ``coef``, shape ``(K, p)``, and ``intercept``, shape ``(K,)``: the reverse of `flatten`."""
    matrix = weights.reshape(features + with_intercept, -1)
    coef = np.ascontiguousarray(matrix[:features].T)
    intercept = matrix[features].copy() if with_intercept else np.zeros(coef.shape[0])
    if loss == "softmax" and coef.shape[0] == 2:
        return coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    return coef, intercept


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A fitted linear model, apart from any estimator.

    Attributes
    ----------
    loss : str
    coef, intercept : ndarray, shapes (K, p) and (K,)
    with_intercept : bool
        Whether one was fitted.
    l2 : float
    classes : ndarray or None
        Labels, ascending; ``None`` for regression.
    class_weights : ndarray or None
        What each class's rows were multiplied by.
    names : sequence of str or None
        The features'.
    iterations, rounds, rows, nodes : int
    gradient_norm : float
    reason : str
        How the fit ended.
    made_by : str
        The estimator's class.
    parameters : mapping
        Its parameters, JSON values.
    """

    loss: str
    coef: Vector
    intercept: Vector
    with_intercept: bool
    l2: float
    classes: Labels | None
    class_weights: Vector | None
    names: Sequence[str] | None
    iterations: int
    rounds: int
    rows: int
    nodes: int
    gradient_norm: float
    reason: str
    made_by: str
    parameters: Mapping[str, Any]


def write(path: str | os.PathLike[str], stored: Stored, index_base: int) -> str:
    """Write a model file and return its hash (see `model.save_model`).

    Raises
    ------
    ValueError
        ``index_base`` is neither 0 nor 1, or the labels are neither numbers nor text.
    """
    provenance: dict[str, str | int | float | bool] = {
        "data": "arrays",
        "made_by": stored.made_by,
        "parameters": json.dumps(dict(stored.parameters), sort_keys=True),
        "rows": stored.rows,
        "nodes": stored.nodes,
        "steps": stored.iterations,
        "rounds": stored.rounds,
        "gradient_norm": stored.gradient_norm,
        "reason": stored.reason,
        "mpi_opt": __version__,
    }
    labels = weights = words = None
    if stored.classes is not None:
        numbers = _numbers(stored.classes)
        provenance["classes_dtype"] = stored.classes.dtype.str
        if numbers is None:
            listed = _listed(stored.classes)
            words = [str(label) for label in listed]
            if not all(isinstance(label, str) for label in listed):
                provenance["classes"] = json.dumps(listed)
            numbers = np.arange(stored.classes.size, dtype=np.float64)
        one_column = stored.loss != "softmax" and numbers.size == 2
        used = np.array([-1.0, 1.0]) if one_column else np.arange(numbers.size)
        labels = {float(label): float(use) for label, use in zip(numbers, used, strict=True)}
        if stored.class_weights is not None:
            weights = {float(label): float(w) for label, w in zip(numbers, stored.class_weights, strict=True)}
    return save_model(
        path,
        flatten(stored.coef, stored.intercept, loss=stored.loss, with_intercept=stored.with_intercept),
        loss=stored.loss,
        labels=labels,
        features=stored.coef.shape[1],
        intercept=stored.with_intercept,
        index_base=index_base,
        l2=stored.l2,
        job="",
        provenance=provenance,
        class_weights=weights,
        names=stored.names,
        words=words,
    )


def read(path: str | os.PathLike[str]) -> Stored:
    """Read a model file, of an estimator or of a run.

    What a run prepared by columns is put into the coefficients, which are then those of raw features.

    Raises
    ------
    DataError
        No readable model, or one whose rows were normalised, which no coefficient can stand for.
    """
    model = load_model(path)
    if model.module is not None:
        raise DataError(f"{path}: is a module of PyTorch, no linear model: mpi_opt.torch.load_module returns it")
    if not model.preparation.affine:
        raise DataError(
            f"{path}: its rows are divided by their norm ({model.preparation.rows}), which coefficients alone cannot "
            "do: predict with the command mpi-opt predict"
        )
    coef, intercept = unflatten(model.weights, model.features, loss=model.loss, with_intercept=model.intercept)
    if model.preparation.factor is not None:
        coef = coef * model.preparation.factor
    if model.preparation.shift is not None:
        intercept = intercept - coef @ model.preparation.shift
    kept = model.provenance
    classes, numbers = _classes(path, model)
    weights = None
    if model.class_weights is not None and numbers is not None:
        weights = np.array([model.class_weights.get(float(number), 1.0) for number in numbers])
    names: Sequence[str] | None = model.names
    if "feature_names" in kept:  # files of version 2
        names = json.loads(str(kept["feature_names"]))
    return Stored(
        loss=model.loss,
        coef=coef,
        intercept=intercept,
        with_intercept=model.intercept,
        l2=model.l2,
        classes=classes,
        class_weights=weights,
        names=names,
        iterations=int(kept.get("steps", 0)),
        rounds=int(kept.get("rounds", 0)),
        rows=int(kept.get("rows", 0)),
        nodes=int(kept.get("nodes", 1)),
        gradient_norm=float(kept.get("gradient_norm", np.nan)),
        reason=str(kept.get("reason", "")),
        made_by=str(kept.get("made_by", "")),
        parameters=json.loads(str(kept.get("parameters", "{}"))),
    )


def _numbers(classes: Labels) -> Vector | None:
    """Return labels as the float64 numbers that a model file holds; ``None`` where they are none, or would collide."""
    if classes.dtype.kind not in "biuf":
        return None
    numbers: Vector = classes.astype(np.float64)
    return numbers if np.array_equal(numbers.astype(classes.dtype), classes) else None


def _listed(classes: Labels) -> list[Any]:
    """Return labels as JSON's values: numbers, text, truth values."""
    listed = classes.tolist()
    if classes.dtype.kind not in "biufUO" or not all(isinstance(label, str | int | float) for label in listed):
        raise ValueError(f"labels {classes!r} cannot be kept in a model file; allowed: numbers and text")
    return list(listed)


def _classes(path: str | os.PathLike[str], model: Model) -> tuple[Labels | None, Vector | None]:
    """Return the labels, ascending by what training called them, and the numbers that stand for them in the file."""
    if model.labels is None:
        return None, None
    numbers = np.array(sorted(model.labels, key=lambda label: model.labels[label]))  # type: ignore[index]
    dtype = model.provenance.get("classes_dtype")
    kind = np.dtype(str(dtype)) if dtype else None
    if "classes" in model.provenance:  # neither numbers nor text; in files of version 2 also text
        listed = json.loads(str(model.provenance["classes"]))
        if len(listed) != numbers.size:
            raise DataError(f"{path}: names {len(listed)} labels for {numbers.size} classes")
        classes = np.array(listed, dtype=kind)
    elif model.words is not None:
        classes = np.array([model.words[int(number)] for number in numbers], dtype=kind)
    else:
        whole = np.array_equal(numbers, np.round(numbers))
        classes = numbers.astype(kind or (np.int64 if whole else np.float64))
    return classes, numbers
