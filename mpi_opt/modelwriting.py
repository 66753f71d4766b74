"""A model file written: all at once, sealed and hashed. `model` has its layout, and reads it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.datasets.preparation import Preparation
from mpi_opt.errors import DivergedError
from mpi_opt.metrics.files import image, replace_file
from mpi_opt.metrics.seal import sealed
from mpi_opt.modelfields import ARRAYS, FORMAT, LINEAR_VERSION, VERSION, digest_of, listed, misfit, pairs, with_defaults
from mpi_opt.modelstate import State, write_state
from mpi_opt.types import Vector


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
    names: Sequence[str] | None = None,
    words: Sequence[str] | None = None,
    module: Mapping[str, Any] | None = None,
    state: State | None = None,
) -> str:
    """Write a model file and return its SHA-256; the arguments are the attributes of ``model.Model``.

    Of a module the state is written, the weights are only looked at.

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
        "format_version": LINEAR_VERSION if module is None else VERSION,
        "loss": loss,
        "labels": pairs(labels),
        "features": int(features),
        "intercept": bool(intercept),
        "index_base": int(index_base),
        "l2": float(l2),
        "job": job,
        "columns": preparation.columns,
        "rows": preparation.rows,
        "class_weights": pairs(class_weights),
        "validation": json.dumps(None if validation is None else dict(validation), sort_keys=True),
        "provenance": json.dumps(dict(provenance), sort_keys=True),
        "feature_names": listed(names),
        "label_words": listed(words),
    }
    if module is not None:
        fields["module"] = json.dumps(dict(module), sort_keys=True)
    arrays = {"weights": weights} if state is None else {}
    for name in ("shift", "factor"):
        values = getattr(preparation, name)
        if values is not None:
            arrays[name] = np.ascontiguousarray(values, dtype=np.float64)
    problem = misfit(arrays, with_defaults(fields), state)
    if problem:
        raise ValueError(problem)
    digest = digest_of(arrays, fields, state)

    def fill(file: Any) -> None:
        for name, values in arrays.items():
            data = file.create_dataset(name, data=values)
            data.attrs["unit"] = "1"
            data.attrs["description"] = ARRAYS[name]
        for name, value in fields.items():
            file.attrs[name] = value
        file.attrs["sha256"] = digest
        if state is not None:
            write_state(file, state)

    replace_file(path, sealed(image(fill)))
    return digest
