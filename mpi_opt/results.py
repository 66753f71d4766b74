"""What a run leaves in its folder: one metrics file for each node, the model, the joined view."""

import datetime
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import numpy as np

from mpi_opt.beginning import Begin
from mpi_opt.build import Built
from mpi_opt.errors import MpiOptError
from mpi_opt.job import Job, to_toml
from mpi_opt.metrics.attributes import run_attributes
from mpi_opt.metrics.joined import join
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.model import save_model
from mpi_opt.modelfields import room_for
from mpi_opt.network.collectives import Collectives
from mpi_opt.run.folder import clear_folder
from mpi_opt.run.plan import Outcome
from mpi_opt.simulating import in_words

HELD_FILES = 16
"""A process with more nodes than this opens their metrics files only while it writes to them."""


def open_recorders(
    built: Built,
    folder: Path,
    collectives: Collectives,
    library: str,
    command: Sequence[str],
    stack: ExitStack,
    begin: Begin,
) -> list[Recorder]:
    """Open one metrics file for each local node, on ``stack``; all processes agree that it worked.

    Raises
    ------
    MpiOptError
        A file cannot be made; on every process. What the start left in the folder is gone then, what a resumed run
        found there is not.
    """
    started = collectives.broadcast(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    job, kept, recorders, error = built.job, begin.kept, [], None
    try:
        for k, node in enumerate(built.nodes):
            i = node.index
            new = run_attributes(
                job=to_toml(job),
                name=job.name,
                seed=job.seed,
                node=i,
                nodes=node.count,
                mpi_library=library,
                threads=1,
                command=command,
                started=started,
                graph="" if built.mixing is None else built.mixing.graph.name,
                spectral_gap=np.nan if built.mixing is None else built.mixing.spectral_gap,
                consensus_rate=np.nan if built.mixing is None else float(job.algorithm.consensus_rate),
                clock=in_words(job),
            )
            path = folder / "metrics" / f"rank_{i:05d}.h5"
            average = i == 0 and built.averages
            # A resumed run's file goes on with the series that it has.
            blocks = job.algorithm.trigger == "tensor" and (kept is None or kept.earlier[k].blocks)
            recorder = Recorder(
                path,
                attributes=new if kept is None else kept.attributes[k],
                dim=built.problems[0].dim,
                average=average,
                blocks=blocks,
                earlier=None if kept is None else kept.earlier[k],
                **_sizes(len(built.nodes)),
            )
            recorders.append(stack.enter_context(recorder))
    except (MpiOptError, OSError) as failed:
        error = failed
    if any(collectives.gather(error is not None)):
        # The run did not start: what was made for it must not bar the next attempt as "an unfinished run".
        for recorder in recorders if kept is None else ():
            recorder.discard()
        collectives.check(None)  # nobody has a file open in the folder
        if collectives.rank == 0 and kept is None:
            clear_folder(folder, again=begin.again)
    collectives.check(error)
    return recorders


class _Sizes(TypedDict):
    hold: bool
    buffer_rows: int
    buffer_syncs: int
    flush_seconds: float


def _sizes(nodes: int) -> _Sizes:
    """Return how the files of ``nodes`` local nodes are kept: a thousand open ones would take 2 GB."""
    if nodes <= HELD_FILES:
        return _Sizes(hold=True, buffer_rows=256, buffer_syncs=4096, flush_seconds=2.0)
    # All files in turn take 10 ms each: a tenth of the time at most.
    return _Sizes(hold=False, buffer_rows=64, buffer_syncs=1024, flush_seconds=max(2.0, 0.1 * nodes))


def conclude(built: Built, outcome: Outcome, folder: Path, library: str) -> Exception | None:
    """Write the model, then join the metrics; return what went wrong. The model first: it is what the run was for."""
    failures: list[Exception] = []
    for write in (_write_model, lambda *_: join(folder)):
        try:
            write(built, outcome, folder, library)
        except (MpiOptError, OSError) as failed:
            failures.append(failed)
    if len(failures) > 1:
        return type(failures[0])(f"{failures[0]}; and {failures[1]}")
    return failures[0] if failures else None


def _base_of_text(job: Job) -> int:
    """Return what text is counted from for a model of a set that was never text, whose columns have no numbers."""
    base = job.data.index_base
    return 1 if base is None or base == "auto" else base


def _write_model(built: Built, outcome: Outcome, folder: Path, library: str) -> None:
    if outcome.diverged:
        return
    job, info = built.job, built.loaded.info
    weights = outcome.models[0] if outcome.average is None else outcome.average
    save_model(
        folder / "model.h5",
        weights,
        loss=job.problem.loss,
        labels=info.labels,
        features=info.features,
        intercept=job.data.intercept,
        index_base=_base_of_text(job) if info.text_base is None else info.text_base,
        l2=built.l2,
        preparation=built.preparation,
        class_weights=built.class_weights,
        validation=built.validation,
        job=to_toml(job),
        provenance={
            "data": info.name,
            "rows": info.rows,
            "nodes": built.nodes[0].count,
            "output": job.algorithm.output if built.averages or job.algorithm.output == "local" else "common",
            "steps": outcome.steps,
            "reason": outcome.reason,
            "mpi_library": library,
        },
        names=info.names if room_for(info.names) else None,
        words=None if info.labels is None else info.words,
        module=None if built.module is None else built.module.described(job.problem),
        state=None if built.module is None else built.module.flat.state(weights),
    )
