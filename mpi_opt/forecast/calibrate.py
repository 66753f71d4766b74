"""A job's own steps timed on this rank's rows alone, before a run: what a step costs besides the network.

The method's generator runs as it does in a run; what it asks of the network is answered at once from what it sends.
Each message is packed and read back as often as there are neighbours, so that all is timed but the way. The model
moves otherwise than among other nodes, which changes what a step computes only where a method looks at its progress:
the iterations of inner solvers and line searches, and when a trigger fires.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from mpi_opt.algorithms.registry import NEWTON
from mpi_opt.build import Built
from mpi_opt.datasets.shard import Shard
from mpi_opt.errors import JobError
from mpi_opt.network.collectives import Collectives, Solo
from mpi_opt.network.echo import Echo
from mpi_opt.objectives import make_objectives
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.run.timing import Phases, timed
from mpi_opt.scaling.stepmodel import Reduced, Work

_LEAST_CYCLES = 3
_SLOWEST = 8.0
"""Times the seconds asked for that slow steps may take, until they were seen `_LEAST_CYCLES` times."""

_THIN = 0.25
"""Share of the rows that a second timing takes, to tell compute that goes with the rows from compute that does not."""


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Seconds of the steps from one synchronisation to the next, in all, and of it by phase."""

    total: float
    compute: float
    compress: float
    unpack: float


def work_of_job(
    built: Built,
    *,
    seconds: float = 0.3,
    collectives: Collectives | None = None,
    firing: float | None = None,
    split: bool = True,
) -> Work:
    """Return what a step of the job costs on this process's first node with rows, timed; no run is changed.

    Collective where ``collectives`` are given: all ranks time at once, as they will run, and the slowest counts.

    Parameters
    ----------
    built : Built
    seconds : float
        How long to time; steps that take longer than a third of it are timed a few times all the same.
    collectives : Collectives, optional
        Of the ranks; by default this process stands for all.
    firing : float, optional
        Share of synchronisations at which a node speaks; by default as seen in the timing.
    split : bool
        Time a quarter of the rows too, to find the compute that does not shrink with them (`Work.fixed`). Steps of
        mini-batches need none: all of theirs stays.

    Raises
    ------
    JobError
        The method takes no step from zero.
    """
    collectives = Solo() if collectives is None else collectives
    collectives.max([0.0])  # together
    work = _timed_work(built, seconds, firing)
    if built.algorithm.batch is not None:
        work = replace(work, fixed=work.compute)
    elif split and built.problems[_first(built)].rows >= 8:
        thin = _timed_work(_thinned(built), seconds / 2, firing)
        fixed = (thin.compute - _THIN * work.compute) / (1.0 - _THIN)
        work = replace(work, fixed=float(np.clip(fixed, 0.0, work.compute)))
    own = np.array([work.compute, work.compress, work.fixed, work.pack, work.unpack, work.degree])
    compute, compress, fixed, pack, unpack, degree = (float(each) for each in collectives.max(own))
    return replace(work, compute=compute, compress=compress, fixed=fixed, pack=pack, unpack=unpack, degree=degree)


def _first(built: Built) -> int:
    """Return which of this process's nodes is timed: the first that holds rows, which a dedicated master does not."""
    return next((k for k, problem in enumerate(built.problems) if problem.rows), 0)


def _thinned(built: Built) -> Built:
    """Return the same job with the first quarter of this process's rows."""
    shards = []
    for shard in built.loaded.train:
        kept = slice(max(int(_THIN * shard.rows.size), 1))
        weights = None if shard.weights is None else shard.weights[kept]
        shards.append(Shard(shard.features[kept], shard.labels[kept], shard.rows[kept], weights))
    loaded = replace(built.loaded, train=tuple(shards))
    n, module = built.nodes[0].count, built.module
    problems, means, _ = make_objectives(built.job, loaded, built.class_weights, built.l2, n, module)
    seen = [timed(problem, phases) for problem, phases in zip(means, built.phases, strict=True)]
    return replace(built, loaded=loaded, problems=problems, timed=seen)


def _timed_work(built: Built, seconds: float, firing: float | None) -> Work:
    """Return the work of this process's first node with rows alone."""
    first = _first(built)
    node, phases = built.nodes[first], built.phases[first]
    echo = Echo(built.codec, built.neighbours()[node.index], node.index, node.count, phases)
    kept = astuple(phases)
    try:
        cycles, steps = _cycles(built, echo, seconds)
    finally:
        for name, value in zip(Phases.__slots__, kept, strict=True):
            setattr(phases, name, value)
    degree, sync = len(echo.neighbours), getattr(built.algorithm, "sync_every", 1)
    rate = 1.0
    if built.codec is not None:
        rate = echo.spoken / (echo.spoken + echo.silent) if firing is None else firing
    mean = _mean(cycles, None if built.codec is None else rate)
    pack = max(mean.total - mean.compute - mean.compress - mean.unpack, 0.0)
    return Work(
        nodes=node.count,
        compute=mean.compute / sync,
        compress=mean.compress / sync,
        pack=pack / sync,
        unpack=mean.unpack / (degree * rate) if degree and rate else 0.0,
        message=echo.nbytes / max(echo.spoken, 1),
        degree=degree,
        firing=rate,
        syncs=1.0 / sync if built.codec is not None else 0.0,
        overlap=bool(getattr(built.algorithm, "overlap", False)),
        reductions=tuple(Reduced(nbytes, count / steps) for nbytes, count in sorted(echo.reductions.items())),
        masters=int(built.job.algorithm.master == "dedicated"),
    )


def _cycles(built: Built, echo: Echo, seconds: float) -> tuple[dict[int, list[_Cycle]], int]:
    """Return the timed cycles of steps by kind, and how many steps were taken.

    The kind is whether the node spoke; for methods of whole passes, whose iterations differ, the place in the course.
    """
    sync, by_place = getattr(built.algorithm, "sync_every", 1), built.job.algorithm.name in NEWTON
    found: defaultdict[int, list[_Cycle]] = defaultdict(list)
    plan = _plan(built, echo)
    steps = cycles = 0
    pace, began = seconds, time.perf_counter()
    # The pace is not known before some steps were taken: a few first, then as many as there is time for.
    for part in range(10**6):
        planned = 2 * sync if not part else max(int(seconds / 3 / pace) // sync, 1) * sync
        longest = min(each for each in (built.job.stop.steps, built.job.stop.rounds, planned) if each is not None)
        echo.marks.clear()
        run(replace(plan, rules=StopRules(steps=max(longest, sync))))
        marks = echo.marks
        for place, (first, last) in enumerate(zip(marks[:-sync:sync], marks[sync::sync], strict=False)):
            if part or by_place:  # the first ones fill the caches
                spoken = int(last.spoken > first.spoken)
                found[place if by_place else spoken].append(
                    _Cycle(
                        last.time - first.time,
                        last.compute - first.compute,
                        last.compress - first.compress,
                        last.unpack - first.unpack,
                    )
                )
            cycles += 1
        steps += len(marks) - 1
        now = time.perf_counter()
        pace = (marks[-1].time - marks[0].time) / max(len(marks) - 1, 1)
        if not found and part:
            raise JobError(f"{built.job.name}: the method takes no step that could be timed")
        if found and now - began > (seconds if part and cycles >= _LEAST_CYCLES else _SLOWEST * seconds):
            break
    return dict(found), steps


def _plan(built: Built, echo: Echo) -> Plan:
    """Return the run of this process's first node with rows among echoes."""
    first = _first(built)
    return Plan(
        network=echo,
        algorithm=built.algorithm,
        nodes=built.nodes[first : first + 1],
        problems=built.timed[first : first + 1],
        x0=built.start,
        rules=StopRules(),
        evaluate_every=10**9,
        control_every=100,
        average_output=False,
    )


def _mean(cycles: dict[int, list[_Cycle]], firing: float | None) -> _Cycle:
    """Return the mean over kinds of each kind's median, by the firing rate where kinds are silence and speech."""
    middle = {kind: _median(each) for kind, each in cycles.items()}
    if firing is None or len(middle) == 1:
        weights = {kind: 1.0 / len(middle) for kind in middle}
    else:
        weights = {0: 1.0 - firing, 1: firing}
    summed = np.sum([weights[kind] * np.array(astuple(each)) for kind, each in middle.items()], axis=0)
    return _Cycle(*(float(each) for each in summed))


def _median(cycles: Sequence[_Cycle]) -> _Cycle:
    """Return the cycle of median length, its phases the medians."""
    columns = zip(*(astuple(each) for each in cycles), strict=True)
    return _Cycle(*(float(statistics.median(column)) for column in columns))
