"""What stands in a model file: the attributes and arrays of each version, their types, what fits, and the hash."""

import hashlib
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from mpi_opt.datasets.preparation import ColumnRule, RowRule
from mpi_opt.problems.registry import LOSSES
from mpi_opt.types import Vector

FORMAT = "mpi_opt model"
VERSION = 2

_FIRST: Mapping[str, type] = {
    "format": str,
    "format_version": int,
    "loss": str,
    "labels": str,
    "features": int,
    "intercept": bool,
    "index_base": int,
    "l2": float,
    "job": str,
    "provenance": str,
}
_ADDED: Mapping[str, Any] = {"columns": "none", "rows": "none", "class_weights": "null", "validation": "null"}
"""What version 2 added, and what a file of version 1 means by saying nothing."""

ARRAYS: Mapping[str, str] = MappingProxyType(
    {
        "weights": "Model, C-order, intercept last",
        "shift": "Subtracted from each column before predicting",
        "factor": "What each column is multiplied by after that",
    }
)
"""Datasets and their descriptions; only ``weights`` must be there."""


def pairs(mapping: Mapping[float, float] | None) -> str:
    """Return a mapping of numbers as JSON text: JSON's own mappings have keys of text."""
    return json.dumps(None if mapping is None else sorted((float(key), float(value)) for key, value in mapping.items()))


def mapping_of(text: str) -> Mapping[float, float] | None:
    """Return what ``pairs`` made text of, read-only."""
    found = json.loads(text)
    return None if found is None else MappingProxyType({float(key): float(value) for key, value in found})


def columns_of(loss: str, labels: Mapping[float, float] | None) -> int:
    """Return the columns of the weights: one a class for softmax and for more than two labels, else one."""
    classes = 0 if labels is None else len(labels)
    return classes if loss == "softmax" or classes > 2 else 1


def known_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's attributes, without the hash, as Python values.

    Raises
    ------
    ValueError
        One is missing, unknown or of another type.
    """
    found = {name: value.item() if isinstance(value, np.generic) else value for name, value in attributes.items()}
    wanted = dict(_FIRST)
    if found.get("format_version") != 1:
        wanted |= dict.fromkeys(_ADDED, str)
    for name in wanted.keys() ^ found.keys():
        raise ValueError(f"attribute {name!r} is {'missing' if name in wanted else 'unknown'}")
    for name, kind in wanted.items():
        if type(found[name]) is not kind:
            raise ValueError(f"attribute {name!r} is {type(found[name]).__name__}, not {kind.__name__}")
    return found


def with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of any version with all that the latest has."""
    return {**_ADDED, **fields}


def misfit(arrays: Mapping[str, Vector], fields: Mapping[str, Any]) -> str:
    """Say what is wrong with a model's numbers; an empty text if nothing is.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Some of `ARRAYS`.
    fields : mapping of str to value
        Those of the latest version.
    """
    features = fields["features"]
    if features < 0:
        return f"features = {features}: allowed are numbers from 0"
    for name in ("shift", "factor"):
        if name in arrays and (arrays[name].shape != (features,) or not np.isfinite(arrays[name]).all()):
            return f"preparation.{name}: needed are {features} finite numbers"
    for name, rules in (("columns", ColumnRule), ("rows", RowRule)):
        if fields[name] not in get_args(rules):
            return f"preparation.{name} = {fields[name]!r}: allowed are {', '.join(get_args(rules))}"
    labels = mapping_of(fields["labels"])
    problem = _wrong_labels(fields["loss"], fields["labels"], labels)
    if problem:
        return problem
    columns = columns_of(fields["loss"], labels)
    wanted = (features + fields["intercept"]) * columns
    if arrays["weights"].shape != (wanted,):
        return (
            f"weights of shape {arrays['weights'].shape}, but {features} features, intercept = {fields['intercept']} "
            f"and {columns} column(s) need ({wanted},)"
        )
    if not np.isfinite(arrays["weights"]).all():
        return "weights that are not finite"
    if fields["index_base"] not in (0, 1):
        return f"index_base = {fields['index_base']}: allowed are 0 and 1"
    if not (math.isfinite(fields["l2"]) and fields["l2"] >= 0):
        return f"l2 = {fields['l2']}: allowed are finite numbers from 0"
    weights = mapping_of(fields["class_weights"]) or {}
    if not all(label in (labels or {}) and math.isfinite(weight) and weight >= 0 for label, weight in weights.items()):
        return f"class_weights = {dict(weights)}: allowed are finite numbers from 0, for labels of the model"
    for name, kinds in (("validation", (dict, type(None))), ("provenance", (dict,))):
        if not isinstance(json.loads(fields[name]), kinds):
            return f"{name} is no mapping"
    return ""


def _wrong_labels(loss: str, text: str, labels: Mapping[float, float] | None) -> str:
    """Say what is wrong with the loss and its labels."""
    if loss not in LOSSES:
        return f"loss = {loss!r}: allowed are {', '.join(LOSSES)}"
    kind = LOSSES[loss].kind
    if kind == "real":
        return "" if labels is None else f"loss = {loss!r} predicts numbers and has no labels"
    if labels is None:
        return f"a {loss} model needs its labels"
    used = sorted(labels.values())
    if len(labels) != len(json.loads(text)) or not all(math.isfinite(label) for label in labels):
        return "labels: needed are different finite numbers"
    classes = [float(column) for column in range(len(used))]
    signs = kind == "binary" and len(used) <= 2
    if used == ([-1.0, 1.0] if signs else classes) and len(used) > 1:
        return ""
    return f"labels {dict(labels)} do not fit loss = {loss!r}: needed are {'-1 and +1' if signs else '0, 1, ...'}"


def digest_of(arrays: Mapping[str, Vector], fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of attributes (JSON, sorted) and arrays (by name, each as little-endian float64)."""
    digest = hashlib.sha256(json.dumps(dict(fields), sort_keys=True).encode())
    for name in sorted(arrays):
        if fields["format_version"] > 1:
            digest.update(f"{name} {arrays[name].size}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f8").data)
    return digest.hexdigest()
