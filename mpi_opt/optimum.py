"""The least value F* of a job's objective, found by Newton's method in one process and kept beside the run.

``optimum.json`` in a run's folder holds it with a hash of what F follows from and the sizes and dates of the data
files: it is found anew once one of them has changed. Where the data are not at hand, the file counts.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from mpi_opt.algorithms.parts.solver import solve_symmetric
from mpi_opt.build import Built, build
from mpi_opt.datasets.source import resolve, search_paths
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import METHODS, Job, load_job, to_toml
from mpi_opt.metrics.files import replace_file
from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.base import Problem
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.threads import one_thread
from mpi_opt.types import Vector

FILE = "optimum.json"
ACCURACY = 1e-12
"""Estimated F(w) - F*, relative to max(1, |F*|), at which the optimum counts as found."""

_DENSE = 1000
"""Weights up to which the Hessian is held."""
_STEPS = 1000
_PATIENCE = 5
"""Steps without a smaller gradient after which rounding is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The optimum of an objective.

    Attributes
    ----------
    value : float
        F at the model found.
    gradient_norm : float
        |grad F| there.
    gap : float
        Half the squared Newton decrement there, an estimate of F - F*.
    method : str
        How it was found.
    steps : int
        Iterations.
    rows, dim : int
        Training rows, weights.
    problem, files : str
        Hashes of what F follows from; ``files`` is empty where the data were not at hand.
    """

    value: float
    gradient_norm: float
    gap: float
    method: str
    steps: int
    rows: int
    dim: int
    problem: str
    files: str

    def words(self) -> str:
        """Return how it was found."""
        return (
            f"computed: {self.method} on all {self.rows} rows in one process, {self.steps} steps, "
            f"gradient norm {self.gradient_norm:.1e}, estimated distance in F {self.gap:.0e}"
        )


class _Descent:
    """Keeps the point of the least gradient; what falls is its norm, for F is flat to rounding long before."""

    def __init__(self, function: Problem) -> None:
        self._function = function
        self._least = np.inf
        self.model = np.zeros(function.dim)

    def evaluate(self, models: Sequence[Vector], step: int) -> list[dict[str, float]]:  # noqa: ARG002 (the contract's)
        """Return the gradient's norm in the place of the objective, on which patience looks."""
        norm = float(np.linalg.norm(self._function.gradient(models[0])))
        if norm < self._least:
            self._least, self.model = norm, models[0].copy()
        unknown = ("objective_mean", "objective_worst", "test_error_average", "test_error_worst", "train_error_average")
        return [{**dict.fromkeys(unknown, np.nan), "objective_average": norm, "gradient_norm": norm}]


def find_optimum(job: Job, l2: float | None, keys: Mapping[str, Any], folders: Sequence[Path]) -> Optimum:
    """Return the optimum of ``job``'s objective: as kept in one of ``folders``, else computed and kept in all of them.

    Parameters
    ----------
    job : Job
    l2 : float or None
        Instead of the job's, where validation chose it.
    keys : mapping
        What F follows from, by key (`report.sameness.problem_keys`).
    folders : sequence of Path
        Folders of runs with this objective; one that cannot be written to is passed over.

    Raises
    ------
    DataError
        The data are not to be found, and no optimum is kept.
    JobError
        There is no optimum, or none that Newton's method finds to `ACCURACY`.
    """
    problem = hashlib.sha256(json.dumps(keys, sort_keys=True, default=str).encode()).hexdigest()
    files, missing = "", None
    try:
        files = _files(job)
    except DataError as error:
        missing = error
    for known in map(_kept, folders):
        if known is not None and known.problem == problem and (missing is not None or known.files == files):
            return known
    if missing is not None:
        raise DataError(f"the reference optimum cannot be computed: {missing}\nor give it: --reference F or RUN")
    found = _compute(job, l2, problem, files)
    for folder in folders:
        with suppress(JobError):  # a folder of somebody else's: it is found anew the next time
            replace_file(folder / FILE, (json.dumps(asdict(found), indent=1) + "\n").encode(), durable=False)
    return found


def _compute(job: Job, l2: float | None, problem: str, files: str) -> Optimum:
    with one_thread():
        built = _whole(job, l2, "newton-cg")
        function = built.timed[0]
        if function.dim <= _DENSE:
            built = _whole(job, l2, "newton", built)
            function = built.timed[0]
        network = Lockstep([()], None)
        descent = _Descent(function)
        outcome = run(
            Plan(
                network=network,
                algorithm=built.algorithm,
                nodes=built.nodes,
                problems=built.timed,
                x0=np.zeros(function.dim),
                rules=StopRules(steps=_STEPS, patience=_PATIENCE),
                evaluator=descent,
                evaluate_every=1,
                average_output=False,
            )
        )
        w = descent.model
        value, g = function.value(w), function.gradient(w)
        norm, gap = float(np.linalg.norm(g)), _decrement(built, w, g)
    bound = ACCURACY * max(1.0, abs(value))
    if not gap <= bound:
        raise JobError(
            f"no optimum was found: after {outcome.steps} steps of {built.job.algorithm.name} F = {value:.12g}, "
            f"gradient norm {norm:.2g}, estimated F - F* = {gap:.2g}, allowed: {bound:.0e}. Without a penalty "
            "(problem.l2 = 0) there may be none; give --reference F or RUN, or another --measure"
        )
    names = {"newton": "Newton's method", "newton-cg": "Newton-CG"}
    return Optimum(
        value=value,
        gradient_norm=norm,
        gap=gap,
        method=names[built.job.algorithm.name],
        steps=outcome.steps,
        rows=built.loaded.info.rows,
        dim=function.dim,
        problem=problem,
        files=files,
    )


def _whole(job: Job, l2: float | None, method: str, loaded: Built | None = None) -> Built:
    """Return the job's objective on all rows in one shard, with a Newton method for it."""
    if job.problem.module is not None:
        raise JobError(
            f"problem.module = {job.problem.module!r}: the least F of a module cannot be computed; give --reference F "
            "or RUN, or another --measure"
        )
    keys = METHODS[job.algorithm.name].keys - {"name"}
    settings = [f"algorithm.{key}=" for key in sorted(keys)]
    settings += [f"algorithm.name={method}", "data.partition=contiguous", "network=", "stop=", "stop.steps=1"]
    settings += ["validation="] if job.validation is not None else []
    settings += [] if l2 is None else [f"problem.l2={l2!r}"]
    whole = load_job(to_toml(job), settings)
    if loaded is None:
        return build(whole, Solo(), 1, [0])
    return build(whole, Solo(), 1, [0], loaded=loaded.loaded, prepared=False)


def _decrement(built: Built, w: Vector, g: Vector) -> float:
    """Return ``g H^-1 g / 2``, by the Hessian where it is held, else by conjugate gradients."""
    function = built.timed[0]
    if not np.isfinite(g).all():
        return float("inf")
    if built.job.algorithm.name == "newton":
        p = solve_symmetric(function.hessian(w), g)
        function.center(p)
        return 0.5 * abs(float(g @ p))
    from scipy.sparse.linalg import LinearOperator, cg

    product = function.hvp_at(w)
    p, _ = cg(LinearOperator((g.size, g.size), matvec=product, dtype=np.float64), g, rtol=1e-3, maxiter=1000)
    return 0.5 * abs(float(g @ p))


def _files(job: Job) -> str:
    """Return a hash of places, sizes and dates of the files that the training rows are read from.

    Raises
    ------
    DataError
        They are not there.
    """
    words = job.data.train
    source = resolve(words if isinstance(words, str) else tuple(words), search_paths(job.folder))
    told = [str(source.name)]
    for path in (found for field in fields(source) for found in _paths(getattr(source, field.name))):
        stat = path.stat()
        told += [str(path), str(stat.st_size), str(stat.st_mtime_ns)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _paths(value: object) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _paths(item)


def _kept(folder: Path) -> Optimum | None:
    """Return what is kept, if it can be read."""
    try:
        return Optimum(**json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
