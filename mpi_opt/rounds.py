"""How many rounds and bytes each method needs to come within a target of the optimum: the table of ``docs/results.md``.

Everything runs in lockstep, so rounds, messages and bytes are exact and the number of nodes is free. A job file gives
the data set; method, split and number of nodes vary. ``python -m mpi_opt.rounds JOB... --nodes 16 100`` prints
Markdown.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpi_opt.algorithms.parts.line_search import Backtracking
from mpi_opt.algorithms.parts.solver import solve_symmetric
from mpi_opt.build import Built, build
from mpi_opt.errors import EXIT_DONE, MpiOptError
from mpi_opt.job import Job, load_job
from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.base import Problem
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.progress import size
from mpi_opt.run.stop import StopRules
from mpi_opt.types import Vector

METHODS: dict[str, tuple[str, ...]] = {
    "LocalNewton L=1": ("name=local-newton", "local_steps=1", "finish=none", "averaging=plain", "damping=0"),
    "LocalNewton L=3": ("name=local-newton", "local_steps=3", "finish=none", "averaging=plain", "damping=0"),
    "adaptive + newton": ("name=local-newton", "finish=newton"),
    "adaptive + giant": ("name=local-newton", "finish=giant"),
    "adaptive + newton-cg": ("name=local-newton", "finish=newton-cg"),
    "exact Newton": ("name=newton",),
    "GIANT": ("name=giant",),
    "Newton-CG": ("name=newton-cg",),
    "L-BFGS": ("name=lbfgs",),
    "ADMM": ("name=admm",),
    "gradient descent": ("name=allreduce-sgd", "batch='full'", "step_size={step}"),
    "local SGD H=5": ("name=local-sgd", "batch='full'", "sync_every=5", "step_size={step}"),
}
"""Row -> settings of ``[algorithm]``; ``{step}`` is 1/L with the smoothness L of F."""

SPLITS = ("shuffled", "by-label")
TARGETS = (1e-3, 1e-6)


@dataclass(frozen=True, slots=True)
class Reach:
    """What it took one method to come within a target; ``None`` where it did not within the rounds allowed."""

    rounds: int
    short: int
    sent: int


class Objective:
    """Evaluates F at the first node's model after every step, and keeps what had been sent by then."""

    def __init__(self, problems: Sequence[Problem], network: Lockstep) -> None:
        self._problems, self._network = problems, network
        self._rows = sum(problem.rows for problem in problems)
        self.trace: list[tuple[float, Reach]] = []

    def evaluate(self, models: Sequence[Vector], step: int) -> list[dict[str, float]]:  # noqa: ARG002 (the contract's)
        """Return one row for each node with the objective at the nodes' common model."""
        model = models[0]
        loss = sum(problem.figures(model).loss for problem in self._problems)
        objective = loss / self._rows + self._problems[0].penalty(model)
        traffic = self._network.traffic
        sent = sum(each.payload_bytes + each.header_bytes for each in traffic)
        self.trace.append((objective, Reach(traffic[0].rounds, traffic[0].short_rounds, sent)))
        unknown = dict.fromkeys(("objective_mean", "objective_worst", "test_error_average", "test_error_worst"), np.nan)
        return [{"objective_average": objective, "gradient_norm": np.inf, **unknown} for _ in models]


def optimum(whole: Built) -> float:
    """Return F* by Newton's method on all rows in one shard (damped steps, to rounding)."""
    (problem,) = whole.timed
    w = np.zeros(problem.dim)
    for _ in range(100):
        g = problem.gradient(w)
        p = solve_symmetric(problem.hessian(w), g)
        value = problem.value_along(w, p)
        lengths = Backtracking(ratio=0.5, count=40)
        a = lengths.choose([value(-a) for a in lengths.lengths], lengths.lengths, value(0.0), float(p @ g))
        w -= a * p
        if np.linalg.norm(g) < 1e-14:
            break
    return problem.value(w)


def smoothness(whole: Built) -> float:
    """Return the largest eigenvalue of the Hessian at 0, where that of both losses is largest, by power iteration."""
    (problem,) = whole.timed
    product = problem.hvp_at(np.zeros(problem.dim))
    v = np.ones(problem.dim)
    for _ in range(200):
        v /= np.linalg.norm(v)
        v, before = product(v), v
    return float(v @ before)


def trace(job: Job, nodes: int, rounds: int) -> list[tuple[float, Reach]]:
    """Run ``job`` in lockstep until so many rounds, and return F and what had been sent after each step."""
    built = build(job, Solo(), nodes, range(nodes))
    network = Lockstep(built.neighbours(), built.codec)
    objective = Objective(built.problems, network)
    run(
        Plan(
            network=network,
            algorithm=built.algorithm,
            nodes=built.nodes,
            problems=built.timed,
            x0=np.zeros(built.problems[0].dim),
            rules=StopRules(rounds=rounds),
            evaluator=objective,
            evaluate_every=1,
            average_output=False,
        )
    )
    return objective.trace


def reach(points: Sequence[tuple[float, Reach]], best: float, target: float) -> Reach | None:
    """Return what had been sent when F first came within ``target`` of ``best``."""
    return next((at for value, at in points if value - best <= target), None)


def rows(jobs: Sequence[Path], nodes: Sequence[int], rounds: int, methods: Sequence[str]) -> Iterator[str]:
    """Yield the table's lines as Markdown, as they are found."""
    head = ["set", "nodes", "split", "method"]
    for target in TARGETS:
        head += [f"rounds to {target:g}", "short", "bytes"]
    yield "| " + " | ".join([*head, "best reached"]) + " |"
    yield "|" + "---|" * (len(head) + 1)
    for path in jobs:
        whole = build(_job(path, "exact Newton", "shuffled", 1.0), Solo(), 1, [0])
        best, step = optimum(whole), 1.0 / smoothness(whole)
        for n in nodes:
            for split in SPLITS:
                for method in methods:
                    points = trace(_job(path, method, split, step), n, rounds)
                    cells = [whole.loaded.info.name, str(n), split, method]
                    for target in TARGETS:
                        cells += _cells(reach(points, best, target))
                    least = max(min(value for value, _ in points) - best, 0.0)
                    yield "| " + " | ".join([*cells, f"{least:.1e}"]) + " |"


def _cells(at: Reach | None) -> list[str]:
    return ["–", "", ""] if at is None else [str(at.rounds), str(at.short), size(at.sent)]


def _job(path: Path, method: str, split: str, step: float) -> Job:
    """Return the job of one row: the file's data and loss, the row's algorithm."""
    base = load_job(path)
    cleared = [f"algorithm.{key}=" for key in base.algorithm.__struct_fields__ if key != "name"]
    settings = [f"algorithm.{setting.format(step=step)}" for setting in METHODS[method]]
    data = [f"data.partition={split}", "data.test=", "data.holdout=", "data.intercept=false"]
    fixed = [*data, "stop.gradient_norm=", "stop.steps=100000"]
    return load_job(path, [*cleared, *settings, *fixed])


def main(arguments: Sequence[str]) -> int:
    """Print the table for the jobs named; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpi_opt.rounds", description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOB")
    parser.add_argument("--nodes", nargs="+", type=int, default=[16, 100])
    parser.add_argument("--rounds", type=int, default=120, help="rounds after which a method is given up")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args(arguments)
    try:
        for line in rows(options.jobs, options.nodes, options.rounds, options.methods):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except MpiOptError as error:
        sys.stderr.write(f"mpi-opt: error: {error}\n")
        return error.exit_code
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
