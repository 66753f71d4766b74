"""What a model says of a scaling test: a step's work as one point showed it, on other numbers of ranks and networks."""

import functools
from collections.abc import Callable, Sequence

from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.build import graph_of
from mpi_opt.errors import JobError
from mpi_opt.forecast.work import with_fixed, work_of
from mpi_opt.report.course import Course
from mpi_opt.report.scaling import Forecast, Predicted
from mpi_opt.scaletest.collecting import Found
from mpi_opt.scaletest.networks import Network
from mpi_opt.scaletest.study import Study
from mpi_opt.scaling.merit import OVERSUBSCRIBED, Merit
from mpi_opt.scaling.points import Plan
from mpi_opt.scaling.stepmodel import StepCost, Work, extrapolate

LARGEST = 1024
"""Ranks up to which the model goes on."""


def forecasts(
    study: Study, found: Found, figures: Sequence[Merit], networks: Sequence[Network]
) -> tuple[tuple[Forecast, ...], list[str]]:
    """Return the predictions on each network, and what is to be said of them.

    A step's work is that of the run with the median time on the most ranks that are not marked. Where steps take all
    rows and several numbers of ranks are not marked, the compute that does not divide is fitted over these. A marked
    point is only taken where there is no other, and that is said; an oversubscribed one never.

    Parameters
    ----------
    study : Study
    found : Found
    figures : sequence of Merit
    networks : sequence of Network
    """
    basis = choose_basis(figures)
    if not basis:
        return (), ["no model: there is no point of 2 ranks or more with a core for each"]
    most = basis[-1]
    fits = study.plan.mode == "strong" and not _grows(study)
    works = [work_of(_median_run(found, merit.ranks)) for merit in (basis if fits else basis[-1:])]
    work = with_fixed(works)
    least = next(merit.ranks for merit in figures if merit.step is not None)
    degree, words = neighbours(study)
    said = [_forecast(study.plan, work, network, least, degree, grows=_grows(study)) for network in networks]
    told = f"the model takes a step's work from a run on {most.ranks} ranks"
    if most.marks:
        told += f", itself marked: {', '.join(most.marks)}"
    if len(works) > 1:
        over = ", ".join(str(merit.ranks) for merit in basis)
        share = work.fixed / work.compute if work.compute else 0.0
        told += f", and fits over {over} ranks what of the compute does not divide: {share:.0%} on {most.ranks}"
    notes = [f"{told}; how many steps a target takes is not in it"]
    return tuple(said), notes + ([words] if words else [])


def choose_basis(figures: Sequence[Merit]) -> tuple[Merit, ...]:
    """Return the points that the model's work is taken from, ascending; the last has two ranks or more.

    Those that nothing speaks against, up to the most ranks; where none of them has two ranks, the marked one of most
    ranks that is not oversubscribed; else none.
    """
    clean = [merit for merit in figures if merit.clean]
    if any(merit.ranks > 1 for merit in clean):
        return tuple(clean)
    free = [m for m in figures if m.step is not None and m.ranks > 1 and OVERSUBSCRIBED not in m.marks]
    return tuple(free[-1:])


def _median_run(found: Found, ranks: int) -> Course:
    samples = sorted((sample for sample in found.samples if sample.ranks == ranks), key=lambda sample: sample.step)
    middle = samples[(len(samples) - 1) // 2]
    return next(course for point, course in found.courses if (point.ranks, point.repeat) == (ranks, middle.repeat))


def _forecast(
    plan: Plan, work: Work, network: Network, least: int, degree: Callable[[int], float] | None, *, grows: bool
) -> Forecast:
    """Return the predictions on one network; where the points ran, only for as many ranks as were measured."""
    powers = [2**k for k in range(LARGEST.bit_length()) if 2**k >= least]
    ranks = sorted({least, *plan.ranks} if network.here else {least, *plan.ranks, *powers})
    costs = {
        point.nodes: point.cost
        for point in extrapolate(work, network.profile, ranks, weak=plan.mode == "weak", degree=degree)
    }
    return Forecast(
        network=network.name,
        words=str(network.profile),
        measured=network.here,
        points=tuple(
            _predicted(count, costs[count], least, costs[least], _times_rows(work, count, least) if grows else 1.0)
            for count in ranks
        ),
    )


def _times_rows(work: Work, ranks: int, least: int) -> float:
    """Return how many times the rows of ``least`` ranks a step takes on more, where each takes as many."""
    return (ranks - work.masters) / (least - work.masters)


def _predicted(ranks: int, cost: StepCost, least: int, base: StepCost, rows: float) -> Predicted:
    """Return a prediction with its speed-up, which is defined as for what was measured, at so many times the rows."""
    return Predicted(
        ranks=ranks,
        seconds=cost.total,
        compute=cost.compute,
        compress=cost.compress,
        pack=cost.pack,
        network=cost.network,
        speedup=least * rows * base.total / cost.total,
    )


def _grows(study: Study) -> bool:
    """Return whether a step takes more rows on more ranks."""
    algorithm = study.job.algorithm
    mini = algorithm.step_size is not None and algorithm.batch not in ("full", None)
    return study.plan.mode == "weak" or mini


def neighbours(study: Study) -> tuple[Callable[[int], float] | None, str]:
    """Return the mean number of neighbours by the number of nodes, and a word where it cannot be told beyond."""
    job = study.job
    if job.algorithm.name not in EXCHANGES:
        return None, ""
    if job.graph.name == "complete":
        return lambda nodes: nodes - 1.0, ""
    try:
        graph_of(job, LARGEST)
    except JobError:
        return None, "the model keeps the number of neighbours, as the graph is not known for more nodes"

    @functools.cache
    def degree(nodes: int) -> float:
        for fewer in range(nodes, 1, -1):  # such as a torus of a prime number of nodes: that of the largest that fits
            try:
                return 2.0 * len(graph_of(job, fewer).edges) / fewer
            except JobError:
                continue
        return 0.0

    return degree, ""
