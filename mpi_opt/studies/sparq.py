"""SPARQ-SGD against its rivals: bytes until the nodes' own models, and the averaged one, reach a test error.

Every run is a job file in lockstep, as ``mpi-opt simulate`` would run it, and stays as a folder that the commands
``compare``, ``report`` and ``metrics`` read. ``python -m mpi_opt.studies.sparq JOB...`` takes one job for each method,
runs what is not there yet, and prints Markdown.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from mpi_opt.errors import EXIT_DONE, EXIT_PAUSED, DataError, DivergedError, JobError, MpiOptError
from mpi_opt.execute import resume_job, simulate_job
from mpi_opt.job import Job
from mpi_opt.report.course import Course
from mpi_opt.report.reading import read_course
from mpi_opt.report.sameness import flat
from mpi_opt.studies.common import fill, show
from mpi_opt.studies.sparq_rows import Jobs, Row, rows_of
from mpi_opt.studies.sparq_tables import Run, claims, page
from mpi_opt.training import Orders

_RATE = "algorithm.consensus_rate"
_FOLDER = "data.folder"


class Paused(MpiOptError):
    """A signal stopped a run; the same command goes on."""

    exit_code = EXIT_PAUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is compared.

    Attributes
    ----------
    jobs : Jobs
    rows : sequence of Row
    nodes : int
    seeds : int
        Of the main rows; others have the first alone.
    folder : Path
        Of the runs, one folder each.
    compute : bool
        Whether runs that are not there are made; else they are left out.
    """

    jobs: Jobs
    rows: Sequence[Row]
    nodes: int = 60
    seeds: int = 3
    folder: Path = Path("runs/compare-sparq")
    compute: bool = True


def answer(question: Question, say: Callable[[str], None]) -> list[Run]:
    """Return the runs of all rows and seeds, those of the first seed first; ``say`` is told of each.

    Raises
    ------
    JobError, DataError
        A job does not fit, or its data are not to be found.
    Paused
        A signal stopped a run.
    """
    found: list[Run] = []
    for seed in range(question.seeds):
        for row in question.rows:
            if seed == 0 or row.main:
                course = _course(question, row, seed)
                if course is not None:
                    found.append(Run(row, seed, course))
                    say(f"{course.label}: {course.state}, test error {_ends(course)}")
    return found


def _ends(course: Course) -> str:
    last = {place: course.shared[f"test_error_{place}"][-1] for place in ("mean", "worst", "average")}
    return "{mean:.1%} (worst {worst:.1%}, averaged model {average:.1%})".format(**last)


def _course(question: Question, row: Row, seed: int) -> Course | None:
    """Return a run from its folder, or make it; ``None`` where it is not there and not to be made."""
    job = question.jobs.job(row, seed)
    folder = question.folder / job.name
    course = _stored(folder, job, question.nodes)
    if course is not None and course.word in ("done", "diverged"):
        return course
    if not question.compute:
        return None
    orders = Orders(out=folder, overwrite=True, progress="lines")
    with redirect_stdout(sys.stderr):
        try:
            if course is not None and course.word == "paused":
                code = resume_job(folder, orders, (), repartition=False)
            else:
                code = simulate_job(job, orders, nodes=question.nodes)
        except DivergedError as error:
            sys.stderr.write(f"{job.name}: {error}\n")
            code = EXIT_DONE
    if code == EXIT_PAUSED:
        raise Paused(f"{folder} was stopped; the same command goes on from there")
    return read_course(folder)


def _stored(folder: Path, job: Job, nodes: int) -> Course | None:
    """Return the run in a folder, if it is one of this job; its consensus rate may have been found before its start."""
    try:
        course = read_course(folder)
    except (JobError, DataError):
        return None
    if course.job is None or course.nodes != nodes or not course.rows:
        return None
    wanted, theirs = flat(job), flat(course.job)
    for key in (_FOLDER, *([_RATE] if wanted.get(_RATE) == "auto" else [])):
        wanted[key] = theirs.get(key)
    return course if wanted == theirs else None


def main(arguments: Sequence[str]) -> int:
    """Compare on the jobs given; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpi_opt.studies.sparq", description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOB", help="one job file for each method")
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the main rows (default: 3)")
    parser.add_argument(
        "--targets", nargs="+", type=float, default=[0.7, 0.3, 0.2, 0.12], metavar="E", help="test errors"
    )
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these, by the name of their folders")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of every job")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/compare-sparq"), metavar="DIR", help="folder of the runs"
    )
    parser.add_argument("--read-only", action="store_true", help="run nothing: the tables of what is there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into this page instead of printing")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="put the claims into this page")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw test error against bytes there")
    options = parser.parse_args(arguments)
    try:
        jobs = Jobs.of(options.jobs, options.set)
        question = Question(
            jobs=jobs,
            rows=rows_of(jobs, options.rows),
            nodes=options.nodes,
            seeds=options.seeds,
            folder=options.out,
            compute=not options.read_only,
        )
        found = answer(question, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
        if not found:
            raise JobError(f"{options.out}: no finished run of this comparison is there")
        tables = page(found, options.targets)
        show(tables, options.page, "tables")
        if options.claims is not None:
            fill(options.claims, "SPARQ-SGD's claims", claims(found, options.targets))
        if options.figures is not None:
            from mpi_opt.studies.sparq_figures import draw

            draw(found, options.figures)
    except MpiOptError as error:
        sys.stderr.write(f"mpi-opt: error: {error}\n")
        return error.exit_code
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
