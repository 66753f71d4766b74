"""Watching runs until they end."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TextIO

from mpi_opt.status import runs_in
from mpi_opt.watch.draw import block
from mpi_opt.watch.look import Looker
from mpi_opt.watch.show import display, draws_blocks, write


def show_once(folders: Iterable[Path], out: TextIO) -> None:
    """Write how runs are now.

    Raises
    ------
    JobError
        A folder holds no run.
    """
    for index, place in enumerate(place for folder in folders for place in runs_in(folder)):
        lines = block(Looker(place).look(), blocks=draws_blocks(out))
        write(out, "\n" * bool(index) + "\n".join(lines) + "\n")


def watch(
    folders: Iterable[Path],
    out: TextIO,
    environ: Mapping[str, str],
    *,
    interval: float,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Show runs until all of them have ended.

    A run whose folder is not there yet is waited for. A killed one is watched on: it may be resumed.

    Parameters
    ----------
    folders : iterable of Path
        Of runs or sweeps.
    out : text stream
    environ : mapping
        The environment: ``TERM`` and ``NO_COLOR`` decide with the stream how views are shown.
    interval : float
        Seconds between two looks; more where looking itself takes long.
    pause : callable, optional
        Waits for so many seconds.

    Raises
    ------
    JobError
        A folder holds something else than a run.
    """
    lookers = [Looker(place) for folder in folders for place in ([folder] if _to_come(folder) else runs_in(folder))]
    with display(out, environ) as shown:
        while True:
            began = time.monotonic()
            views = [looker.look() for looker in lookers]
            shown.show(views)
            if all(view.state == "ended" for view in views):
                return
            pause(max(interval, 2 * (time.monotonic() - began)))


def _to_come(folder: Path) -> bool:
    """Whether there is nothing yet, or only what a run makes before it writes down its job."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(entry.name.startswith(".") or entry.name == "metrics" for entry in folder.iterdir())
