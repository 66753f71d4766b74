"""The result folder ``runs/NAME``: made by one process, known to all."""

import shutil
from pathlib import Path

from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Collectives

_OURS = ("job.toml", "log.txt", "metrics", "metrics.h5", "model.h5", "checkpoints")


def open_folder(path: Path, collectives: Collectives, *, overwrite: bool) -> Path:
    """Make the result folder and return it as an absolute path.

    Parameters
    ----------
    path : Path
        Where the results go.
    collectives : Collectives
        All processes call this; only the first touches the disk.
    overwrite : bool
        Take away what an earlier run left there.

    Raises
    ------
    JobError
        The folder holds a run already, or cannot be made.
    """
    path = path.absolute()
    error: Exception | None = None
    if collectives.rank == 0:
        try:
            _make(path, overwrite)
        except JobError as refused:
            error = refused
        except OSError as failed:
            error = JobError(f"cannot make the result folder {path}: {failed.strerror or failed}; give another --out")
    collectives.check(error)
    return path


def _make(path: Path, overwrite: bool) -> None:
    if path.exists() and not path.is_dir():
        raise JobError(f"{path} is a file: results need a folder; give another --out")
    held = [name for name in _OURS if (path / name).exists()]
    if held and not overwrite:
        finished = "a finished run" if "model.h5" in held else "an unfinished run"
        raise JobError(f"{path} already holds {finished} ({', '.join(held)}): give another --out, or --overwrite")
    for name in held:
        entry = path / name
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (path / "metrics").mkdir(parents=True, exist_ok=True)
