"""The result folder ``runs/NAME``: made by one process, known to all."""

import shutil
from contextlib import suppress
from pathlib import Path

from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Collectives

_OURS = ("job.toml", "log.txt", "metrics", "metrics.h5", "model.h5", "checkpoints", "validation.json", "optimum.json")
_BEGINNING = ("job.toml", "validation.json")
"""What stands before training: the job, and folds done."""


def refuse_held(path: Path, collectives: Collectives, *, overwrite: bool) -> None:
    """Refuse a folder that holds a run, before anything costly; called by all, only the first looks.

    Raises
    ------
    JobError
        ``path`` is a file, cannot be looked into, or holds a run that is not to be overwritten.
    """
    error = None
    if collectives.rank == 0:
        try:
            _held(path, overwrite)
        except (JobError, OSError) as refused:
            error = _as_job_error(refused, path)
    collectives.check(error)


def open_folder(path: Path, collectives: Collectives, *, overwrite: bool, again: bool = False) -> Path:
    """Make the result folder and return it as an absolute path; called by all, only the first touches the disk.

    Parameters
    ----------
    path : Path
        Where the results go.
    collectives : Collectives
        Among the processes.
    overwrite : bool
        Take away what an earlier run left there.
    again : bool, optional
        The same run begins again: `_BEGINNING` stays until it is replaced, so that a kill in between loses nothing.

    Raises
    ------
    JobError
        The folder holds a run already, or cannot be made.
    """
    path = path.absolute()
    error = None
    if collectives.rank == 0:
        try:
            for entry in _held(path, overwrite, again=again):
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            (path / "metrics").mkdir(parents=True, exist_ok=True)
        except (JobError, OSError) as refused:
            error = _as_job_error(refused, path)
    collectives.check(error)
    return path


def clear_folder(path: Path, *, again: bool = False) -> None:
    """Take away what a refused start made in ``path``, as far as that is possible, so that it can be tried again.

    Called by one process, when no other holds a file there; ``again`` as for `open_folder`.
    """
    for entry in _held(path, overwrite=True, again=again):
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with suppress(OSError):
                entry.unlink()


def _as_job_error(error: JobError | OSError, path: Path) -> JobError:
    if isinstance(error, JobError):
        return error
    return JobError(f"cannot make the result folder {path}: {error.strerror or error}; give another --out")


def _held(path: Path, overwrite: bool, *, again: bool = False) -> list[Path]:
    """Return what an earlier run left in ``path``; where it begins again, of what it needs for that, nothing."""
    if path.exists() and not path.is_dir():
        raise JobError(f"{path} is a file: results need a folder; give another --out")
    held = [path / name for name in _OURS if (path / name).exists() and not (again and name in _BEGINNING)]
    if held and not overwrite:
        kind = "a finished run" if path / "model.h5" in held else "an unfinished run"
        names = ", ".join(entry.name for entry in held)
        raise JobError(f"{path} already holds {kind} ({names}): give another --out, or --overwrite")
    return held
