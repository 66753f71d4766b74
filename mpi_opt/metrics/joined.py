"""All nodes' metrics as one file of arrays (nodes, rows).

HDF5 fills a virtual dataset silently where a source is missing, short or left open by a killed writer. So sources are
checked when the view is made, and again by ``read_joined``; and files that a plain reader cannot open (a run that goes
on or was killed) are copied into the joined file instead of being pointed at.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import closed_cleanly, image, open_reading, replace_file
from mpi_opt.metrics.lost import Lost, read_lost, told
from mpi_opt.metrics.nodes import check_steps, cut_in_words, lengthened, rank_paths, read_all
from mpi_opt.metrics.rank_file import DAMAGED, RankMetrics, check_format, plain_attributes

FORMAT = "mpi_opt joined metrics"
_ROWS = {"series": "evaluation", "syncs": "sync"}
"""The dimension of each group's rows."""
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."
"""By these words netCDF and xarray know a dimension that is nothing but a length."""
_OWN = frozenset({"node", "host", "format", "units", "schema_version"})  # not the same thing for all nodes together


@dataclass(frozen=True, slots=True)
class JoinedMetrics:
    """All nodes' metrics.

    Attributes
    ----------
    path : Path
        ``metrics.h5``.
    attributes : mapping
        Root attributes: those of node 0 that hold for all, ``kind`` (``"virtual"`` or ``"copied"``), ``cut``
        (``""``, or which rows were left out and why) and ``lost`` (``""``, or which nodes died when).
    series, syncs : mapping of str to ndarray, shape (nodes, rows)
        Node i in row i.
    hosts, statuses : tuple of str
        Of each node.
    """

    path: Path
    attributes: Mapping[str, Any]
    series: Mapping[str, npt.NDArray[Any]]
    syncs: Mapping[str, npt.NDArray[Any]]
    hosts: tuple[str, ...]
    statuses: tuple[str, ...]


def join(folder: str | os.PathLike[str]) -> Path:
    """Make ``metrics.h5`` in a run's folder out of ``metrics/rank_*.h5``, and return its path.

    The view holds relative names, so that the folder may be moved. Nodes of a killed run stop at different rows: all
    are cut to the shortest, and the root attribute ``cut`` says so. Nodes that an elastic run has lost are no reason to
    cut: behind their end, figures of their own are NaN, counts stay, and what is the same on all nodes goes on.

    Raises
    ------
    DataError
        A node's file is missing, damaged or of another run: names it.
    JobError
        ``metrics.h5`` cannot be written.
    """
    folder = Path(folder)
    lost = read_lost(folder)
    virtual = not lost and all(closed_cleanly(path) for path in rank_paths(folder))
    ranks = read_all(folder, steps_only=virtual)  # a thousand nodes' series are not held for what only points at them
    replace_file(folder / "metrics.h5", image(lambda file: _fill(file, ranks, virtual, lost)))
    return folder / "metrics.h5"


def merge(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Make one file of a run's metrics that holds all numbers itself, compressed, and return its path.

    The layout is that of ``metrics.h5``, and ``read_joined`` reads it; it needs no other file, wherever it goes.

    Raises
    ------
    DataError
        As `join`.
    JobError
        The file cannot be written.
    """
    folder, out = Path(folder), Path(out)
    lost, ranks = read_lost(folder), read_all(folder, steps_only=False)
    replace_file(out, image(lambda file: _fill(file, ranks, False, lost)))
    return out


def _fill(file: Any, ranks: Sequence[RankMetrics], virtual: bool, lost: Sequence[Lost]) -> None:
    """Make what is in the joined file.

    Dimensions are HDF5 dimension scales at the root, as netCDF has them, so that xarray knows them by name.
    """
    cuts: list[str] = []
    for name, value in ranks[0].attributes.items():
        if name not in _OWN:
            file.attrs[name] = value
    file.attrs["format"] = FORMAT
    file.attrs["schema_version"] = schema.VERSION
    file.attrs["kind"] = "virtual" if virtual else "copied"
    sources = file.create_group("sources")
    sources["file"] = [f"metrics/{rank.path.name}" for rank in ranks]
    sources["host"] = [str(rank.attributes["host"]) for rank in ranks]
    sources["status"] = [rank.status for rank in ranks]
    file["node"] = np.arange(len(ranks))
    file["node"].attrs["long_name"] = "Number of the node"
    file["node"].make_scale("node")
    for group, columns in schema.groups(blocks=all(rank.blocks for rank in ranks)):
        tables = lengthened(group, [getattr(rank, group) for rank in ranks], lost)
        lengths = [len(table["step"]) for table in tables]
        sources[f"{group}_rows"] = lengths
        rows = min(lengths)
        cuts += cut_in_words(group, lengths, ranks)
        check_steps(group, [table["step"][:rows] for table in tables], ranks)
        file[_ROWS[group]] = np.arange(rows)
        file[_ROWS[group]].make_scale(f"{_NO_VARIABLE}{rows:10d}")
        for column in columns:
            if virtual:
                data = _view(file, group, column, lengths, rows, ranks)
            else:
                values = np.stack([table[column.name][:rows] for table in tables])
                packed = {"compression": "gzip", "shuffle": True} if rows else {}
                data = file.create_dataset(f"{group}/{column.name}", data=values, **packed)
            data.attrs["unit"] = data.attrs["units"] = column.unit
            data.attrs["description"] = data.attrs["long_name"] = column.description
            data.dims[1].attach_scale(file[_ROWS[group]])
    for data in (data for group in ("series", "syncs", "sources") for data in file[group].values()):
        data.dims[0].attach_scale(file["node"])
    file.attrs["cut"] = "; ".join(cuts)
    file.attrs["lost"] = told(lost)


def read_joined(path: str | os.PathLike[str]) -> JoinedMetrics:
    """Read ``metrics.h5``, after checking that every source of a view is there with all its rows.

    Raises
    ------
    DataError
        The file is missing, damaged or no joined file, or a source is missing or short: names it.
    """
    path = Path(path)
    with open_reading(path) as file:
        try:
            check_format(file, path, FORMAT)
            names = [str(name) for name in file["sources/file"].asstr()[:]]
            if file.attrs["kind"] == "virtual":
                for index, name in enumerate(names):
                    expected = tuple(int(file[f"sources/{group}_rows"][index]) for group in ("series", "syncs"))
                    _verify(path.parent / name, expected)
            return JoinedMetrics(
                path=path,
                attributes=plain_attributes(file),
                series={name: data[:] for name, data in file["series"].items()},
                syncs={name: data[:] for name, data in file["syncs"].items()},
                hosts=tuple(str(host) for host in file["sources/host"].asstr()[:]),
                statuses=tuple(str(status) for status in file["sources/status"].asstr()[:]),
            )
        except DAMAGED as error:
            raise DataError(f"{path}: damaged: {error}") from error


def _view(
    file: Any, group: str, column: schema.Column, lengths: Sequence[int], rows: int, ranks: Sequence[RankMetrics]
) -> Any:
    """Make one virtual dataset of shape (nodes, rows)."""
    import h5py

    layout = h5py.VirtualLayout(shape=(len(ranks), rows), dtype=column.kind)
    if rows:
        for index, rank in enumerate(ranks):
            name = f"metrics/{rank.path.name}"
            source = h5py.VirtualSource(name, f"{group}/{column.name}", (lengths[index],), column.kind)
            layout[index] = source[:rows]
    return file.create_virtual_dataset(f"{group}/{column.name}", layout)


def _verify(path: Path, expected: tuple[int, ...]) -> None:
    """See that a source still has its rows and would not be replaced by fill values."""
    if not path.is_file():
        raise DataError(f"{path}: missing, but the joined metrics.h5 needs it")
    if not closed_cleanly(path):
        raise DataError(f"{path}: is open for writing, so the joined metrics.h5 cannot see it; join again")
    with open_reading(path) as file:
        found = tuple(int(count) for count in file["committed"][:])
    if any(have < need for have, need in zip(found, expected, strict=True)):
        raise DataError(f"{path}: has {found} rows (series, syncs), but the joined metrics.h5 needs {expected}")
