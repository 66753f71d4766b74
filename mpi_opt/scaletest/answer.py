"""The answer of a scaling test: what its folders hold, what the target took, what the model says, in one report."""

from collections.abc import Sequence

from mpi_opt.report.scaling import Forecast, Reached, ScaleReport
from mpi_opt.scaletest.collecting import Found, Target, collect, reach
from mpi_opt.scaletest.networks import Network
from mpi_opt.scaletest.study import Study
from mpi_opt.scaling.merit import Merit, merits


def answer(
    study: Study, *, skip: int | None = None, target: Target | None = None, networks: Sequence[Network] = ()
) -> ScaleReport:
    """Return the report of a scaling test as far as it is on disk.

    Parameters
    ----------
    study : Study
    skip : int, optional
        Steps of warm-up; by default a tenth of a run's.
    target : Target, optional
    networks : sequence of Network
        That the model is told of.

    Raises
    ------
    JobError, DataError
        The target has no meaning here, or its reference cannot be found.
    """
    found = collect(study, skip)
    figures = merits(study.plan, found.samples, found.crowded)
    words, reached = ("", ()) if target is None else _target(study, found, target)
    notes = [*found.notes, *_notes(study, figures)]
    said: tuple[Forecast, ...] = ()
    if networks:
        from mpi_opt.scaletest.forecasting import forecasts

        said, told = forecasts(study, found, figures, networks)
        notes += told
    return ScaleReport(
        name=study.name,
        method=study.job.algorithm.name,
        plan=study.plan,
        merits=figures,
        target=words,
        reached=reached,
        forecasts=said,
        failures=found.failures,
        notes=tuple(notes),
    )


def _target(study: Study, found: Found, target: Target) -> tuple[str, tuple[Reached, ...]]:
    if not found.courses:
        return "", ()
    return reach(study, found, target)


def _notes(study: Study, figures: Sequence[Merit]) -> list[str]:
    notes = []
    base = next((merit for merit in figures if merit.step is not None), None)
    if base is None:
        return ["no point has figures yet"]
    if base.marks:
        notes.append(
            f"the ratios are against {_ranks(base.ranks)}, a point that is itself marked: {', '.join(base.marks)}"
        )
    if base.ranks > 1:
        notes.append(
            f"the ratios are against {_ranks(base.ranks)}, taken as perfectly efficient: without 1 rank there is no "
            "serial fraction"
        )
    batch = study.job.algorithm.batch
    if study.job.algorithm.step_size is not None and batch not in ("full", None):
        notes.append(
            f"a step takes {batch} rows a rank, so more rows with more ranks: speed-up is by rows a second (passes "
            "over the data), and the method is another one with each number of ranks"
        )
    return notes


def _ranks(count: int) -> str:
    return f"{count} rank{'s' * (count > 1)}"
