"""One node's metrics file, written so that a killed run leaves everything up to its last flush.

The file is in HDF5's single-writer-multiple-reader (SWMR) mode: other processes may read it while it grows, and it
stays readable when its writer is killed. SWMR allows no new attribute, dataset or longer string once it is on, so all
of them are made first. Rows and synchronisation indices wait in NumPy buffers and are written together.

An open file costs some 1.5 MB of HDF5's memory and a handle. A process with many nodes therefore opens each file only
while it writes (``hold=False``): some 10 ms a time instead of 3.
"""

import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from mpi_opt.errors import JobError, MpiOptError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import abandon, open_appending, replace_file
from mpi_opt.metrics.layout import Table, new_file
from mpi_opt.types import Vector


class Recorder:
    """Writer of one ``metrics/rank_*.h5``.

    The file appears under its name once it is ready for readers.

    Parameters
    ----------
    path : path
        The file; it must not exist yet. Its folder is made.
    attributes : mapping
        Every name of ``schema.ATTRIBUTES``, as made by ``attributes.run_attributes``.
    dim : int
        Length d of the model.
    average : bool, optional
        Whether ``/final/average`` is to be kept as well.
    buffer_rows, buffer_syncs : int, optional
        Rows and synchronisation indices that are held before they are written.
    flush_seconds : float, optional
        A row older than this (s) is written with the next row; 0 writes every row at once.
    hold : bool, optional
        Keep the file open between writes.
    clock : callable, optional
        Seconds from any origin, never running backwards.

    Attributes
    ----------
    seconds : float
        Time spent in writing so far (s), by ``clock``.

    Raises
    ------
    JobError
        The file exists or cannot be made.
    ValueError
        An attribute is missing or unknown, or a number is out of range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        attributes: Mapping[str, str | int | float],
        dim: int,
        average: bool = False,
        buffer_rows: int = 256,
        buffer_syncs: int = 4096,
        flush_seconds: float = 2.0,
        hold: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path = Path(path)
        self.dim = dim
        self.seconds = 0.0
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._committed_rows = 0
        self._hold = hold
        self._average = average
        self._ended = False
        self._closed = False  # h5py's own word is no use: a file given up on a full disk may count as open still
        if dim < 1 or buffer_rows < 1 or buffer_syncs < 1:
            raise ValueError(
                f"dim = {dim}, buffer_rows = {buffer_rows}, buffer_syncs = {buffer_syncs}: all must be >= 1"
            )
        if attributes.keys() != schema.ATTRIBUTES.keys():
            wrong = sorted(attributes.keys() ^ schema.ATTRIBUTES.keys())
            raise ValueError(f"attributes missing or unknown: {', '.join(wrong)}")
        if self.path.exists():
            raise JobError(f"{self.path} exists already: give another --out, or remove the old run's folder")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"cannot make the folder {self.path.parent}: {error}") from error
        self._series = Table(schema.SERIES, buffer_rows)
        self._syncs = Table(schema.SYNCS, buffer_syncs)
        self._file: Any = None
        self._make(new_file(attributes, dim, average))
        self._sync_buffers = tuple(self._syncs.buffers[column.name] for column in schema.SYNCS)
        self._flushed = clock()

    def _make(self, data: bytes) -> None:
        if not self._hold:
            replace_file(self.path, data, durable=False)
            return
        # Made under another name: readers that poll must not meet a file that is not yet in SWMR mode.
        fresh = self.path.with_name(f".{self.path.name}.making")
        replace_file(fresh, data, durable=False)
        try:
            self._open(fresh)
            os.rename(fresh, self.path)
        except BaseException:
            self.discard()
            fresh.unlink(missing_ok=True)
            raise

    def _open(self, path: Path) -> None:
        self._file = open_appending(path, locked=self._hold)
        self._file.swmr_mode = True
        self._series.attach(self._file["series"])
        self._syncs.attach(self._file["syncs"])
        self._committed, self._status = self._file["committed"], self._file["final/status"]

    def _release(self) -> None:
        self._series.detach()
        self._syncs.detach()
        self._committed = self._status = None
        self._file.close()
        self._file = None

    @contextmanager
    def _writing(self, *, last: bool = False) -> Iterator[None]:
        """Have the file open for what is written inside; what fails there gives the file up."""
        try:
            if self._file is None:
                self._open(self.path)
            yield
            if last or not self._hold:
                self._release()
        except (OSError, RuntimeError) as error:
            if self._file is not None:
                abandon(self._file)
            self._closed = True
            reason = " ".join(str(error).split())  # HDF5 has line breaks in it
            raise MpiOptError(
                f"{self.path} cannot be written: {reason}. Its first {self._committed_rows} rows are safe; "
                "is the disk full?"
            ) from error

    def row(self, values: Mapping[str, float | int]) -> None:
        """Take one row of ``/series``: integers all given, floats left out are NaN.

        Raises
        ------
        ValueError
            A name is unknown, or an integer series is missing.
        """
        table = self._series
        if not values.keys() <= table.buffers.keys():
            unknown = sorted(values.keys() - table.buffers.keys())
            raise ValueError(f"no such series: {', '.join(unknown)}; known are {', '.join(table.buffers)}")
        at = table.count
        for name, buffer in table.buffers.items():
            if buffer.dtype.kind == "f":
                buffer[at] = values.get(name, np.nan)
            elif name in values:
                buffer[at] = operator.index(values[name])  # type: ignore[arg-type]
            else:
                raise ValueError(f"series {name} is an integer and must be given in every row")
        table.count = at + 1
        if table.count == table.capacity or self._clock() - self._flushed >= self._flush_seconds:
            self.flush()

    def sync(self, step: int, fired: bool, drift: float, threshold: float, payload_bytes: int) -> None:
        """Take one synchronisation index; about a microsecond, for it runs between training steps."""
        table = self._syncs
        at = table.count
        steps, fires, drifts, thresholds, payloads = self._sync_buffers
        steps[at] = step
        fires[at] = fired
        drifts[at] = drift
        thresholds[at] = threshold
        payloads[at] = payload_bytes
        table.count = at + 1
        if table.count == table.capacity:
            self.flush()

    def final(self, model: Vector, average: Vector | None = None, *, reason: str) -> None:
        """Keep the node's last iterate and how the run ended, e.g. ``"done: 200 steps"`` or ``"diverged: ..."``.

        Parameters
        ----------
        model, average : ndarray, shape (d,)
            float64. ``average`` only where the recorder was made for it.
        reason : str
            Becomes ``/final/status``, cut to 256 bytes of UTF-8.
        """
        vectors = {"final/model": model} if average is None else {"final/model": model, "final/average": average}
        for name, vector in vectors.items():
            if vector.shape != (self.dim,):
                raise ValueError(f"{name} has shape {vector.shape}, not ({self.dim},)")
            if name == "final/average" and not self._average:
                raise ValueError(f"{name}: this recorder was made with average=False")
        start = self._clock()
        with self._writing():
            self._write()
            for name, vector in vectors.items():
                self._file[name].resize((self.dim,))
                self._file[name][:] = vector
            self._file.flush()
            self._say(reason)
        self.seconds += self._clock() - start

    def _say(self, reason: str) -> None:
        """Write the status, last of all: whoever reads it finds what it speaks of."""
        self._status[()] = reason.encode()[: schema.STATUS_BYTES].decode(errors="ignore")
        self._file.flush()
        self._ended = True

    def flush(self) -> None:
        """Write what waits, so that it outlives a kill and readers see it.

        Raises
        ------
        MpiOptError
            The file cannot be written (a full disk): names it and how many rows are safe.
        """
        start = self._flushed = self._clock()
        if not (self._series.count or self._syncs.count):
            return
        with self._writing():
            self._write()
        self.seconds += self._clock() - start

    def _write(self) -> None:
        """Write what waits to the open file."""
        if not (self._series.count or self._syncs.count):
            return
        self._series.write()
        self._syncs.write()
        self._file.flush()
        # Only now: a kill during the lines above leaves some series longer than others.
        self._committed[:] = (self._series.written, self._syncs.written)
        self._file.flush()
        self._committed_rows = self._series.written

    def close(self, reason: str = "closed: no final model was recorded") -> None:
        """Write what waits and close the file; ``reason`` is the status if ``final`` gave none. May be repeated.

        Raises
        ------
        MpiOptError
            The file cannot be written.
        """
        if self._closed:
            return
        if self._file is not None or self._series.count or self._syncs.count or not self._ended:
            with self._writing(last=True):
                self._write()
                if not self._ended:
                    self._say(reason)
        self._closed = True

    def discard(self) -> None:
        """Close the file and remove it: the run did not start."""
        if self._file is not None:
            abandon(self._file)
        self._closed = True
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Return the recorder."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file; an error becomes its status unless ``final`` said another."""
        if error is None:
            self.close()
        else:
            with suppress(MpiOptError):  # the error that led here is the one to report
                self.close(f"failed: {type(error).__name__}: {error}")
