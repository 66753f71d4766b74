"""One node's metrics file, written so that a killed run leaves everything up to its last flush.

Rows and synchronisation indices wait in NumPy buffers and are written together; how, is ``rank_writer``'s.
"""

import operator
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from mpi_opt.errors import JobError, MpiOptError
from mpi_opt.metrics import schema
from mpi_opt.metrics.layout import Earlier, Table, new_file
from mpi_opt.metrics.rank_writer import RankWriter
from mpi_opt.types import Vector


class Recorder:
    """Writer of one ``metrics/rank_*.h5``.

    The file appears under its name once it is ready for readers.

    Parameters
    ----------
    path : path
        The file; it must not exist yet, unless there are ``earlier`` rows. Its folder is made.
    attributes : mapping
        Every name of ``schema.ATTRIBUTES``, as made by ``attributes.run_attributes``.
    dim : int
        Length d of the model.
    average : bool, optional
        Whether ``/final/average`` is to be kept as well.
    blocks : bool, optional
        Whether there are the series of ``schema.BLOCKS``.
    earlier : Earlier, optional
        Rows of the run that is resumed: the file begins with them, and takes the place of the old one at once.
    buffer_rows, buffer_syncs : int, optional
        Rows and synchronisation indices that are held before they are written.
    flush_seconds : float, optional
        A row older than this (s) is written with the next row; 0 writes every row at once.
    hold : bool, optional
        Keep the file open between writes: see ``rank_writer``.
    clock : callable, optional
        Seconds from any origin, never running backwards.

    Attributes
    ----------
    seconds : float
        Time spent in writing so far (s), by ``clock``.
    blocks : bool

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
        blocks: bool = False,
        earlier: Earlier | None = None,
        buffer_rows: int = 256,
        buffer_syncs: int = 4096,
        flush_seconds: float = 2.0,
        hold: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path = Path(path)
        self.dim = dim
        self.blocks = blocks
        self.seconds = 0.0
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._average = average
        self._ended = False
        if dim < 1 or buffer_rows < 1 or buffer_syncs < 1:
            raise ValueError(
                f"dim = {dim}, buffer_rows = {buffer_rows}, buffer_syncs = {buffer_syncs}: all must be >= 1"
            )
        if attributes.keys() != schema.ATTRIBUTES.keys():
            wrong = sorted(attributes.keys() ^ schema.ATTRIBUTES.keys())
            raise ValueError(f"attributes missing or unknown: {', '.join(wrong)}")
        if earlier is None and self.path.exists():
            raise JobError(f"{self.path} exists already: give another --out, or remove the old run's folder")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"cannot make the folder {self.path.parent}: {error}") from error
        (_, series), (_, syncs) = schema.groups(blocks=blocks)
        self._series = Table(series, buffer_rows)
        self._syncs = Table(syncs, buffer_syncs)
        self._file = RankWriter(self.path, self._series, self._syncs, hold=hold)
        if earlier is not None:
            self._series.written, self._syncs.written = earlier.counts
        self._file.make(new_file(attributes, dim, average, earlier, blocks=blocks), durable=earlier is not None)
        self._sync_buffers = tuple(self._syncs.buffers[column.name] for column in schema.SYNCS)
        self._sync_blocks = self._syncs.buffers.get(schema.BLOCKS["syncs"].name)
        self._flushed = clock()

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

    def sync(
        self, step: int, fired: bool, drift: float, threshold: float, payload_bytes: int, blocks: float = 0.0
    ) -> None:
        """Take one synchronisation index; about a microsecond, for it runs between training steps.

        ``blocks`` is the share of blocks that spoke, left out where the recorder is made without.
        """
        table = self._syncs
        at = table.count
        steps, fires, drifts, thresholds, payloads = self._sync_buffers
        steps[at] = step
        fires[at] = fired
        drifts[at] = drift
        thresholds[at] = threshold
        payloads[at] = payload_bytes
        if self._sync_blocks is not None:
            self._sync_blocks[at] = blocks
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
        with self._file.writing():
            self._file.rows()
            self._file.vectors(vectors)
            self._file.say(reason)
        self._ended = True
        self.seconds += self._clock() - start

    def position(self) -> tuple[int, int]:
        """Write what waits, onto the disk itself; return how many rows and synchronisation indices are in the file.

        Raises
        ------
        MpiOptError
            As `flush`.
        """
        self.flush()
        self._file.force()
        return self._series.written, self._syncs.written

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
        with self._file.writing():
            self._file.rows()
        self.seconds += self._clock() - start

    def close(self, reason: str = "closed: no final model was recorded") -> None:
        """Write what waits and close the file; ``reason`` is the status if ``final`` gave none. May be repeated.

        Raises
        ------
        MpiOptError
            The file cannot be written.
        """
        if self._file.closed:
            return
        if self._file.held or self._series.count or self._syncs.count or not self._ended:
            with self._file.writing(last=True):
                self._file.rows()
                if not self._ended:
                    self._file.say(reason)
                    self._ended = True
        self._file.closed = True

    def discard(self) -> None:
        """Close the file and remove it: the run did not start."""
        self._file.discard()

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
