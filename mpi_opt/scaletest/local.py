"""A scaling test run here: point after point, each by its launcher, those that are done passed over."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from mpi_opt import launch
from mpi_opt.errors import DataError, JobError, LaunchError
from mpi_opt.metrics.files import replace_file
from mpi_opt.network.collectives import Solo
from mpi_opt.run.claim import Claim
from mpi_opt.scaletest.collecting import ENDED, is_done
from mpi_opt.scaletest.launching import Launcher
from mpi_opt.scaletest.running import Ended, run_command
from mpi_opt.scaletest.study import Study
from mpi_opt.scaling.points import Point
from mpi_opt.submitting import own_command

NETWORK = "network.json"
"""What ``mpi-opt info --network`` found between the ranks, in the test's folder."""
OUTPUT = "output.txt"

_ASKING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_HOPELESS = frozenset({JobError.exit_code, DataError.exit_code, LaunchError.exit_code})
"""Codes that a further run of as many ranks would end with as well."""
_NETWORK_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What points are run with.

    Attributes
    ----------
    launcher : Launcher
    limit : float
        Seconds that a point may take.
    environ : mapping
        Of the processes.
    measure : bool
        Whether the network between the ranks is measured first.
    tell : callable
        Takes a line on how it goes.
    """

    launcher: Launcher
    limit: float
    environ: Mapping[str, str]
    measure: bool
    tell: Callable[[str], None]


def run_points(study: Study, means: Means) -> None:
    """Run the points that are not done; one that fails is noted in its folder and does not end the others.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C, SIGTERM or SIGHUP: the point under way was ended with all its processes.
    JobError
        Another process runs this test, or its folder cannot be written to.
    """
    study.save()
    with Claim(study.folder.absolute(), Solo()), _asked_to_end():
        before = load()  # of others: none of ours runs yet
        if means.measure:
            _measure(study, means)
        hopeless: dict[int, str] = {}
        points = study.plan.points()
        for number, point in enumerate(points, start=1):
            place, head = study.place(point), f"[{number}/{len(points)}] {point}"
            if is_done(place):
                means.tell(f"{head}: done before")
            elif point.ranks in hopeless:
                means.tell(f"{head}: not tried, as the last run on as many ranks ended with {hopeless[point.ranks]}")
            else:
                ended = _run(study, point, means, before)
                told = f"{ended.seconds:.1f} s" if ended.fine else f"failed, {ended.told()}"
                means.tell(f"{head}: {told}")
                if ended.code in _HOPELESS:
                    hopeless[point.ranks] = f"exit code {ended.code}"


def load() -> float:
    """Return how many processes wanted a core in the last minute, for each core that this one may use."""
    return os.getloadavg()[0] / len(launch.own_cores()) if hasattr(os, "getloadavg") else 0.0


def _run(study: Study, point: Point, means: Means, before: float) -> Ended:
    job = study.write_job(point)
    place = job.parent
    (place / ENDED).unlink(missing_ok=True)
    program = (*own_command(), "run", str(job), "--out", str(place), "--overwrite", "--progress", "none")
    command = means.launcher.command(point.ranks, program)
    ended = _started(command, place / OUTPUT, means.limit, means.environ)
    told = "" if ended.fine else ended.told()
    values = {"command": list(command), **asdict(ended), "told": told, "load_before": before}
    replace_file(place / ENDED, (json.dumps(values, indent=1) + "\n").encode(), durable=False)
    return ended


def _started(command: tuple[str, ...], output: Path, limit: float, environ: Mapping[str, str]) -> Ended:
    try:
        return run_command(command, output, limit, environ)
    except OSError as error:
        raise LaunchError(f"cannot start {command[0]}: {error.strerror or error}") from None


def _measure(study: Study, means: Means) -> None:
    """Measure the network between as many ranks as have a core each, once; where that fails, say so and go on."""
    place = study.folder / NETWORK
    cores = len(launch.own_cores())
    fitting = [ranks for ranks in study.plan.ranks if 2 <= ranks <= cores]
    if place.exists() or not fitting:
        return
    output = study.folder / f"network.{OUTPUT}"
    program = (*own_command(), "info", "--network", "--json", str(place))
    limit = min(means.limit, _NETWORK_SECONDS)
    ended = _started(means.launcher.command(fitting[-1], program), output, limit, means.environ)
    what = f"network between {fitting[-1]} ranks"
    means.tell(f"{what}: measured" if ended.fine else f"{what}: not measured, {ended.told()}")


@contextmanager
def _asked_to_end() -> Iterator[None]:
    """Take the signals that end a process as Ctrl-C is taken: what was started is ended first."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ASKING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
