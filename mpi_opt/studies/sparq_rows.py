"""SPARQ-SGD and its rivals as they are compared: which job, what is set in it, and how many seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.errors import JobError
from mpi_opt.job import Job, load_job


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the comparison.

    Parameters
    ----------
    name : str
        In tables.
    slug : str
        Of its folders.
    method : str
        ``algorithm.name`` of the job it is made from.
    compressor : str or None
        Instead of the job's: the operator's name; those that keep k entries keep as many as SPARQ's.
    kept : int or None
        Instead of SPARQ's k.
    sync_every : int or None
        H; ``None`` is the job's, -1 that of SPARQ's job.
    rate : float or None
        Instead of the job's consensus rate.
    rate_factor : float or None
        What the job's consensus rate is multiplied by.
    part : {"rivals", "k", "rates"}
        The table it stands in.
    main : bool
        Whether it is run with every seed; others with the first alone.
    """

    name: str
    slug: str
    method: str
    compressor: str | None = None
    kept: int | None = None
    sync_every: int | None = None
    rate: float | None = None
    rate_factor: float | None = None
    part: str = "rivals"
    main: bool = False


SAME = -1
"""``Row.sync_every``: SPARQ's own H."""

SPARQ = Row(name="SPARQ-SGD", slug="sparq", method="sparq-sgd", main=True)

_CHOCO = (("Sign", "sign", 1.0), ("TopK", "top-k", 0.5), ("SignTopK", "sign-top-k", None))
"""Name, operator, and its consensus rate instead of the job's: about twice what "auto" finds, which is careful."""

RIVALS: tuple[Row, ...] = (
    *(
        Row(
            name=f"CHOCO-SGD {words}",
            slug=f"choco-{operator}-same",
            method="choco-sgd",
            compressor=operator,
            rate=rate,
            sync_every=SAME,
            main=True,
        )
        for words, operator, rate in _CHOCO
    ),
    Row(name="D-PSGD", slug="dpsgd-same", method="d-psgd", sync_every=SAME),
    Row(name="D-PSGD", slug="dpsgd", method="d-psgd", sync_every=1),
    Row(name="allreduce-SGD", slug="allreduce", method="allreduce-sgd"),
    *(
        Row(
            name=f"CHOCO-SGD {words}",
            slug=f"choco-{operator}",
            method="choco-sgd",
            compressor=operator,
            rate=rate,
            sync_every=1,
        )
        for words, operator, rate in _CHOCO
    ),
)

KEPT = (10, 78, 392)
"""Other k of SPARQ-SGD: the paper's 10, and 1 % and 5 % of 7,850."""

SWEEP: tuple[Row, ...] = (
    Row(name="SPARQ-SGD, Sign", slug="sparq-sign", method="sparq-sgd", compressor="sign", rate=0.6, part="k"),
    *(Row(name=f"SPARQ-SGD, k = {k}", slug=f"sparq-k{k}", method="sparq-sgd", kept=k, part="k") for k in KEPT),
)
"""With another k the consensus rate is SPARQ's times the ratio of the two, as those that "auto" finds are."""

RATES: tuple[Row, ...] = tuple(
    Row(name=f"SPARQ-SGD, gamma x {words}", slug=f"sparq-rate-{slug}", method="sparq-sgd", rate_factor=f, part="rates")
    for f, words, slug in ((0.5, "1/2", "half"), (2.0, "2", "twice"))
)

ROWS: tuple[Row, ...] = (SPARQ, *RIVALS, *SWEEP, *RATES)
"""In the order in which they are run."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The job files of the comparison, one for each method.

    Parameters
    ----------
    paths : mapping of str to Path
        ``algorithm.name`` -> file.
    settings : sequence of str
        Overrides of every job, such as ``"stop.steps=100"``.
    """

    paths: "dict[str, Path]"
    settings: Sequence[str] = ()

    @classmethod
    def of(cls, files: Sequence[Path], settings: Sequence[str] = ()) -> "Jobs":
        """Look into the files for their methods.

        Raises
        ------
        JobError
            A file is wrong, a method is there twice, or one that a row needs is not there.
        """
        paths: dict[str, Path] = {}
        for file in files:
            name = load_job(file, settings).algorithm.name
            if name in paths:
                raise JobError(f"{file}: algorithm.name = {name!r} is also that of {paths[name]}; allowed: each once")
            paths[name] = file
        needed = {row.method for row in ROWS}
        if missing := sorted(needed - paths.keys()):
            raise JobError(f"no job of {', '.join(missing)} is given; allowed: jobs of {', '.join(sorted(needed))}")
        return cls(paths, tuple(settings))

    @property
    def sparq(self) -> Job:
        """SPARQ's job."""
        return load_job(self.paths[SPARQ.method], self.settings)

    def job(self, row: Row, seed: int) -> Job:
        """Return the job of one run.

        Parameters
        ----------
        row : Row
        seed : int

        Raises
        ------
        JobError
            The job does not allow what the row sets.
        """
        ours = self.sparq.algorithm
        changes = [f"name={row.slug}-seed{seed}", f"seed={seed}"]
        rate, factor = row.rate, row.rate_factor
        if row.sync_every is not None:
            changes.append(f"algorithm.sync_every={ours.sync_every if row.sync_every == SAME else row.sync_every}")
        if row.compressor is not None or row.kept is not None:
            own = getattr(ours.compressor, "k", None)
            if not isinstance(own, int):
                raise JobError(f"{self.paths[SPARQ.method]}: algorithm.compressor.k: allowed here: an integer")
            operator, kept = row.compressor or "sign-top-k", row.kept or own
            table = "" if operator == "sign" else f", k = {kept}"
            changes.append(f'algorithm.compressor={{ name = "{operator}"{table} }}')
            factor = None if row.kept is None else kept / own
        if factor is not None:
            if isinstance(ours.consensus_rate, str):
                raise JobError(f"{self.paths[SPARQ.method]}: algorithm.consensus_rate: allowed here: a number")
            rate = min(1.0, factor * ours.consensus_rate)
        if rate is not None:
            changes.append(f"algorithm.consensus_rate={rate:.6g}")
        return load_job(self.paths[row.method], [*self.settings, *changes])


def rows_of(jobs: Jobs, names: Sequence[str] | None = None) -> list[Row]:
    """Return the rows to be run: all but a k that is SPARQ's own, or those of certain slugs.

    Raises
    ------
    JobError
        A slug is not known.
    """
    known = [row.slug for row in ROWS]
    for name in names or ():
        if name not in known:
            raise JobError(f"--rows {name}: unknown; allowed: {', '.join(known)}")
    own = getattr(jobs.sparq.algorithm.compressor, "k", None)
    return [row for row in ROWS if (names is None or row.slug in names) and (row.kept is None or row.kept != own)]
