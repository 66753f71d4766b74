"""Reading one node's metrics file, whether its run ended, goes on or was killed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import open_reading
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class RankMetrics:
    """One node's metrics, as far as they are on disk.

    Attributes
    ----------
    path : Path
        The file.
    attributes : mapping
        Root attributes (``schema.ATTRIBUTES`` and the schema's version): str, int or float.
    series : mapping of str to ndarray, shape (rows,)
        One row per evaluation; all of one length.
    syncs : mapping of str to ndarray, shape (syncs,)
        One row per synchronisation index; all of one length.
    model, average : ndarray, shape (d,), or None
        ``None`` until the run ended, and for ``average`` where it was not asked for.
    status : str
        ``"running"`` for a run that goes on or was killed, else how it ended.
    blocks : bool
        Whether the file has ``schema.BLOCKS``.
    """

    path: Path
    attributes: Mapping[str, Any]
    series: Mapping[str, npt.NDArray[Any]]
    syncs: Mapping[str, npt.NDArray[Any]]
    model: Vector | None
    average: Vector | None
    status: str
    blocks: bool = False

    @property
    def rows(self) -> int:
        """Number of rows in ``series``."""
        return len(self.series["step"])


DAMAGED = (KeyError, OSError, RuntimeError, TypeError, ValueError, AttributeError)
"""What h5py raises where a file's parts are broken, missing or of another kind than they should be."""


def read_rank(path: str | os.PathLike[str], *, models: bool = True, steps_only: bool = False) -> RankMetrics:
    """Read ``metrics/rank_*.h5`` up to its last flush.

    Parameters
    ----------
    path : path
    models : bool, optional
        Read the final vectors too; whoever reads many files may not want to hold them all.
    steps_only : bool, optional
        Of ``series`` and ``syncs`` read ``step`` alone; the others are only seen to be long enough.

    Raises
    ------
    DataError
        The file is missing, damaged, not a metrics file, or of a later schema.
    """
    path = Path(path)
    with open_reading(path) as file:
        try:
            check_format(file, path, schema.FORMAT)
            rows, syncs = (int(count) for count in file["committed"][:])
            return RankMetrics(
                path=path,
                attributes=plain_attributes(file),
                series=_columns(file["series"], rows, path, steps_only),
                syncs=_columns(file["syncs"], syncs, path, steps_only),
                model=_vector(file, "final/model") if models else None,
                average=_vector(file, "final/average") if models else None,
                status=file["final/status"].asstr()[()],
                blocks=all(f"{group}/{column.name}" in file for group, column in schema.BLOCKS.items()),
            )
        except DAMAGED as error:
            raise DataError(f"{path}: damaged: {error}") from error


def plain_attributes(file: Any) -> dict[str, Any]:
    """Return the root attributes as plain Python values."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in file.attrs.items()}


def check_format(file: Any, path: Path, wanted: str) -> None:
    """Refuse a file of another kind or of a later schema.

    Raises
    ------
    DataError
        Names the file, what it is and what was expected.
    """
    found, version = file.attrs.get("format"), file.attrs.get("schema_version")
    if found != wanted:
        raise DataError(f"{path}: format {found!r}, expected {wanted!r}")
    if version is None or int(version) > schema.VERSION:
        raise DataError(f"{path}: schema version {version}, this mpi_opt reads versions up to {schema.VERSION}")


def _columns(group: Any, rows: int, path: Path, steps_only: bool) -> dict[str, npt.NDArray[Any]]:
    series = dict(group.items())
    short = [name for name, data in series.items() if data.shape[0] < rows]
    if short:
        raise DataError(f"{path}: damaged: {', '.join(short)} in {group.name} have less than the {rows} rows committed")
    return {name: data[:rows] for name, data in series.items() if name == "step" or not steps_only}


def _vector(file: Any, name: str) -> Vector | None:
    """Return a vector of ``/final``; ``None`` if it is absent, or not there yet."""
    if name not in file or not file[name].shape[0] or file["final/status"].asstr()[()] == schema.RUNNING:
        return None
    values: Vector = file[name][:]
    return values
