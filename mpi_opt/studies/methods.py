"""LocalNewton and its rivals as they are compared: settings of ``[algorithm]``, and what is tuned."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.job import Job, load_job


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the comparison.

    Parameters
    ----------
    name : str
        In tables.
    settings : tuple of str
        ``key=value`` of ``[algorithm]``.
    grid : tuple of float
        Step sizes to choose from, in units of 1/L; empty where nothing is tuned.
    every : int
        Steps between two rounds.
    """

    name: str
    settings: tuple[str, ...]
    grid: tuple[float, ...] = ()
    every: int = 1


LOCAL_STEPS = 10
"""Steps of local SGD between two averages."""

TUNING_ROUNDS = 20
"""Rounds after which the step size of the least F is taken."""

PLAIN = tuple(
    Method(
        f"LocalNewton L={steps}",
        ("name=local-newton", f"local_steps={steps}", "finish=none", "averaging=plain", "damping=0"),
    )
    for steps in (1, 3)
)
"""The paper's plain form: exact local solves, plain averages."""

ADAPTIVE = Method("adaptive + giant", ("name=local-newton", "finish=giant"))
"""The paper's adaptive form: L from 3 down, then GIANT."""

FINISHES = tuple(
    Method(f"adaptive + {finish}", ("name=local-newton", f"finish={finish}"))
    for finish in ("newton", "newton-cg", "auto")
)
"""This package's other finishes; ``auto`` weighs them up by the network that the table is for."""

RIVALS = (
    Method("GIANT", ("name=giant",)),
    Method("Newton-CG", ("name=newton-cg",)),
    Method("L-BFGS", ("name=lbfgs",)),
    Method("ADMM", ("name=admm",)),
    Method(
        "local SGD",
        ("name=local-sgd", "batch='full'", f"sync_every={LOCAL_STEPS}"),
        grid=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        every=LOCAL_STEPS,
    ),
)

EXACT = Method("exact Newton", ("name=newton",))
"""Sums the whole Hessian: few rounds of d^2/2 numbers."""

METHODS = (*PLAIN, ADAPTIVE, *FINISHES, *RIVALS, EXACT)

SPLITS = ("shuffled", "by-label")


def job_of(path: Path, method: Method, split: str, network: Sequence[str], step_size: float | None = None) -> Job:
    """Return the job of one row: the file's data and loss, the row's algorithm, a clock that counts operations.

    Parameters
    ----------
    path : Path
        A job file; its method, test rows, intercept and stop rules do not count.
    method : Method
    split : str
        ``data.partition``.
    network : sequence of str
        ``key=value`` of ``[network]``: what ``finish = "auto"`` is told.
    step_size : float, optional
        Of a method that is tuned.

    Raises
    ------
    JobError
        The file cannot be read, or does not fit.
    """
    base = load_job(path)
    cleared = [f"algorithm.{key}=" for key in base.algorithm.__struct_fields__ if key != "name"]
    settings = [f"algorithm.{setting}" for setting in method.settings]
    if step_size is not None:
        settings.append(f"algorithm.step_size={step_size!r}")
    data = [f"data.partition={split}", "data.test=", "data.holdout=", "data.intercept=false"]
    rules = ["stop.gradient_norm=", "stop.steps=100000"]
    told = [f"network.{setting}" for setting in network]
    return load_job(path, [*cleared, *settings, *data, *rules, *told, "clock.network=wan", "clock.compute=counted"])


def set_of(path: Path) -> str:
    """Return the set's name of a job that is called ``SET-METHOD``."""
    job = load_job(path)
    return job.name.removesuffix(f"-{job.algorithm.name}")
