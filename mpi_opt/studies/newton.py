"""LocalNewton against its rivals: rounds, bytes and simulated seconds to the same training loss.

Everything runs in lockstep, so rounds, messages and bytes are exact and the number of nodes is free. A job file gives
the data set; method, split and number of nodes vary. ``python -m mpi_opt.studies.newton JOB...`` prints Markdown.
What is found is kept in ``--out``, setting by setting, so that a broken-off or widened comparison goes on from there.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpi_opt import __version__
from mpi_opt.build import Built, build
from mpi_opt.datasets.load import Loaded
from mpi_opt.errors import EXIT_DONE, MpiOptError
from mpi_opt.job import Job
from mpi_opt.network.collectives import Solo
from mpi_opt.optimum import find_optimum
from mpi_opt.problems.base import SecondOrder
from mpi_opt.report.sameness import flat
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.scaling.profiles import parse_profile
from mpi_opt.studies.common import fill, show
from mpi_opt.studies.course import Limits, Point, follow, least
from mpi_opt.studies.kept import Course, Kept, Setting
from mpi_opt.studies.methods import ADAPTIVE, METHODS, SPLITS, TUNING_ROUNDS, Method, job_of, set_of
from mpi_opt.studies.newton_figures import draw
from mpi_opt.studies.newton_tables import TARGETS, claims, page


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is compared.

    Attributes
    ----------
    jobs : sequence of Path
    nodes : int
    splits : sequence of str
    methods : sequence of Method
    networks : sequence of str
        As `parse_profile` takes them; ``finish = "auto"`` is told of the first.
    rounds : int
        Rounds after which a method is given up.
    folder : Path or None
        Where courses are kept.
    """

    jobs: Sequence[Path]
    nodes: int = 100
    splits: Sequence[str] = SPLITS
    methods: Sequence[Method] = METHODS
    networks: Sequence[str] = ("wan", "10gbe")
    rounds: int = 120
    folder: Path | None = None

    @property
    def profiles(self) -> list[NetworkProfile]:
        """The networks."""
        return [parse_profile(text)[1] for text in self.networks]


def answer(question: Question, say: Callable[[str], None]) -> list[Kept]:
    """Return the courses of all methods in every setting; ``say`` is told of each as it is found.

    Raises
    ------
    JobError, DataError
        A job does not fit, or its data are not to be found.
    """
    return [_setting(question, path, split, say) for path in question.jobs for split in question.splits]


def _setting(question: Question, path: Path, split: str, say: Callable[[str], None]) -> Kept:
    profile = question.profiles[0]
    told = (f"latency={profile.latency!r}", f"bandwidth={profile.bandwidth!r}")
    job, name = job_of(path, ADAPTIVE, split, told), set_of(path)
    built = _build(job, question.nodes)
    folder = None if question.folder is None else question.folder / name
    best = _optimum(job, folder)
    info = built.loaded.info
    setting = Setting(
        name=name,
        nodes=question.nodes,
        split=split,
        rows=info.rows,
        features=info.features,
        stored=info.nonzeros if info.sparse else info.rows * info.features,
        optimum=best,
        smoothness=smoothness(built.timed),
    )
    conditions = {"version": __version__, "rounds": question.rounds, "networks": list(question.networks)}
    kept = Kept(setting, conditions, None if folder is None else folder / f"{question.nodes}-{split}.json")
    kept.read()
    for method in question.methods:
        if method.name not in kept.courses:
            kept.add(
                _course(
                    question,
                    kept,
                    method,
                    lambda step, method=method: _build(  # type: ignore[misc]
                        job_of(path, method, split, told, step), question.nodes, built.loaded
                    ),
                )
            )
        course = kept.courses[method.name]
        gap = max(least(course.points) - best, 0.0)
        last = course.points[-1]
        say(f"{name}, {question.nodes} nodes, {split}: {method.name}, gap {gap:.1e} in {last.rounds} rounds")
    return kept


def _course(question: Question, kept: Kept, method: Method, make: Callable[[float | None], Built]) -> Course:
    """Run a method, its step size tuned before where it has one."""
    setting, profiles = kept.setting, question.profiles
    if method.grid:
        few = Limits(rounds=TUNING_ROUNDS, every=method.every)
        ends = {
            factor: _end(follow(make(factor / setting.smoothness), profiles, few), few.rounds) for factor in method.grid
        }
        factor = min(ends, key=ends.__getitem__)
        built, note = make(factor / setting.smoothness), f"step {factor:g}/L"
    else:
        built, note = make(None), ""
        finish = built.job.algorithm.finish
        if "finish=auto" in method.settings:
            note = finish
            if (same := kept.courses.get(f"adaptive + {finish}")) is not None:
                return Course(method.name, note, same.points)
    limits = Limits(rounds=question.rounds, objective=setting.optimum + min(TARGETS), every=method.every)
    return Course(method.name, note, follow(built, profiles, limits))


def _end(points: Sequence[Point], rounds: int) -> float:
    """Return F after so many rounds; infinite where the method broke off before, or diverged."""
    last = points[-1]
    return last.objective if last.rounds >= rounds and np.isfinite(last.objective) else float(np.inf)


def _build(job: Job, nodes: int, loaded: Loaded | None = None) -> Built:
    return build(job, Solo(), nodes, range(nodes), loaded=loaded, prepared=loaded is None)


def _optimum(job: Job, folder: Path | None) -> float:
    keys = {
        key: value
        for key, value in flat(job).items()
        if key.startswith(("data.", "prepare.", "problem.")) and key != "data.partition"
    }
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return find_optimum(job, None, keys, () if folder is None else (folder,)).value


def smoothness(means: Sequence[SecondOrder]) -> float:
    """Return the largest eigenvalue of F's Hessian at 0, where that of the logistic loss is largest.

    Parameters
    ----------
    means : sequence of SecondOrder
        Every node's mean loss; F is their mean weighted by rows.
    """
    products = [problem.hvp_at(np.zeros(problem.dim)) for problem in means]
    shares = np.array([problem.rows for problem in means], dtype=float)
    shares /= shares.sum()
    v = np.ones(means[0].dim)
    for _ in range(200):
        v /= np.linalg.norm(v)
        v, before = sum(share * product(v) for share, product in zip(shares, products, strict=True)), v
    return float(v @ before)


def main(arguments: Sequence[str]) -> int:
    """Compare on the jobs named; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpi_opt.studies.newton", description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOB")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    parser.add_argument("--methods", nargs="+", choices=[each.name for each in METHODS], metavar="METHOD")
    parser.add_argument("--networks", nargs="+", metavar="NETWORK", default=["wan", "10gbe"])
    parser.add_argument("--rounds", type=int, default=120, help="rounds after which a method is given up")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep what is found there, and go on from it")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into this page instead of printing")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="put the claims, in short, into this page")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw F - F* against the seconds into this folder")
    options = parser.parse_args(arguments)
    if options.claims is not None and options.methods is not None:
        parser.error("--claims: claims are held against all methods; leave --methods out")
    try:
        question = Question(
            jobs=options.jobs,
            nodes=options.nodes,
            splits=options.splits,
            methods=[each for each in METHODS if options.methods is None or each.name in options.methods],
            networks=options.networks,
            rounds=options.rounds,
            folder=options.out,
        )
        found = answer(question, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
        tables = page(found, options.networks)
        show(tables, options.page, f"tables, {options.nodes} nodes")
        if options.claims is not None:
            fill(options.claims, "LocalNewton's claims", claims(found, "make compare-newton"))
        if options.figures is not None:
            draw(found, options.networks[0], options.figures)
    except MpiOptError as error:
        sys.stderr.write(f"mpi-opt: error: {error}\n")
        return error.exit_code
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
