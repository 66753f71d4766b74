"""The model file: one flat vector, what it takes to predict with it, and where it came from.

Layout (HDF5): dataset ``weights`` (float64, shape ``(d,)``) and root attributes ``format``, ``format_version``,
``loss``, ``features``, ``intercept``, ``index_base``, ``l2``, ``job`` (TOML text), ``labels``, ``class_weights``,
``validation`` and ``provenance`` (JSON text), ``columns`` and ``rows`` (the rules of the preparation) and ``sha256``
over all of them; where columns are prepared, datasets ``shift`` and ``factor`` (float64, shape ``(features,)``), which
the hash covers too. Binary and regression losses: d is the number of features, plus one for the
intercept, which comes last. Softmax with C classes: a C-ordered matrix of shape (features [+ 1], C), the intercept's
row last.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mpi_opt.datasets.preparation import Preparation
from mpi_opt.errors import DataError, DivergedError
from mpi_opt.metrics.files import image, open_reading, replace_file
from mpi_opt.types import Vector

FORMAT = "mpi_opt model"
VERSION = 2

_DESCRIPTIONS = {
    "weights": "Model, C-order, intercept last",
    "shift": "Subtracted from each column before predicting",
    "factor": "What each column is multiplied by after that",
}


@dataclass(frozen=True, slots=True)
class Model:
    """A trained model, as read from its file.

    Attributes
    ----------
    weights : ndarray, shape (d,)
        float64, read-only.
    loss : str
        The job's word: logistic, squared, squared-hinge, huber, softmax.
    labels : mapping of float to float, or None
        Label in the data file -> label used in training (-1/+1, or 0..C-1); ``None`` for regression.
    features : int
        Columns of the training set.
    intercept : bool
        Whether the last entry (softmax: the last row) of the weights is the intercept.
    index_base : int
        0 or 1: what the first column is called in the data file.
    l2 : float
        The penalty's factor.
    job : str
        The resolved job, TOML text.
    preparation : Preparation
        What was done to the features, and is to be done before predicting.
    class_weights : mapping of float to float, or None
        Label in the data file -> what the loss of its rows was multiplied by.
    validation : mapping, or None
        How l2 was chosen by cross-validation: JSON values as `save_model` was given them.
    provenance : mapping of str to str, int, float or bool
        Where and when it was trained, on how many nodes, with which versions.
    sha256 : str
        Hash of all of the above, as hexadecimal digits.
    """

    weights: Vector
    loss: str
    labels: Mapping[float, float] | None
    features: int
    intercept: bool
    index_base: int
    l2: float
    job: str
    preparation: Preparation
    class_weights: Mapping[float, float] | None
    validation: Mapping[str, Any] | None
    provenance: Mapping[str, str | int | float | bool]
    sha256: str

    @property
    def classes(self) -> int:
        """Number of distinct labels; 0 for regression."""
        return 0 if self.labels is None else len(self.labels)

    @property
    def matrix(self) -> Vector:
        """The weights as ``(features [+ 1], columns)``: C columns for softmax, else one. A read-only view."""
        return self.weights.reshape(self.features + self.intercept, -1)


def save_model(
    path: str | os.PathLike[str],
    weights: Vector,
    *,
    loss: str,
    labels: Mapping[float, float] | None,
    features: int,
    intercept: bool,
    index_base: int,
    l2: float,
    job: str,
    provenance: Mapping[str, str | int | float | bool],
    preparation: Preparation | None = None,
    class_weights: Mapping[float, float] | None = None,
    validation: Mapping[str, Any] | None = None,
) -> str:
    """Write a model file and return its SHA-256; the arguments are the attributes of ``Model``.

    The file is on disk before it takes the place of an older one at once, so there is never half a model.

    Raises
    ------
    DivergedError
        A weight is not finite.
    ValueError
        The vector's length does not fit features, intercept and classes; or another argument is out of its range.
    JobError
        The file cannot be written.
    """
    path = Path(path)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    bad = int(weights.size - np.count_nonzero(np.isfinite(weights)))
    if bad:
        raise DivergedError(f"{path}: not written, {bad} of {weights.size} weights are not finite; lower the step size")
    preparation = Preparation() if preparation is None else preparation
    fields: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "loss": loss,
        "labels": _pairs(labels),
        "features": int(features),
        "intercept": bool(intercept),
        "index_base": int(index_base),
        "l2": float(l2),
        "job": job,
        "columns": preparation.columns,
        "rows": preparation.rows,
        "class_weights": _pairs(class_weights),
        "validation": json.dumps(None if validation is None else dict(validation), sort_keys=True),
        "provenance": json.dumps(dict(provenance), sort_keys=True),
    }
    arrays = {"weights": weights}
    for name in ("shift", "factor"):
        values = getattr(preparation, name)
        if values is not None:
            arrays[name] = np.ascontiguousarray(values, dtype=np.float64)
    problem = _misfit(arrays, fields)
    if problem:
        raise ValueError(problem)
    digest = _hash(arrays, fields)

    def fill(file: Any) -> None:
        for name, values in arrays.items():
            data = file.create_dataset(name, data=values)
            data.attrs["unit"] = "1"
            data.attrs["description"] = _DESCRIPTIONS[name]
        for name, value in fields.items():
            file.attrs[name] = value
        file.attrs["sha256"] = digest

    replace_file(path, image(fill))
    return digest


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file and check its hash.

    Raises
    ------
    DataError
        The file is missing, no model, of a later version, or damaged: names the file and what is wrong.
    """
    path = Path(path)
    with open_reading(path) as file:
        if file.attrs.get("format") != FORMAT:
            raise DataError(f"{path}: format {file.attrs.get('format')!r}, expected {FORMAT!r}")
        version = file.attrs.get("format_version")
        if version is None or int(version) > VERSION:
            raise DataError(f"{path}: model version {version}, this mpi_opt reads versions up to {VERSION}")
        try:
            fields = {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in file.attrs.items()
                if name != "sha256"
            }
            digest = str(file.attrs["sha256"])
            arrays = {name: np.asarray(file[name][:], dtype=np.float64) for name in _DESCRIPTIONS if name in file}
            weights = arrays["weights"]
        except (KeyError, OSError, RuntimeError) as error:
            raise DataError(f"{path}: damaged: {error}") from error
    if _hash(arrays, fields) != digest:
        raise DataError(f"{path}: damaged or changed by hand: its contents do not have the hash it names, {digest}")
    for array in arrays.values():
        array.flags.writeable = False
    validation = json.loads(fields["validation"])
    return Model(
        weights=weights,
        loss=fields["loss"],
        labels=_mapping(fields["labels"]),
        features=fields["features"],
        intercept=fields["intercept"],
        index_base=fields["index_base"],
        l2=fields["l2"],
        job=fields["job"],
        preparation=Preparation(fields["columns"], arrays.get("shift"), arrays.get("factor"), fields["rows"]),
        class_weights=_mapping(fields["class_weights"]),
        validation=None if validation is None else MappingProxyType(validation),
        provenance=MappingProxyType(json.loads(fields["provenance"])),
        sha256=digest,
    )


def _pairs(mapping: Mapping[float, float] | None) -> str:
    """Return a mapping of numbers as JSON text: JSON's own mappings have keys of text."""
    return json.dumps(None if mapping is None else sorted((float(key), float(value)) for key, value in mapping.items()))


def _mapping(text: str) -> Mapping[float, float] | None:
    pairs = json.loads(text)
    return None if pairs is None else MappingProxyType({float(key): float(value) for key, value in pairs})


def _misfit(arrays: Mapping[str, Vector], fields: Mapping[str, Any]) -> str:
    """Say what is wrong with a model's numbers; an empty text if nothing is."""
    weights = arrays["weights"]
    for name in ("shift", "factor"):
        if name in arrays and (arrays[name].shape != (fields["features"],) or not np.isfinite(arrays[name]).all()):
            return f"preparation.{name}: needed are {fields['features']} finite numbers"
    labels = json.loads(fields["labels"])
    if fields["loss"] == "softmax" and labels is None:
        return "a softmax model needs its labels"
    columns = len(labels) if fields["loss"] == "softmax" else 1
    wanted = (fields["features"] + fields["intercept"]) * columns
    if weights.shape != (wanted,):
        return (
            f"weights of shape {weights.shape}, but {fields['features']} features, intercept = {fields['intercept']} "
            f"and {columns} column(s) need ({wanted},)"
        )
    if fields["index_base"] not in (0, 1):
        return f"index_base = {fields['index_base']}: allowed are 0 and 1"
    if not (math.isfinite(fields["l2"]) and fields["l2"] >= 0):
        return f"l2 = {fields['l2']}: allowed are finite numbers from 0"
    return ""


def _hash(arrays: Mapping[str, Vector], fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of attributes (JSON, sorted) and arrays (by name, each as little-endian float64)."""
    digest = hashlib.sha256(json.dumps(dict(fields), sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].size}\n".encode())
        digest.update(arrays[name].astype("<f8", copy=False).tobytes())
    return digest.hexdigest()
