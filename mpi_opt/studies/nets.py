"""Modules under SPARQ-SGD and its rivals: bytes until the averaged model, and every node's own, reach a test error.

Every job is run in lockstep, as ``mpi-opt simulate`` would, but for what is looked at: test errors of all nodes'
models, and nothing on training rows, of which a pass takes longer here than the steps between two looks.
``python -m mpi_opt.studies.nets JOB...`` takes one job for each method, runs what is not there yet, and prints
Markdown.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mpi_opt.build import Built, build
from mpi_opt.errors import EXIT_DONE, JobError, MpiOptError
from mpi_opt.job import Job, load_job, to_toml
from mpi_opt.metrics.files import replace_file
from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.problems.base import Problem
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.studies.common import fill, show
from mpi_opt.studies.nets_tables import Look, Trial, claims, page
from mpi_opt.threads import one_thread
from mpi_opt.types import Vector


def train(job: Job, nodes: int, say: Callable[[str], None]) -> Trial:
    """Return the trial of a job, looked at every ``metrics.every`` steps; ``say`` is told of each look.

    Raises
    ------
    JobError, DataError
        The job does not fit, has no test rows, or does not end after a number of steps.
    """
    if job.stop.steps is None:
        raise JobError("stop.steps: missing; allowed here: how many steps the run takes")
    with one_thread(dense=False):
        built = build(job, Solo(), nodes, range(nodes))
        if built.tests is None:
            raise JobError("data.test: missing; allowed here: the rows whose errors are compared")
        network, looks = Lockstep(built.neighbours(), built.codec), list[Look]()

        def inspect(step: int, states: Sequence[Any]) -> None:
            sent = sum(traffic.payload_bytes + traffic.header_bytes for traffic in network.traffic)
            looks.append(_look(built, [built.algorithm.model(state) for state in states], step, sent))
            say(f"{job.name}, seed {job.seed}: {looks[-1].told()}")

        outcome = run(
            Plan(
                network=network,
                algorithm=built.algorithm,
                nodes=built.nodes,
                problems=built.timed,
                x0=built.start,
                rules=StopRules(steps=job.stop.steps),
                evaluate_every=job.metrics.every,
                average_output=False,
                inspect=inspect,
            )
        )
    spoke = outcome.fired / outcome.syncs if outcome.syncs else 1.0
    return Trial(
        job=job.name,
        method=job.algorithm.name,
        sync_every=job.algorithm.sync_every,
        compressor=None if built.codec is None else _words(job),
        seed=job.seed,
        fired=spoke,
        diverged=outcome.diverged,
        looks=tuple(looks),
    )


def _words(job: Job) -> str:
    """Return the compressor of a job in words."""
    table = msgspec.to_builtins(job.algorithm.compressor)
    if table is None:  # d-psgd's, which is no choice
        return "identity"
    inner = table.get("inner", table)
    words = " ".join(str(inner[key]) for key in ("name", "k", "levels") if key in inner)
    return f"{words}, by tensors" if table.get("sizes") == "tensors" else words


def _look(built: Built, models: Sequence[Vector], step: int, sent: int) -> Look:
    assert built.tests is not None
    if not all(np.isfinite(model).all() for model in models):
        return Look(step=step, sent=sent, average=1.0, mean=1.0, worst=1.0)
    own = list[float]()
    for model in models:  # after a master's average all are one
        same = own and np.array_equal(model, models[0])
        own.append(own[0] if same else _error(built.tests, model))
    average = _error(built.tests, np.mean(models, axis=0))
    return Look(step=step, sent=sent, average=average, mean=float(np.mean(own)), worst=max(own))


def _error(tests: Sequence[Problem], model: Vector) -> float:
    found = [problem.figures(model) for problem in tests]
    return sum(each.wrong for each in found) / sum(each.rows for each in found)


def trials(
    jobs: Sequence[Path],
    settings: Sequence[str],
    *,
    seeds: int,
    nodes: int,
    folder: Path,
    compute: bool,
    say: Callable[[str], None],
) -> list[Trial]:
    """Return the trials of all jobs and seeds, from ``folder`` or made; those of the first seed first.

    Raises
    ------
    JobError, DataError
        A job does not fit, the folder cannot be written, or it has a trial of the same name, but other settings.
    """
    found = []
    for seed in range(seeds):
        for path in jobs:
            job = load_job(path, [*settings, f"seed={seed}"])
            place = folder / f"{job.name}-seed{seed}.json"
            trial = _stored(place, job, nodes)
            if trial is None and compute:
                if _is_trial(place):
                    raise JobError(f"{place}: a trial of other settings; allowed: another --out, or to remove it")
                trial = train(job, nodes, say)
                _store(place, job, nodes, trial)
            if trial is not None:
                found.append(trial)
    return found


def _text(job: Job, nodes: int) -> str:
    """Return what makes a run what it is: wherever the job lies."""
    kept = [line for line in to_toml(job).splitlines() if not line.startswith("folder = ")]
    return "\n".join([f"# {nodes} nodes", *kept])


def _store(place: Path, job: Job, nodes: int, trial: Trial) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, json.dumps({"job": _text(job, nodes), "trial": asdict(trial)}).encode())
    except OSError as error:
        raise JobError(f"{place}: {error.strerror}; give another --out") from None


def _is_trial(place: Path) -> bool:
    try:
        return "trial" in json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _stored(place: Path, job: Job, nodes: int) -> Trial | None:
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
        if kept["job"] != _text(job, nodes):
            return None
        looks = tuple(Look(**look) for look in kept["trial"].pop("looks"))
        return Trial(**kept["trial"], looks=looks)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def main(arguments: Sequence[str]) -> int:
    """Compare on the jobs given; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mpi_opt.studies.nets", description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOB", help="one job file for each method")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--target", type=float, default=0.03, metavar="E", help="test error (default: 0.03)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of every job")
    places = "folder of trials; refused where one of the same name and seed has other settings"
    parser.add_argument("--out", type=Path, default=Path("runs/compare-torch"), metavar="DIR", help=places)
    parser.add_argument("--read-only", action="store_true", help="run nothing: the tables of what is there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into this page instead of printing")
    parser.add_argument("--part", default="tables", metavar="NAME", help="the part of that page (default: tables)")
    parser.add_argument("--claims", type=Path, metavar="FILE", help="put the claims into this page")
    options = parser.parse_args(arguments)
    try:
        found = trials(
            options.jobs,
            options.set,
            seeds=options.seeds,
            nodes=options.nodes,
            folder=options.out,
            compute=not options.read_only,
            say=lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
        )
        if not found:
            raise JobError(f"{options.out}: no trial of these jobs with these settings is there")
        tables = page(found, options.target)
        show(tables, options.page, options.part)
        if options.claims is not None:
            fill(options.claims, "SPARQ-SGD's claims on modules", claims(found, options.target))
    except MpiOptError as error:
        sys.stderr.write(f"mpi-opt: error: {error}\n")
        return error.exit_code
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
