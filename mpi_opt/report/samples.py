"""What a finished run says in a scaling test: time a step, passes a second, shares of the phases, bytes; no warm-up."""

import math
import re
from pathlib import Path

import numpy as np

from mpi_opt.errors import DataError
from mpi_opt.job import METHODS, Job
from mpi_opt.report.course import Course
from mpi_opt.scaling.merit import PHASES, Sample
from mpi_opt.scaling.points import Point

WARM_UP = 0.1
"""Share of a run's steps that is left out at its start, where no number is given."""

_CROWDED = re.compile(r"^host .*: \d+ ranks x \d+ threads? on \d+ cores?: ", re.MULTILINE)
"""What a run's log says of a host with fewer cores than ranks x threads (`launch.thread_warning`)."""
_RESUMED = re.compile(r"^resumed from the checkpoint at step ", re.MULTILINE)


def sample_of(course: Course, point: Point, skip: int | None = None) -> tuple[Sample, str]:
    """Return the figures of a run, and a word of caution; empty where there is no reason for one.

    Looked at is the span from the first evaluation at or after ``skip`` steps to the last one, or to the last but one
    where the last holds the closing average of all models, which no step has.

    Parameters
    ----------
    course : Course
    point : Point
    skip : int, optional
        Steps of warm-up to be left out; by default a tenth of all, up to the next evaluation.

    Raises
    ------
    DataError
        The run has no two evaluations that are steps apart.
    """
    steps = course.shared["step"]
    if course.rows < 2 or steps[-1] <= steps[0]:
        raise DataError(f"{course.path}: no two evaluations with steps between them: nothing to time")
    wanted = max(1, math.ceil(WARM_UP * float(steps[-1]))) if skip is None else skip
    first, last = int(np.searchsorted(steps, wanted)), course.rows - 1
    caution = ""
    if steps[min(first, last)] >= steps[-1]:
        first = max(0, int(np.searchsorted(steps, steps[-1])) - 1)
        what = f"fewer evaluations than --skip {skip} leaves" if skip is not None else "too few evaluations"
        caution = f"{what}: the times are those from step {steps[first]} to {steps[-1]}; a smaller metrics.every helps"
    if course.job is not None and _closes(course.job) and course.nodes > 1:
        if steps[last - 1] > steps[first]:
            last -= 1
        else:
            caution = "; ".join(
                filter(None, [caution, "the bytes of the closing average are among those of the steps"])
            )
    count = int(steps[last] - steps[first])
    seconds = course.most("seconds")
    span = float(seconds[last] - seconds[first])
    if not span > 0:
        raise DataError(f"{course.path}: no time passed between steps {steps[first]} and {steps[last]}")
    own = course.own["seconds"]
    clocks = np.maximum(own[:, last] - own[:, first], np.finfo(float).tiny)
    shares = [
        float(np.mean((course.own[f"{phase}_seconds"][:, last] - course.own[f"{phase}_seconds"][:, first]) / clocks))
        for phase in PHASES
    ]
    sent = course.sent
    epochs = course.shared["epoch"]
    sample = Sample(
        ranks=point.ranks,
        repeat=point.repeat,
        steps=count,
        step=span / count,
        passes=float(epochs[last] - epochs[first]) / span,
        shares=(shares[0], shares[1], shares[2], shares[3]),
        sent=float((sent[:, last] - sent[:, first]).mean()) / count,
    )
    return sample, caution


def is_crowded(folder: Path) -> bool:
    """Return whether a run's log tells of a host with fewer cores than its ranks and their threads take."""
    return bool(_CROWDED.search(_log(folder)))


def is_resumed(folder: Path) -> bool:
    """Return whether a run's log tells that it was gone on with after a stop: its times are of several starts."""
    return bool(_RESUMED.search(_log(folder)))


def _log(folder: Path) -> str:
    try:
        return (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _closes(job: Job) -> bool:
    """Return whether the run ends with an average of all models, whose bytes its last evaluation holds."""
    return "output" in METHODS[job.algorithm.name].keys and job.algorithm.output != "local"
