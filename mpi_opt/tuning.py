"""Build what is trained; where the job leaves l2 to cross-validation, in two steps with the validation in between."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpi_opt.build import Built, build
from mpi_opt.datasets.folds import deal_folds
from mpi_opt.datasets.load import Loaded
from mpi_opt.errors import DataError, MpiOptError
from mpi_opt.job import Job, to_toml
from mpi_opt.metrics.files import replace_file
from mpi_opt.network.collectives import Collectives
from mpi_opt.scaling.cost import NetworkProfile
from mpi_opt.shards import load_shards
from mpi_opt.types import Indices
from mpi_opt.validation import Course, Trained, cross_validate

_FILE = "validation.json"


@dataclass(frozen=True, slots=True)
class Trial:
    """A validation to come.

    Attributes
    ----------
    raw : Loaded
        The data, not prepared.
    fold_of : ndarray of int64
        The fold of every training row.
    done : list of list of Trained
        The folds that an earlier attempt of this job on as many nodes has done.
    """

    raw: Loaded
    fold_of: Indices
    done: list[list[Trained]]

    def settle(self, built: Built, course: Course, folder: Path, library: str) -> Built:
        """Choose l2 and build what is trained with it.

        Parameters
        ----------
        built : Built
            Of the same data, for its resolved job and its nodes.
        course : Course
        folder : Path
            The result folder, where folds done are kept.
        library : str
            What carries the messages, as the run's attributes call it.

        Raises
        ------
        DivergedError, JobError
            On every process: a training diverged; the folder cannot be written to.
        """
        state = {**_attempt(built), "mpi_library": library, "chosen": None}

        def kept(trained: Sequence[Sequence[Trained]]) -> None:
            _write({**state, "done": trained}, folder, course.collectives)

        record = cross_validate(built, self.raw, self.fold_of, course, self.done, kept)
        local = [node.index for node in built.nodes]
        final = build(built.job, course.collectives, built.nodes[0].count, local, loaded=self.raw, l2=record["chosen"])
        for note in final.notes:
            if note not in built.notes:
                course.say(note)
        return replace(final, validation=record)


def prepare_run(
    job: Job,
    collectives: Collectives,
    nodes: int,
    local: Sequence[int],
    measure: Callable[[], NetworkProfile] | None,
    past: Path | None,
) -> tuple[Built, Trial | None]:
    """Build the objects of ``job``; all processes call this.

    Parameters
    ----------
    job, collectives, nodes, local, measure
        As for `build.build`.
    past : Path or None
        The folder of a run that is to go on: what its validation found is taken from there.

    Returns
    -------
    built : Built
        What is trained, or, with a trial, the same without preparation.
    trial : Trial or None
        What is to be settled first, where l2 is not chosen yet.

    Raises
    ------
    JobError, DataError
        As `build.build`, and where the folds cannot be made.
    """
    if job.validation is None:
        return build(job, collectives, nodes, local, measure), None
    record = None if past is None else _kept(past, collectives)
    if record is not None and record["chosen"] is not None:
        return replace(build(job, collectives, nodes, local, measure, l2=record["chosen"]), validation=record), None
    raw = load_shards(job, collectives, nodes, local)
    fold_of = deal_folds(raw, job.validation.folds, job.seed, collectives)
    # Not prepared yet: each fold prepares its rows by themselves, and the memory is theirs meanwhile.
    built = build(job, collectives, nodes, local, measure, loaded=raw, prepared=False)
    done: list[list[Trained]] = []
    if record is not None and _attempt(built).items() <= record.items():
        done = record["done"]
    return built, Trial(raw, fold_of, done)


def keep(built: Built, folder: Path, collectives: Collectives) -> None:
    """Write what validation found, if there was one, into a result folder, for a run that is resumed.

    Raises
    ------
    JobError
        On every process: the file cannot be written.
    """
    if built.validation is not None:
        _write(built.validation, folder, collectives)


def _attempt(built: Built) -> dict[str, Any]:
    """Return what folds done must have been done for: this job, on as many nodes."""
    return {"job": hashlib.sha256(to_toml(built.job).encode()).hexdigest(), "nodes": built.nodes[0].count}


def _write(record: Mapping[str, Any], folder: Path, collectives: Collectives) -> None:
    error = None
    if collectives.rank == 0:
        try:
            replace_file(folder / _FILE, json.dumps(record, indent=1).encode())
        except MpiOptError as failed:
            error = failed
    collectives.check(error)


def _kept(folder: Path, collectives: Collectives) -> Mapping[str, Any] | None:
    """Return what a run chose, or has done towards it; ``None`` where it did not come to that.

    Raises
    ------
    DataError
        On every process: the file is damaged.
    """
    record, error, place = None, None, folder / _FILE
    if collectives.rank == 0 and place.exists():
        try:
            record = json.loads(place.read_bytes())
            if record["chosen"] is None:
                record["done"] = [[Trained(*one) for one in fold] for fold in record["done"]]
            else:
                float(record["chosen"])
        except (OSError, ValueError, KeyError, TypeError) as failed:
            error = DataError(f"{place}: cannot be read ({failed}): take it away, and l2 is chosen again")
    collectives.check(error)
    found: Mapping[str, Any] | None = collectives.broadcast(record)
    return found
