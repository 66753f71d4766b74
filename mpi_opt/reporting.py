"""``mpi-opt report``: runs read and compared, figures drawn, a page and files written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi_opt import __version__, comparing
from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.build import graph_of
from mpi_opt.errors import JobError, MpiOptError
from mpi_opt.metrics.files import replace_file
from mpi_opt.report.comparison import Comparison
from mpi_opt.report.course import Course
from mpi_opt.report.figures.curves import curves
from mpi_opt.report.figures.firing import firing
from mpi_opt.report.figures.network import network
from mpi_opt.report.figures.picture import Picture
from mpi_opt.report.figures.spread import apart, spread
from mpi_opt.report.figures.style import need_matplotlib, save
from mpi_opt.report.figures.timeline import timeline
from mpi_opt.report.grouping import seed_groups
from mpi_opt.report.html import slug
from mpi_opt.report.measures import Measure
from mpi_opt.report.page import Report, RunPart, page
from mpi_opt.report.sameness import same_but_seed
from mpi_opt.report.strands import Strand, strands
from mpi_opt.topology.graphs import Graph

PAGE = "report.html"
NONE = "none"
_TITLES = {
    "gap": "Gap to the optimum",
    "objective": "Objective",
    "gradient-norm": "Norm of the gradient",
    "error": "Test error",
    "accuracy": "Test accuracy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for on the command line.

    Attributes
    ----------
    runs : sequence of Path
    measure : str or None
        ``None``: the gap where there is a reference, else the objective.
    place : {"average", "mean", "worst"}
    target : float or None
    reference : str or None
        As `comparing.Request`'s, or ``"none"``; ``None``: computed where that is possible.
    """

    runs: Sequence[Path]
    measure: str | None = None
    place: str = "average"
    target: float | None = None
    reference: str | None = None


def make_report(request: Request) -> Report:
    """Return the report of runs.

    Raises
    ------
    JobError
        Matplotlib is missing, there is no run, the runs do not compare, or an option has no meaning.
    DataError
        Metrics are missing or damaged, or no optimum can be found where one was asked for.
    """
    need_matplotlib()
    courses = comparing.read_runs(request.runs)
    groups = seed_groups(courses, same_but_seed)
    comparison, remarks = _compare(request, courses, several=any(len(group) > 1 for group in groups))
    made = strands(courses, groups)
    taken: set[str] = set()
    question = comparison.question
    return Report(
        comparison=comparison,
        courses=tuple(courses),
        remarks=tuple(remarks),
        pictures=tuple(_together(made, question.measure, question.place, question.target, taken)),
        runs=tuple(_alone(strand, question.measure, taken) for strand in made),
        version=__version__,
    )


def write(report: Report, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the page and the figures' files into ``folder``, which is made; return them, the page first.

    Raises
    ------
    JobError
        One cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(f"--out {folder}: cannot be made: {error.strerror or error}; allowed: a folder") from error
    replace_file(folder / PAGE, page(report).encode(), durable=False)
    made = [folder / PAGE]
    for picture in [*report.pictures, *(each for part in report.runs for each in part.pictures)]:
        if picture.figure is not None:
            made += save(picture.figure, folder, picture.name, formats)
    return made


def _compare(request: Request, courses: Sequence[Course], *, several: bool) -> tuple[Comparison, list[str]]:
    """Return the comparison, and what is to be said of its reference."""

    def asked(measure: str, reference: str) -> Comparison:
        return comparing.compare_courses(
            comparing.Request(
                runs=request.runs,
                measure=measure,
                place=request.place,
                target=request.target,
                reference=reference,
                group_seeds=several,
            ),
            courses,
        )

    if request.reference == NONE:
        if request.measure == "gap":
            raise JobError(f"--reference {NONE} with --measure gap, which is F - F*; allowed: another measure")
        return asked(request.measure or "objective", comparing.COMPUTE), []
    chosen = request.reference or comparing.COMPUTE
    try:
        return asked(request.measure or "gap", chosen), []
    except MpiOptError as error:
        if request.reference is not None or request.measure is not None or request.target is not None:
            raise
        plain = asked("objective", chosen)  # which raises anew where it is not the reference that is at fault
        return plain, [f"no gap to the optimum is shown: {str(error).splitlines()[0]}"]


def _together(
    made: Sequence[Strand], measure: Measure, place: str, target: float | None, taken: set[str]
) -> list[Picture]:
    """Return the pictures of all runs."""
    name = measure.name
    pictures = [curves(made, measure, place, name=slug(name, taken), title=_TITLES[name], target=target)]
    if name not in ("error", "accuracy"):
        error = Measure("error", {})
        pictures.append(curves(made, error, place, name=slug("error", taken), title=_TITLES["error"]))
    pictures.append(apart(made, measure, slug("nodes", taken)))
    return pictures


def _alone(strand: Strand, measure: Measure, taken: set[str]) -> RunPart:
    """Return the pictures of the first run of a strand."""
    course = strand.courses[0]
    name = slug(course.label, taken)
    graph, why = _graph(course)
    return RunPart(
        course=course,
        others=tuple(other.label for other in strand.courses[1:]),
        pictures=(
            spread(course, measure, f"{name}-spread"),
            firing(course, f"{name}-firing"),
            timeline(course, f"{name}-timeline"),
            network(course, graph, why, f"{name}-graph"),
        ),
    )


def _graph(course: Course) -> tuple[Graph | None, str]:
    """Return the graph of a run, or why there is none."""
    job = course.job
    if job is None:
        return None, f"The run's job cannot be read: {course.trouble}"
    if job.algorithm.name not in EXCHANGES:
        return None, "There is none: all nodes take part in every sum and average."
    try:
        return graph_of(job, course.nodes), ""
    except MpiOptError as error:
        return None, f"It cannot be drawn: {error}"
