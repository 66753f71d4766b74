"""Predicted against measured seconds a step: ``mpiexec -n 2 python -m mpi_opt.studies.prediction``.

On the ranks that are there: the network is measured as ``mpi-opt info --network`` does, each job's step is timed alone
(`mpi_opt.forecast.calibrate`), and then the job itself runs over MPI without evaluation. Calibration and run take
turns, and the medians of the repeats are compared. Prints a table in Markdown.

Measured are the mean step, by the run's clock, and the usual one: the median over steps (of methods of whole passes,
whose rounds differ, the mean). They agree where nothing else runs on the cores; the prediction is of the usual one.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from mpi_opt import launch
from mpi_opt.algorithms.base import Algorithm, Node
from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.build import Built, build
from mpi_opt.datasets.load import Loaded
from mpi_opt.forecast.calibrate import work_of_job
from mpi_opt.info import network
from mpi_opt.job import Job, load_job
from mpi_opt.network.collectives import Collectives
from mpi_opt.requests import Steps
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.scaling.cost import spoken
from mpi_opt.scaling.stepmodel import StepCost, predict_step
from mpi_opt.shards import load_shards
from mpi_opt.studies.common import table
from mpi_opt.threads import one_thread

_SGD: Mapping[str, Mapping[str, Any]] = {
    "allreduce-SGD": {"name": "allreduce-sgd"},
    "SPARQ-SGD, sign-top-k, H = 1": {"name": "sparq-sgd", "compressor": "sign-top-k", "sync_every": 1},
    "SPARQ-SGD, sign-top-k, H = 5": {"name": "sparq-sgd", "compressor": "sign-top-k", "sync_every": 5},
    "SPARQ-SGD, identity, H = 1": {"name": "sparq-sgd", "compressor": "identity", "sync_every": 1},
    "SPARQ-SGD, identity, H = 5": {"name": "sparq-sgd", "compressor": "identity", "sync_every": 5},
}
_NEWTON: Mapping[str, Mapping[str, Any]] = {
    "LocalNewton, L = 3": {"name": "local-newton", "local_steps": 3, "finish": "none"},
    "GIANT": {"name": "giant"},
}


@dataclass(frozen=True, slots=True)
class _Data:
    """A set and its loss: the lines of a job, k of sign-top-k, mini-batches, and rounds of a second-order run."""

    lines: str
    k: int
    batches: tuple[str, ...]
    rounds: int


SETS: Mapping[str, _Data] = {
    "a9a": _Data('[data]\ntrain = "a9a"\n[problem]\nloss = "logistic"\n', 12, ('"full"', "32"), 8),
    "mnist": _Data('[data]\ntrain = "mnist"\nrows = 4000\n[problem]\nloss = "softmax"\n', 100, ("32",), 3),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A job's prediction and measurement, seconds a step."""

    data: str
    method: str
    ranks: int
    predicted: StepCost
    usual: float
    mean: float

    @property
    def ratio(self) -> float:
        """Predicted over measured, of the usual step."""
        return self.predicted.total / self.usual


class _Watched:
    """An algorithm that notes when each step begins; the rest is its own."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.began: list[float] = []

    def step(self, state: Any, problem: Any, node: Node) -> Steps:
        """Take a step."""
        self.began.append(time.perf_counter())
        return self._algorithm.step(state, problem, node)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._algorithm, name)


def jobs(data: str) -> list[tuple[str, Job]]:
    """Return what is run on a set: a name for the table, and the job."""
    spec, found = SETS[data], []
    for batch in spec.batches:
        told = "full batch" if batch == '"full"' else f"batch {batch}"
        for name, keys in _SGD.items():
            found.append((f"{name}, {told}", _job(spec, {**keys, "batch": batch}, 3000)))
    found.extend((name, _job(spec, keys, spec.rounds)) for name, keys in _NEWTON.items())
    return found


def _job(spec: _Data, keys: Mapping[str, Any], steps: int) -> Job:
    lines = [f'name = "prediction"\n{spec.lines}[algorithm]\nname = "{keys["name"]}"']
    if keys["name"] not in NEWTON:
        lines.append(f"batch = {keys['batch']}\nstep_size = 0.1")
    if "compressor" in keys:
        of = f", k = {spec.k}" if keys["compressor"] == "sign-top-k" else ""
        lines.append(f'compressor = {{ name = "{keys["compressor"]}"{of} }}\nthreshold = 0.0\nconsensus_rate = 0.2')
        lines.append(f"sync_every = {keys['sync_every']}")
    lines += [
        f'{key} = "{keys[key]}"' if key == "finish" else f"{key} = {keys[key]}"
        for key in ("local_steps", "finish")
        if key in keys
    ]
    return load_job("\n".join([*lines, f"[stop]\nsteps = {steps}"]))


def measured(built: Built, collectives: Collectives, seconds: float, about: float) -> tuple[float, float]:
    """Run the job over MPI without evaluation for about so many seconds; return those of a usual and of a mean step.

    Parameters
    ----------
    built : Built
    collectives : Collectives
    seconds : float
    about : float
        What a step is expected to take.
    """
    from mpi_opt.network import mpi

    planned = built.job.stop.steps
    assert planned is not None
    sync = getattr(built.algorithm, "sync_every", 1)
    steps = min(max(int(seconds / about) // sync, 4) * sync, planned)
    watched = _Watched(built.algorithm)
    net = mpi.MpiNetwork(mpi.world(), built.neighbours()[collectives.rank], built.codec)
    plan = Plan(
        network=net,
        algorithm=cast(Algorithm, watched),
        nodes=built.nodes,
        problems=built.timed,
        x0=np.zeros(built.problems[0].dim),
        rules=StopRules(steps=steps),
        evaluate_every=10**9,
        control_every=1 if built.job.algorithm.name in NEWTON else min(10 * sync, 100),
        average_output=False,
    )
    with np.errstate(all="ignore"):
        outcome = run(plan)
    net.close()
    mean = outcome.seconds / outcome.steps
    cycles = np.diff(watched.began[::sync]) / sync
    whole = built.job.algorithm.name in NEWTON
    usual, mean = collectives.max([mean if whole else float(np.median(cycles)), mean])
    return float(usual), float(mean)


def row(data: str, method: str, built: Built, collectives: Collectives, profile: Any, repeats: int) -> Row:
    """Return the comparison of a job, of medians over ``repeats``."""
    costs, times = [], []
    for _ in range(repeats):
        work = work_of_job(built, seconds=0.15, collectives=collectives, split=False)
        costs.append(predict_step(work, profile))
        times.append(measured(built, collectives, 0.3, costs[-1].total))
    mean = StepCost(*(statistics.median(getattr(each, name) for each in costs) for name in StepCost.__slots__))
    usual, average = (statistics.median(each) for each in zip(*times, strict=True))
    return Row(data, method, collectives.size, mean, usual, average)


def page(rows: Sequence[Row]) -> str:
    """Return the table."""
    head = ["set", "method", "ranks", "compute", "compress", "pack", "network", "predicted", "usual", "ratio", "mean"]
    return table(head, [_cells(each) for each in rows])


def _cells(each: Row) -> list[str]:
    cost = each.predicted
    seconds = [cost.compute, cost.compress, cost.pack, cost.network, cost.total, each.usual]
    told = [spoken(number, "s") for number in seconds]
    return [each.data, each.method, str(each.ranks), *told, f"{each.ratio:.2f}", spoken(each.mean, "s")]


def main(arguments: Sequence[str]) -> int:
    """Run the study on the ranks that are there."""
    parser = argparse.ArgumentParser(prog="python -m mpi_opt.studies.prediction", description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=sorted(SETS), default=list(SETS), help="data sets (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="of calibration and run (default: 5)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only methods whose name holds this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args(arguments)
    launch.limit_threads(os.environ)
    collectives = launch.start_mpi(os.environ)
    n, rank = collectives.size, collectives.rank
    rows: list[Row] = []
    with one_thread():
        found = network(os.environ)
        for data in options.sets:
            loaded: Loaded | None = None
            for method, job in jobs(data):
                if options.only not in method:
                    continue
                loaded = load_shards(job, collectives, n, [rank]) if loaded is None else loaded
                built = build(job, collectives, n, [rank], loaded=loaded)
                rows.append(row(data, method, built, collectives, found.profile, options.repeats))
    if rank == 0:
        sys.stdout.write(page(rows) + "\n" + "".join(f"\ncaution: {each}\n" for each in found.cautions))
        if options.json is not None:
            values = [
                [each.data, each.method, each.ranks, each.predicted.total, each.usual, each.mean] for each in rows
            ]
            options.json.write_text(json.dumps(values))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
