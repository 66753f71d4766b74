"""How ranks are started: the launcher that belongs to the MPI of this Python, or the one that is named."""

import shlex
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.errors import JobError, LaunchError

_NAMES = ("mpiexec", "mpirun")


@dataclass(frozen=True, slots=True)
class Launcher:
    """A launcher: its words, before ``-n`` and the number of ranks."""

    words: tuple[str, ...]

    def command(self, ranks: int, program: tuple[str, ...]) -> tuple[str, ...]:
        """Return the whole command line of ``ranks`` ranks of ``program``."""
        return (*self.words, "-n", str(ranks), *program)


def find_launcher(given: str | None, environ: Mapping[str, str]) -> Launcher:
    """Return the launcher to be used.

    Parameters
    ----------
    given : str or None
        A command line without ``-n``, as a shell would read it: ``"mpiexec.openmpi --map-by :OVERSUBSCRIBE"``. By
        default ``srun`` inside an allocation of SLURM; else the ``mpiexec`` of this Python's environment, which brings
        the MPI that is loaded; else the one that the shell finds.
    environ : mapping
        The process's environment.

    Raises
    ------
    JobError
        ``given`` is no command line.
    LaunchError
        There is none.
    """
    if given is not None:
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise JobError(f"--launcher {given!r}: {error}; allowed: a command line without -n") from None
        if not words or shutil.which(words[0]) is None:
            raise LaunchError(f"--launcher {given!r}: {words[0] if words else 'nothing'} is not found")
        return Launcher((shutil.which(words[0]) or words[0], *words[1:]))
    if "SLURM_JOB_ID" in environ and shutil.which("srun") is not None:
        return Launcher(("srun", "--kill-on-bad-exit=1"))
    for name in _NAMES:
        own = Path(sysconfig.get_path("scripts"), name)
        if own.exists():
            return Launcher((str(own),))
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise LaunchError(
            "no mpiexec is found beside this Python or on the path; allowed: --launcher COMMAND, or the MPI wheel with "
            "its own mpiexec (pip install 'mpi_opt[mpi]')"
        )
    return Launcher((found,))
