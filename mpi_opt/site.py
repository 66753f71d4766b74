"""The site profile: what is the same for all jobs on one cluster, as a small TOML file.

``docs/slurm.md`` says what every key means; ``slurm/site/`` holds examples. Neither NumPy nor MPI is imported here.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from mpi_opt import jobtext
from mpi_opt.errors import JobError
from mpi_opt.keytypes import Count, Table, says

_UNSEEN = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Word: TypeAlias = Annotated[str, says("a text of one line, not empty", min_length=1)]
Words: TypeAlias = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], says("a list of texts of one line each")]
Memory: TypeAlias = Annotated[str, says('a size such as "500M" or "8G"', pattern=r"^[0-9]+[KMGT]?\Z")]
Launcher: TypeAlias = Literal["srun", "mpirun"]


def one_line(text: str, place: str) -> str:
    """Return ``text``, which must not hold line breaks or other control characters.

    Raises
    ------
    JobError
        It does: names the ``place``.
    """
    if _UNSEEN.search(text):
        raise JobError(f"{place} = {jobtext.show(text)}: holds a line break or another control character")
    return text


class Site(Table, frozen=True, kw_only=True):
    """A site profile; every key may be left out.

    Attributes
    ----------
    account, partition, qos, reservation, constraint : str or None
        Handed on to ``sbatch`` under the same names.
    mem, mem_per_cpu : str or None
        Memory of a node, or of a core; not both.
    cpus_per_task : int
        Cores of each rank.
    sbatch : tuple of str
        Further options of ``sbatch``, one each, e.g. ``--exclusive``.
    modules : tuple of str
        Loaded in this order.
    prologue : str
        Lines of shell that are run as they stand, after the modules.
    environment : mapping of str to str
        Variables to be set.
    command : tuple of str
        How a node starts ``mpi-opt``; empty: as it was started for ``submit``.
    launcher : {"srun", "mpirun"}
        What starts the ranks.
    mpi : str or None
        ``srun --mpi=``; ``None``: the cluster's default.
    mpirun : str
        Name or path of ``mpirun``.
    launcher_options : tuple of str
        Further words for either launcher.
    signal_ahead : int or None
        Seconds before the time limit at which the run is asked to stop.
    signal_to : {"batch", "steps"}
        Whether the batch shell is told, which tells the launcher, or every rank by SLURM itself.
    requeue : int
        How many times the job may begin again.
    """

    account: Word | None = None
    partition: Word | None = None
    qos: Word | None = None
    reservation: Word | None = None
    constraint: Word | None = None
    mem: Memory | None = None
    mem_per_cpu: Memory | None = None
    cpus_per_task: Count = 1
    sbatch: Words = ()
    modules: Words = ()
    prologue: Annotated[str, says("lines of shell")] = ""
    environment: Annotated[Mapping[str, str], says("a table of texts")] = msgspec.field(default_factory=dict)
    command: Words = ()
    launcher: Annotated[Launcher, says("srun, mpirun")] = "srun"
    mpi: Word | None = None
    mpirun: Word = "mpirun"
    launcher_options: Words = ()
    signal_ahead: Count | None = None
    signal_to: Annotated[Literal["batch", "steps"], says("batch, steps")] = "batch"
    requeue: Annotated[int, says("an integer >= 0", ge=0)] = 0

    def __post_init__(self) -> None:
        if self.mem is not None and self.mem_per_cpu is not None:
            raise ValueError("mem_per_cpu: not together with mem; give one of the two")
        for option in self.sbatch:
            if not option.startswith("-"):
                raise ValueError(f"sbatch = {jobtext.show(self.sbatch)}: allowed: options, each with its dashes")
        for name in self.environment:
            if not _VARIABLE.match(name):
                raise ValueError(f"environment.{name}: no name of a variable; allowed: letters, digits and '_'")
        try:
            for key in self.__struct_fields__:
                value = getattr(self, key)
                texts = value.values() if key == "environment" else value if isinstance(value, tuple) else (value,)
                for text in texts:
                    if isinstance(text, str) and key != "prologue":
                        one_line(text, key)
        except JobError as error:
            raise ValueError(str(error)) from None


def load_site(path: Path) -> Site:
    """Read a site profile.

    Raises
    ------
    JobError
        The file cannot be read, or a key or value is wrong: names file, key, value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise JobError(f"site profile {str(path)!r}: {reason}") from None
    raw = jobtext.parse(text, f"site profile {str(path)!r}")
    try:
        return jobtext.convert(raw, Site)
    except JobError as error:
        raise JobError(f"site profile {str(path)!r}: {error}") from None
