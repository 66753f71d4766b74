"""The end of a node's metrics file: what is read again and again of a run that goes on; a few milliseconds."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import open_reading
from mpi_opt.metrics.rank_file import check_format, plain_attributes
from mpi_opt.metrics.superblock import check_length


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one node's metrics, as far as they are on disk.

    Attributes
    ----------
    path : Path
        The file.
    attributes : mapping
        Root attributes.
    status : str
        ``"running"`` for a run that goes on or was killed, else how it ended.
    rows : int
        Rows of ``/series``.
    last : mapping of str to float
        The last of them; empty where there is none yet. Counts up to 2^53 are exact.
    fired, syncs : int
        At how many of the last ``syncs`` synchronisation indices the node spoke.
    blocks : float or None
        The mean share of blocks that spoke at these, where each decides for itself.
    """

    path: Path
    attributes: Mapping[str, Any]
    status: str
    rows: int
    last: Mapping[str, float]
    fired: int
    syncs: int
    blocks: float | None = None

    @property
    def node(self) -> int:
        """Number of the node."""
        return int(self.attributes["node"])

    @property
    def ended(self) -> bool:
        """Whether the run has ended, by this file."""
        return self.status != schema.RUNNING


def read_tail(path: str | os.PathLike[str], *, syncs: int = 50) -> Tail:
    """Read the end of ``metrics/rank_*.h5``.

    Parameters
    ----------
    path : path
    syncs : int, optional
        Over how many synchronisation indices, at most, to count those at which the node spoke.

    Raises
    ------
    DataError
        The file is missing, damaged, half written, not a metrics file, or of a later schema.
    """
    path = Path(path)
    check_length(path)
    with open_reading(path) as file:
        check_format(file, path, schema.FORMAT)
        try:
            rows, passed = (int(count) for count in file["committed"][:])
            spoke = file["syncs/fired"][max(0, passed - syncs) : passed]
            shares = file.get(f"syncs/{schema.BLOCKS['syncs'].name}")
            return Tail(
                path=path,
                attributes=plain_attributes(file),
                status=file["final/status"].asstr()[()],
                rows=rows,
                last={name: float(data[rows - 1]) for name, data in file["series"].items()} if rows else {},
                fired=int(np.count_nonzero(spoke)),
                syncs=len(spoke),
                blocks=None if shares is None or not len(spoke) else float(shares[passed - len(spoke) : passed].mean()),
            )
        except (KeyError, IndexError, OSError, RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged: {error}") from error


def read_history(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return some of a node's series, all of one length; without those that the file does not have.

    Raises
    ------
    DataError
        As `read_tail`.
    """
    path = Path(path)
    check_length(path)
    with open_reading(path) as file:
        check_format(file, path, schema.FORMAT)
        try:
            rows, series = int(file["committed"][0]), file["series"]
            return {name: series[name][:rows] for name in names if name in series}
        except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged: {error}") from error
