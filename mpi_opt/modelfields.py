"""What stands in a model file: the attributes and arrays of each version, their types, what fits, and the hash."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from mpi_opt.datasets.preparation import ColumnRule, RowRule
from mpi_opt.modelstate import State, hash_state, misfit_module
from mpi_opt.problems.registry import LOSSES
from mpi_opt.types import Vector

FORMAT = "mpi_opt model"
VERSION = 4

LINEAR_VERSION = 3
"""What linear models are written as: earlier releases read them."""

MOST_TEXT = 1 << 24
"""Bytes that the names of all features, or the words of all labels, may have together."""

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
_ADDED: Mapping[int, Mapping[str, str]] = {
    2: {"columns": "none", "rows": "none", "class_weights": "null", "validation": "null"},
    3: {"feature_names": "null", "label_words": "null"},
    4: {"module": "null"},
}
"""What later versions added, and what a file of an earlier one means by saying nothing."""

ARRAYS: Mapping[str, str] = MappingProxyType(
    {
        "weights": "Model, C-order, intercept last",
        "shift": "Subtracted from each column before predicting",
        "factor": "What each column is multiplied by after that",
    }
)
"""Datasets and their descriptions; only ``weights`` must be there, of a module `modelstate.GROUP` in its place."""


def pairs(mapping: Mapping[float, float] | None) -> str:
    """Return a mapping of numbers as JSON text: JSON's own mappings have keys of text."""
    return json.dumps(None if mapping is None else sorted((float(key), float(value)) for key, value in mapping.items()))


def mapping_of(text: str) -> Mapping[float, float] | None:
    """Return what ``pairs`` made text of, read-only."""
    found = json.loads(text)
    return None if found is None else MappingProxyType({float(key): float(value) for key, value in found})


def room_for(texts: Sequence[str] | None) -> bool:
    """Return whether a model file has room for so much text."""
    return texts is None or sum(len(text.encode("utf-8", "replace")) for text in texts) <= MOST_TEXT


def listed(texts: Sequence[str] | None) -> str:
    """Return names or words as JSON text."""
    return json.dumps(None if texts is None else list(texts), ensure_ascii=False)


def texts_of(text: str) -> tuple[str, ...] | None:
    """Return what ``listed`` made text of."""
    found = json.loads(text)
    return None if found is None else tuple(found)


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
    for version, added in _ADDED.items():
        if found.get("format_version", 1) >= version:
            wanted |= dict.fromkeys(added, str)
    for name in wanted.keys() ^ found.keys():
        raise ValueError(f"attribute {name!r} is {'missing' if name in wanted else 'unknown'}")
    for name, kind in wanted.items():
        if type(found[name]) is not kind:
            raise ValueError(f"attribute {name!r} is {type(found[name]).__name__}, not {kind.__name__}")
    return found


def with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of any version with all that the latest has."""
    return {**{name: value for added in _ADDED.values() for name, value in added.items()}, **fields}


def misfit(arrays: Mapping[str, Vector], fields: Mapping[str, Any], state: State | None = None) -> str:
    """Say what is wrong with a model's numbers; an empty text if nothing is.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Some of `ARRAYS`.
    fields : mapping of str to value
        Those of the latest version.
    state : mapping of str to ndarray, optional
        Of a module.
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
    problem = _wrong_weights(arrays, fields, labels) if state is None else _wrong_module(fields, state)
    if problem:
        return problem
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
    return _wrong_names(fields["feature_names"], features) or _wrong_words(fields["label_words"], labels)


def _wrong_weights(
    arrays: Mapping[str, Vector], fields: Mapping[str, Any], labels: Mapping[float, float] | None
) -> str:
    """Say what is wrong with a linear model's weights."""
    columns, features = columns_of(fields["loss"], labels), fields["features"]
    wanted = (features + fields["intercept"]) * columns
    if arrays["weights"].shape != (wanted,):
        return (
            f"weights of shape {arrays['weights'].shape}, but {features} features, intercept = {fields['intercept']} "
            f"and {columns} column(s) need ({wanted},)"
        )
    return "" if np.isfinite(arrays["weights"]).all() else "weights that are not finite"


def _wrong_module(fields: Mapping[str, Any], state: State) -> str:
    """Say what is wrong with a module."""
    if fields["loss"] not in ("softmax", "squared") or fields["intercept"]:
        return f"a module with loss = {fields['loss']!r}, intercept = {fields['intercept']}"
    return misfit_module(fields["module"], state, fields["features"])


def _wrong_names(text: str, features: int) -> str:
    """Say what is wrong with the features' names."""
    names = json.loads(text)
    problem = _wrong_texts("names of features", names)
    if not problem and names is not None and len(names) != features:
        return f"{len(names)} names of features: needed are {features}, or none at all"
    return problem


def _wrong_words(text: str, labels: Mapping[float, float] | None) -> str:
    """Say what is wrong with the words that labels stand for."""
    words = json.loads(text)
    problem = _wrong_texts("words for labels", words)
    if problem or words is None:
        return problem
    if labels is None:
        return "words for labels: a model of numbers has none"
    if len(set(words)) < len(words):
        return "words for labels: needed are different ones"
    if not all(label == round(label) and 0 <= label < len(words) for label in labels):
        return f"{len(words)} words for labels: the labels must be numbers from 0 to {len(words) - 1}"
    return ""


def _wrong_texts(called: str, found: Any) -> str:
    if found is None:
        return ""
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        return f"{called}: needed is a list of texts, or null"
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        return f"{called}: one cannot be written in UTF-8"
    return "" if room_for(found) else f"{called}: more than {MOST_TEXT} bytes"


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


def digest_of(arrays: Mapping[str, Vector], fields: Mapping[str, Any], state: State | None = None) -> str:
    """Return the SHA-256 of attributes (JSON, sorted), arrays (by name, little-endian float64), a module's state."""
    digest = hashlib.sha256(json.dumps(dict(fields), sort_keys=True).encode())
    for name in sorted(arrays):
        if fields["format_version"] > 1:
            digest.update(f"{name} {arrays[name].size}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f8").data)
    if state is not None:
        hash_state(digest, state)
    return digest.hexdigest()
