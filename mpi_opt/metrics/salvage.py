"""Clean files out of those of killed runs: closed, whole, and saying how they ended; what is lost is told."""

import io
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import replace_file
from mpi_opt.metrics.heaps import sound_heaps
from mpi_opt.metrics.joined import join
from mpi_opt.metrics.layout import Earlier, new_file
from mpi_opt.metrics.nodes import rank_paths
from mpi_opt.metrics.rank_file import check_format, plain_attributes
from mpi_opt.metrics.superblock import closed
from mpi_opt.types import Vector

_BESIDE = ("job.toml", "log.txt", "validation.json", "metrics/lost.json")


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What became of one file.

    Attributes
    ----------
    path, out : Path
        The file, and the clean one; ``out`` is not there where nothing could be read.
    rows, syncs : int
        Rows of ``/series`` and of ``/syncs`` that are kept.
    lost : tuple of str
        What is not; empty where the file was whole.
    """

    path: Path
    out: Path
    rows: int
    syncs: int
    lost: tuple[str, ...]


def salvage(source: Path, out: Path) -> list[Salvaged]:
    """Make clean files out of a run's, or of one.

    Parameters
    ----------
    source : Path
        A run's folder, or one ``rank_*.h5``. It is only read.
    out : Path
        A folder (with ``metrics/rank_*.h5``, the run's job and log, and ``metrics.h5`` if every file could be read),
        or a file; it does not exist yet.

    Raises
    ------
    JobError
        ``out`` exists or cannot be written.
    DataError
        There is no metrics file, or nothing can be read of any, or they are not of one run: names the
        reasons.
    """
    if out.exists():
        raise JobError(f"--out {out}: exists already; allowed: a new name")
    if source.is_dir():
        paths = rank_paths(source)
        try:
            (out / "metrics").mkdir(parents=True)
            for name in _BESIDE:
                with suppress(FileNotFoundError):
                    shutil.copyfile(source / name, out / name)
        except OSError as error:
            raise JobError(f"--out {out}: cannot be written: {error.strerror or error}") from error
        found = [_salvage(path, out / "metrics" / path.name) for path in paths]
    else:
        found = [_salvage(source, out)]
    if not any(each.out.exists() for each in found):
        raise DataError("nothing can be salvaged: " + "; ".join(why for each in found for why in each.lost))
    if source.is_dir() and all(each.out.exists() for each in found):
        join(out)
    return found


def _salvage(path: Path, out: Path) -> Salvaged:
    lost: list[str] = []
    try:
        if path.is_file() and not sound_heaps(path):
            raise DataError(f"{path}: damaged: its texts end nowhere")
        data, rows, syncs = _clean(path, lost)
    except DataError as error:
        return Salvaged(path, out, 0, 0, (*lost, str(error)))
    replace_file(out, data)
    return Salvaged(path, out, rows, syncs, tuple(lost))


def _clean(path: Path, lost: list[str]) -> tuple[bytes, int, int]:
    """Return the bytes of a clean file with what can be read, and its rows; add to ``lost`` what cannot."""
    with _opened(path) as file:
        length = path.stat().st_size
        check_format(file, path, schema.FORMAT)
        try:
            committed = [int(count) for count in file["committed"][:]]
            attributes = plain_attributes(file)
            status = str(file["final/status"].asstr()[()])
            (dim,) = file["final/model"].maxshape
            blocks = all(f"{group}/{column.name}" in file for group, column in schema.BLOCKS.items())
            groups = [
                _rows(file[group], columns, count, length, lost)
                for (group, columns), count in zip(schema.groups(blocks=blocks), committed, strict=True)
            ]
        except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged: {error}") from error
        vectors = {} if status == schema.RUNNING else _vectors(file, length, lost)
        average = "average" in file["final"]
    series, syncs = groups
    rows = len(series["step"])
    if status == schema.RUNNING:
        at = f" up to step {series['step'][-1]}" if rows else ""
        status = f"closed: killed, and salvaged{at}"
        lost.append("whatever was not flushed when the run was killed, and the final model")
    data = io.BytesIO(new_file(attributes, dim, average, Earlier(series, syncs), blocks=blocks))
    _finish(data, vectors, status)
    return data.getvalue(), rows, len(syncs["step"])


def _opened(path: Path) -> Any:
    """Return the file open for reading: a copy in memory that says it is closed and whole."""
    import h5py

    try:
        return h5py.File(io.BytesIO(closed(path.read_bytes())), "r")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened as HDF5: {' '.join(str(error).split())}") from error


def _rows(
    group: Any, columns: Sequence[schema.Column], count: int, length: int, lost: list[str]
) -> dict[str, npt.NDArray[Any]]:
    """Return the rows that can be read of all series of a group."""
    read = {}
    for column in columns:
        if column.name in group:
            read[column.name] = _readable(group[column.name], count, length)
    kept = min((len(values) for values in read.values()), default=0)
    if kept < count:
        short = ", ".join(name for name, values in read.items() if len(values) == kept)
        lost.append(f"rows {kept} to {count - 1} of {group.name}: cannot be read in {short}")
    for column in columns:
        if column.name not in read:  # of an earlier version
            lost.append(f"{group.name}/{column.name}: not in the file, filled with {_blank(column)}")
            read[column.name] = np.full(kept, _blank(column), dtype=column.kind)
    return {name: values[:kept] for name, values in read.items()}


def _blank(column: schema.Column) -> float | int:
    return {"f8": np.nan, "i8": -1, "u1": 0}[column.kind]


def _readable(data: Any, count: int, length: int) -> npt.NDArray[Any]:
    """Return the first rows of a series, up to the first block that is not whole within ``length`` bytes.

    HDF5 has checksums over all but the numbers themselves: in a file that was cut off, those behind its end are zeros.
    """
    count, step, there = min(count, data.shape[0]), data.chunks[0], 0
    with suppress(OSError, RuntimeError):
        for begin in range(0, count, step):
            block = data.id.get_chunk_info_by_coord((begin,))
            if block.byte_offset is None or block.byte_offset + block.size > length:
                break
            there = min(count, begin + step)
    with suppress(OSError, RuntimeError):
        rows: npt.NDArray[Any] = data[:there]
        return rows
    return np.zeros(0, data.dtype)


def _vectors(file: Any, length: int, lost: list[str]) -> dict[str, Vector]:
    found = {}
    for name in ("final/model", "final/average"):
        try:
            if name in file and (count := file[name].shape[0]):
                found[name] = _readable(file[name], count, length)
                if len(found[name]) < count:
                    del found[name]
                    lost.append(f"/{name}: cut off")
        except (OSError, RuntimeError) as error:
            lost.append(f"/{name}: {' '.join(str(error).split())}")
    return found


def _finish(data: io.BytesIO, vectors: Mapping[str, Vector], status: str) -> None:
    import h5py

    with h5py.File(data, "r+", libver="latest") as file:
        for name, vector in vectors.items():
            file[name].resize(vector.shape)
            file[name][:] = vector
        file["final/status"][()] = status.encode()[: schema.STATUS_BYTES].decode(errors="ignore")
