"""The HDF5 side of a recorder: the file of one node, open for appending all the time or only while it is written to.

The file is in HDF5's single-writer-multiple-reader (SWMR) mode: other processes may read it while it grows, and it
stays readable when its writer is killed. SWMR allows no new attribute, dataset or longer string once it is on, so all
of them are made first.

An open file costs some 1.5 MB of HDF5's memory and a handle. A process with many nodes therefore opens each file only
while it writes (``hold=False``): some 10 ms a time instead of 3.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpi_opt.errors import MpiOptError
from mpi_opt.metrics import schema
from mpi_opt.metrics.files import abandon, open_appending, replace_file, sync_folder, to_disk
from mpi_opt.metrics.layout import Table
from mpi_opt.types import Vector


class RankWriter:
    """Writer of one metrics file; all but ``make`` and ``discard`` happens inside ``writing``.

    Parameters
    ----------
    path : Path
        The file.
    series, syncs : Table
        The rows that wait.
    hold : bool
        Keep the file open between writes.

    Attributes
    ----------
    closed : bool
        Nothing is written any more. h5py's own word is no use: a file given up on a full disk may count as open still.
    """

    def __init__(self, path: Path, series: Table, syncs: Table, *, hold: bool) -> None:
        self.closed = False
        self._path = path
        self._series, self._syncs = series, syncs
        self._hold = hold
        self._file: Any = None
        self._committed: Any = None
        self._rows_safe = 0

    @property
    def held(self) -> bool:
        """Whether the file is open now."""
        return self._file is not None

    def make(self, data: bytes, *, durable: bool = False) -> None:
        """Make the file of ``layout.new_file``'s bytes; ``durable`` where it takes the place of one with rows in it.

        Raises
        ------
        JobError
            It cannot be made.
        """
        self._rows_safe = self._series.written
        if not self._hold:
            replace_file(self._path, data, durable=durable)
            return
        # Made under another name: readers that poll must not meet a file that is not yet in SWMR mode.
        fresh = self._path.with_name(f".{self._path.name}.making")
        replace_file(fresh, data, durable=durable)
        try:
            self._open(fresh)
            os.rename(fresh, self._path)
        except BaseException:
            self.discard()
            fresh.unlink(missing_ok=True)
            raise

    def _open(self, path: Path) -> None:
        self._file = open_appending(path, locked=self._hold)
        self._series.attach(self._file["series"])
        self._syncs.attach(self._file["syncs"])
        self._committed = self._file["committed"]

    def _release(self) -> None:
        self._series.detach()
        self._syncs.detach()
        self._committed = None
        self._file.close()
        self._file = None

    @contextmanager
    def writing(self, *, last: bool = False) -> Iterator[None]:
        """Have the file open for what is written inside, and close it behind the ``last``.

        Raises
        ------
        MpiOptError
            The file cannot be written (a full disk), and is given up: names it and how many rows are safe.
        """
        try:
            if self._file is None:
                self._open(self._path)
            yield
            if last or not self._hold:
                self._release()
            self.closed = last
        except (OSError, RuntimeError) as error:
            if self._file is not None:
                abandon(self._file)
            self.closed = True
            reason = " ".join(str(error).split())  # HDF5 has line breaks in it
            raise MpiOptError(
                f"{self._path} cannot be written: {reason}. Its first {self._rows_safe} rows are safe; "
                "is the disk full?"
            ) from error

    def rows(self) -> None:
        """Write the rows that wait."""
        if not (self._series.count or self._syncs.count):
            return
        self._series.write()
        self._syncs.write()
        self._file.flush()
        # Only now: a kill during the lines above leaves some series longer than others.
        self._committed[:] = (self._series.written, self._syncs.written)
        self._file.flush()
        self._rows_safe = self._series.written

    def force(self) -> None:
        """Have all rows written so far outlive the loss of the machine: a checkpoint relies on them.

        Raises
        ------
        MpiOptError
            They cannot be forced onto the disk: names the file and the reason.
        """
        try:
            if self._file is None:
                to_disk(self._path)
            else:
                os.fsync(self._file.id.get_vfd_handle())
            sync_folder(self._path.parent)
        except OSError as error:
            raise MpiOptError(f"{self._path} cannot be forced onto the disk: {error.strerror or error}") from error

    def vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Write final vectors, by the names of their datasets."""
        for name, vector in vectors.items():
            self._file[name].resize(vector.shape)
            self._file[name][:] = vector
        self._file.flush()

    def say(self, reason: str) -> None:
        """Write the status, last of all: whoever reads it finds what it speaks of."""
        self._file["final/status"][()] = reason.encode()[: schema.STATUS_BYTES].decode(errors="ignore")
        self._file.flush()

    def discard(self) -> None:
        """Close the file and remove it."""
        if self._file is not None:
            abandon(self._file)
        self.closed = True
        self._path.unlink(missing_ok=True)
