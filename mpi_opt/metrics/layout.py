"""The groups and datasets of a metrics file: how a new one is laid out, and how rows are appended to its series."""

import functools
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.metrics import schema
from mpi_opt.metrics.files import image

_CHUNK_ROWS = 256  # 2 KiB a float64 series: small for short runs, and 40 series of one chunk are 80 KiB
_CHUNK_MODEL = 65536


@dataclass(frozen=True, slots=True)
class Earlier:
    """The rows of a run that is resumed.

    Attributes
    ----------
    series, syncs : mapping of str to ndarray
        All of ``schema.groups``, each group of one length.
    """

    series: Mapping[str, npt.NDArray[Any]]
    syncs: Mapping[str, npt.NDArray[Any]]

    @property
    def blocks(self) -> bool:
        """Whether they tell of blocks."""
        return schema.BLOCKS["syncs"].name in self.syncs

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of the two groups."""
        return len(self.series["step"]), len(self.syncs["step"])


def new_file(
    attributes: Mapping[str, str | int | float],
    dim: int,
    average: bool,
    earlier: Earlier | None = None,
    *,
    blocks: bool = False,
) -> bytes:
    """Return the bytes of a new metrics file with every attribute and dataset; SWMR mode lets none be added later.

    Parameters
    ----------
    attributes : mapping
        Root attributes.
    dim : int
        Length d of the model.
    average : bool
        Whether there is ``/final/average``.
    earlier : Earlier, optional
        Rows that it begins with.
    blocks : bool, optional
        Whether there are ``schema.BLOCKS``.
    """
    import h5py

    data = io.BytesIO(_blank(dim, average, blocks))
    with h5py.File(data, "r+", libver="latest") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        if earlier is not None:
            for group, rows in (("series", earlier.series), ("syncs", earlier.syncs)):
                for name, values in rows.items():
                    if name in file[group]:  # a later version may have given one up
                        file[group][name].resize(values.shape)
                        file[group][name][:] = values
            file["committed"][:] = earlier.counts
    return data.getvalue()


@functools.lru_cache(maxsize=2)
def _blank(dim: int, average: bool, blocks: bool) -> bytes:
    """Return a file without the run's attributes: 20 ms, once for all virtual nodes of a process."""
    return image(lambda file: _lay_out(file, dim, average, blocks))


def _lay_out(file: Any, dim: int, average: bool, blocks: bool) -> None:
    import h5py

    file.attrs["format"] = schema.FORMAT
    file.attrs["schema_version"] = schema.VERSION
    file.attrs["units"] = schema.UNITS_NOTE
    for group, columns in schema.groups(blocks=blocks):
        for column in columns:
            data = file.create_dataset(
                f"{group}/{column.name}", shape=(0,), maxshape=(None,), chunks=(_CHUNK_ROWS,), dtype=column.kind
            )
            _explain(data, column.unit, column.description)
    pieces = -(-dim // _CHUNK_MODEL)
    names = {"model": "the node's own last iterate", "average": "the run's averaged model"}
    for name in ["model", "average"][: 1 + average]:
        # Empty until the end: d numbers a node are not set aside for a run that may never reach it.
        data = file.create_dataset(
            f"final/{name}", shape=(0,), maxshape=(dim,), chunks=(-(-dim // pieces),), dtype="f8"
        )
        _explain(data, "1", f"Model, {names[name]}, intercept last; empty until the run ends")
    status = file.create_dataset("final/status", shape=(), dtype=h5py.string_dtype("utf-8", schema.STATUS_BYTES))
    status[()] = schema.RUNNING
    _explain(status, "text", "'running' (or killed), else how the run ended")
    committed = file.create_dataset("committed", data=np.zeros(2, dtype=np.int64))
    _explain(committed, "row", "Rows of /series and of /syncs that are whole; a reader stops there")


def _explain(data: Any, unit: str, description: str) -> None:
    data.attrs["unit"] = unit
    data.attrs["description"] = description


class Table:
    """The series of one group, each with its buffer; ``count`` rows are waiting, ``written`` are in the file."""

    def __init__(self, columns: tuple[schema.Column, ...], capacity: int):
        self.capacity = capacity
        self.count = 0
        self.written = 0
        self.buffers = {column.name: np.zeros(capacity, dtype=column.kind) for column in columns}
        self._datasets: list[tuple[Any, npt.NDArray[Any]]] = []

    def attach(self, group: Any) -> None:
        """Take the datasets of the open file's ``group`` to write to."""
        from h5py import h5d

        self._datasets = [(h5d.open(group.id, name.encode()), buffer) for name, buffer in self.buffers.items()]

    def detach(self) -> None:
        """Let go of the datasets."""
        self._datasets = []

    def write(self) -> None:
        """Append the waiting rows to the file."""
        from h5py import h5s

        count, start = self.count, self.written
        if not count:
            return
        # The low-level calls cost a third of ``dataset[start:] = ...`` and this is done for some 40 series.
        memory = h5s.create_simple((count,))
        for data, buffer in self._datasets:
            data.set_extent((start + count,))
            space = data.get_space()
            space.select_hyperslab((start,), (count,))
            data.write(memory, space, buffer[:count])
        self.written += count
        self.count = 0
