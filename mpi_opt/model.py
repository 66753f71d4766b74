"""The model file, read: one flat vector, what it takes to predict with it, and where it came from.

Layout (docs/predictions.md has it as a table): a seal over all bytes (`metrics.seal`), then HDF5 with the dataset
``weights`` (float64, shape ``(d,)``), root attributes (`modelfields`) with ``sha256`` over all of them, and, where
columns are prepared, datasets ``shift`` and ``factor`` (float64, shape ``(features,)``), which the hash covers too.
A module of PyTorch has the group ``state`` in place of ``weights``: its state dict by name (`modelstate`).
With one column d is the number of features, plus one for the intercept, which comes last. Softmax with C classes, and
one-vs-rest models of more than two labels: a C-ordered matrix of shape (features [+ 1], C), the intercepts' row last.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mpi_opt.datasets.preparation import Preparation
from mpi_opt.errors import DataError
from mpi_opt.metrics.heaps import sound_heaps
from mpi_opt.metrics.seal import check_seal
from mpi_opt.modelfields import (
    ARRAYS,
    FORMAT,
    VERSION,
    columns_of,
    digest_of,
    known_fields,
    mapping_of,
    misfit,
    texts_of,
    with_defaults,
)
from mpi_opt.modelstate import GROUP, State, flat, read_state
from mpi_opt.modelwriting import save_model
from mpi_opt.types import Vector
from mpi_opt.words import number_text, word_text

__all__ = ["Model", "load_model", "save_model"]


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
        Label in the data file -> label used in training: -1/+1 of two, else the column, 0..C-1; ``None`` for
        regression. Training maps in ascending order; an imported model keeps its own.
    features : int
        Columns of the training set.
    intercept : bool
        Whether the last entry (softmax: the last row) of the weights is the intercept.
    index_base : int
        0 or 1: what the first column is called in files of text.
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
    names : tuple of str, or None
        Of the features; ``None`` where the training set did not tell.
    words : tuple of str, or None
        What the labels 0, 1, ... stand for, perhaps also some that no training row had; ``None`` where labels were
        numbers.
    sha256 : str
        Hash of all of the above, as hexadecimal digits.
    module : mapping of str to value, or None
        Of a module of PyTorch: ``name`` and ``options`` of its factory, ``shape`` of a row, ``dtype``, and the
        ``parameters`` that make up the weights, in order. Its weights fit no `matrix`.
    state : mapping of str to ndarray, or None
        The module's state dict.
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
    names: tuple[str, ...] | None
    words: tuple[str, ...] | None
    sha256: str
    module: Mapping[str, Any] | None = None
    state: State | None = None

    @property
    def classes(self) -> int:
        """Number of distinct labels; 0 for regression."""
        return 0 if self.labels is None else len(self.labels)

    @property
    def columns(self) -> int:
        """Columns of the weights: C for softmax and one-vs-rest, else 1."""
        return columns_of(self.loss, self.labels)

    @property
    def order(self) -> tuple[float, ...]:
        """Labels as in the data file, in the order of the columns; of two with one column that of +1 first."""
        found = {} if self.labels is None else {used: label for label, used in self.labels.items()}
        return tuple(found[used] for used in sorted(found, reverse=self.columns == 1))

    def called(self, label: float) -> str:
        """Return the word that a label stands for, in quotes if it is not plain; of others the number as text."""
        if self.words is None or label != round(label) or not 0 <= label < len(self.words):
            return number_text(label)
        return word_text(self.words[int(label)])

    @property
    def matrix(self) -> Vector:
        """The weights of a linear model as ``(features [+ 1], columns)``. A read-only view."""
        return self.weights.reshape(self.features + self.intercept, self.columns)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file of this version or an older one; what is returned is what was saved, to the last bit.

    Raises
    ------
    DataError
        The file is missing, no model, of a later version, or damaged: names the file and what is wrong.
    """
    path = Path(path)
    try:
        if path.is_dir():
            inside = path / "model.h5"
            raise DataError(f"{path}: is a folder; name the model file" + (f", {inside}" if inside.is_file() else ""))
        if not path.is_file():
            raise DataError(f"{path}: no such file")
    except OSError as error:  # a name that is too long, a folder that must not be looked into
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    has_seal = check_seal(path)
    if not has_seal and not sound_heaps(path):
        raise DataError(f"{path}: damaged: a heap of texts in it does not end where it says")
    try:
        with _open(path) as file:
            arrays, state, fields, digest = _read(file, path)
    except DataError:
        raise
    except Exception as error:  # HDF5 has many words for damage
        raise DataError(f"{path}: damaged: {error}") from error
    if not has_seal and fields["format_version"] > 1:
        raise DataError(f"{path}: damaged: its first bytes, which seal the others, are gone")
    for array in arrays.values():
        array.flags.writeable = False
    validation, module = json.loads(fields["validation"]), json.loads(fields["module"])
    return Model(
        weights=arrays["weights"] if state is None else flat(state, fields["module"]),
        loss=fields["loss"],
        labels=mapping_of(fields["labels"]),
        features=fields["features"],
        intercept=fields["intercept"],
        index_base=fields["index_base"],
        l2=fields["l2"],
        job=fields["job"],
        preparation=Preparation(fields["columns"], arrays.get("shift"), arrays.get("factor"), fields["rows"]),
        class_weights=mapping_of(fields["class_weights"]),
        validation=None if validation is None else MappingProxyType(validation),
        provenance=MappingProxyType(json.loads(fields["provenance"])),
        names=texts_of(fields["feature_names"]),
        words=texts_of(fields["label_words"]),
        sha256=digest,
        module=None if module is None else MappingProxyType(module),
        state=state,
    )


def _open(path: Path) -> Any:
    """Return the file open for reading: without a lock, as it is never changed, only replaced."""
    import h5py

    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        raise DataError(f"{path}: cannot be opened as HDF5: {error}") from error


def _read(file: Any, path: Path) -> tuple[dict[str, Vector], State | None, dict[str, Any], str]:
    """Return arrays, a module's state, fields of the latest version, and hash, all looked at.

    Whatever HDF5 raises is damage.
    """
    found = dict(file.attrs.items())
    if found.get("format") != FORMAT:
        raise DataError(f"{path}: format {found.get('format')!r}, expected {FORMAT!r}")
    version = found.get("format_version")
    if not isinstance(version, np.integer) or not 1 <= version <= VERSION:
        raise DataError(f"{path}: model version {version}, this mpi_opt reads versions 1 to {VERSION}")
    digest = found.pop("sha256", None)
    fields = known_fields(found)
    names, state = set(file), None
    if fields.get("module", "null") == "null":
        needed, allowed = "weights", set(ARRAYS)
    else:
        needed, allowed = GROUP, set(ARRAYS) - {"weights"} | {GROUP}
    if not {needed} <= names <= allowed:
        raise ValueError(f"it holds {', '.join(sorted(names)) or 'nothing'}, a model {', '.join(sorted(allowed))}")
    if needed == GROUP:
        state = read_state(file[GROUP], path.stat().st_size)
    arrays = {name: _array(file[name], path) for name in names - {GROUP}}
    if digest_of(arrays, fields, state) != digest:
        raise ValueError(f"changed by hand: its contents do not have the hash it names, {digest}")
    fields = with_defaults(fields)
    problem = misfit(arrays, fields, state)
    if problem:
        raise ValueError(problem)
    return arrays, state, fields, str(digest)


def _array(data: Any, path: Path) -> Vector:
    """Return one of the file's arrays; one that claims more numbers than the file has bytes is not even tried."""
    if data.ndim != 1 or data.dtype != np.float64 or data.nbytes > path.stat().st_size:
        raise ValueError(f"{data.name} is {data.dtype} of shape {data.shape}")
    return np.ascontiguousarray(data[:], dtype=np.float64)
