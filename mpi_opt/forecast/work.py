"""What a step cost in a finished run, as the step model takes it: to predict it on other networks and other nodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpi_opt.algorithms.registry import EXCHANGES
from mpi_opt.errors import JobError
from mpi_opt.report.course import Course
from mpi_opt.scaling.stepmodel import Reduced, Work


def work_of(course: Course) -> Work:
    """Return the mean step of a run's slowest node, without the waiting.

    Steps before the first evaluation after the start are left out as warm-up where there are others, and the last
    evaluation, which may have the averaged output's bytes in it. Times are those of the node that worked longest, for
    the others wait for it. Messages are those of the last node: node 0 as master hands over more in a reduction.

    Parameters
    ----------
    course : Course
        Of a run over MPI; as far as it is on disk.

    Raises
    ------
    JobError
        A lockstep run, one without two evaluations, or one whose job cannot be read: names the run.
    """
    if course.lockstep:
        raise JobError(f"{course.label} ran in lockstep: its seconds are no rank's; allowed: a run over MPI")
    if course.job is None:
        raise JobError(f"{course.label}: its job cannot be read: {course.trouble}")
    rows = course.rows
    if rows < 2:
        raise JobError(f"{course.label} has {rows} evaluations; at least 2 are needed to time the steps between them")
    first, last = (1, rows - 2) if rows >= 4 else (0, rows - 1)
    steps = int(course.shared["step"][last] - course.shared["step"][first])
    if steps <= 0:
        raise JobError(f"{course.label} took no steps between its evaluations")

    def over(name: str) -> Any:
        series = course.own[name]
        return (series[:, last] - series[:, first]).astype(float)

    compute, compress = over("compute_seconds") / steps, over("compress_seconds") / steps
    pack = np.maximum((over("seconds") - over("wait_seconds")) / steps - compute - compress, 0.0)
    node = int(np.argmax(compute + compress + pack))
    table = course.job.algorithm
    work = Work(
        nodes=course.nodes,
        compute=float(compute[node]),
        compress=float(compress[node]),
        fixed=0.0 if table.batch in (None, "full") else float(compute[node]),
        pack=float(pack[node]),
        masters=int(table.master == "dedicated"),
        posted=True,
    )
    sent = float(over("payload_bytes")[-1] + over("header_bytes")[-1])
    if table.name not in EXCHANGES:
        reduced = float(course.shared["round"][last] - course.shared["round"][first])
        reduced += float(course.shared["short_rounds"][last] - course.shared["short_rounds"][first])
        per_step = reduced / steps
        return (
            work
            if course.nodes == 1
            else replace(work, reductions=(Reduced(sent / reduced, per_step),) if reduced else ())
        )
    syncs, spoken = float(over("syncs").sum()), float(over("messages").sum())
    heard = spoken + float(over("silences").sum())
    total = float((over("payload_bytes") + over("header_bytes")).sum())
    return replace(
        work,
        message=total / spoken if spoken else 0.0,
        degree=heard / syncs if syncs else 0.0,
        firing=float(over("fired").sum()) / syncs if syncs else 0.0,
        syncs=syncs / course.nodes / steps,
        overlap=bool(table.overlap),
    )


def with_fixed(works: Sequence[Work]) -> Work:
    """Return the work of most nodes with the compute that does not shrink with rows, from runs of strong scaling.

    ``compute = fixed + rest / workers`` is fitted by least squares of relative errors, neither part negative. One run
    says nothing of it and is returned as it is. Messages are taken from it, so it should have more than one node.

    Parameters
    ----------
    works : sequence of Work
        The same job on different numbers of nodes, at least one.

    Raises
    ------
    JobError
        None are given.
    """
    if not works:
        raise JobError("no runs to fit a step's compute to")
    most = max(works, key=lambda work: work.nodes)
    if len({work.nodes for work in works}) == 1:
        return most
    from scipy.optimize import nnls

    workers = np.array([work.workers for work in works], dtype=float)
    compute = np.array([max(work.compute, 1e-12) for work in works])
    (fixed, rest), _ = nnls(np.stack([1.0 / compute, 1.0 / (workers * compute)], axis=1), np.ones(workers.size))
    fitted = float(fixed + rest / most.workers)
    return replace(most, compute=fitted, fixed=min(float(fixed), fitted))
