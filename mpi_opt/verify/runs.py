"""Checks of what a run leaves: that it can be gone on from, and that its figures are there, joined and readable."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from mpi_opt.errors import EXIT_DONE, MpiOptError, RankFailedError
from mpi_opt.execute import resume_job, run_job, simulate_job
from mpi_opt.job import load_job
from mpi_opt.metrics.joined import read_joined
from mpi_opt.metrics.rank_file import RankMetrics, read_rank
from mpi_opt.model import load_model
from mpi_opt.run.checkpoint import found
from mpi_opt.run.watchdog import end_in_time
from mpi_opt.training import Orders
from mpi_opt.verify import cases
from mpi_opt.verify.findings import Outcome
from mpi_opt.verify.open_file import locks, while_open
from mpi_opt.verify.setting import Setting

STEPS, KEPT, EVERY = 36, 12, 6
"""Of the run; checkpoints and evaluations come every so many."""

_JOB = f"""
name = "verify"
seed = {cases.SEED}
[data]
train = "train.txt"
partition = "contiguous"
[problem]
loss = "logistic"
l2 = {cases.L2}
[algorithm]
name = "sparq-sgd"
batch = {cases.BATCH}
step_size = 0.1
momentum = 0.5
sync_every = {cases.SYNC_EVERY}
threshold = 8.0
compressor = {{ name = "sign-top-k", k = {cases.K} }}
consensus_rate = 0.15
overlap = true
[stop]
steps = {STEPS}
[metrics]
every = {EVERY}
[checkpoint]
minutes = "never"
every = {KEPT}
[network]
reductions = "ordered"
"""
"""A message is in flight when its checkpoints are written; momentum, estimates and trigger memory are in them."""


def resume(setting: Setting) -> Outcome:
    """Run a job, run it again from the middle as if it had been killed, and compare all that the two leave."""
    if setting.shared:
        return Outcome(left_out="the ranks do not share a folder: give --dir one on a file system that all see")
    folder, n, faults = setting.folder, setting.nodes, list[str]()
    _on_first(setting, lambda: _write(folder, n))
    job = load_job(folder / "job.toml", [f"network.watchdog={setting.seconds}"])
    orders = Orders(out=folder / "whole", progress="none", command=("mpi-opt", "verify"))
    try:
        _done("run", run_job(job, orders) if setting.comm is not None else simulate_job(job, orders, nodes=n))
        setting.collectives.check(None)  # all have left the folder, their signs of life are gone
        _on_first(setting, lambda: _cut_off(folder / "whole", folder / "resumed"))
        _done("resume", resume_job(folder / "resumed", replace(orders, out=None), (), repartition=False))
    finally:
        end_in_time(0)  # the run's own limit on MPI's end, which does not come yet
    setting.collectives.check(None)  # all files are written
    for node in setting.local:
        faults += _unlike(*(read_rank(folder / run / _metrics(node)) for run in ("whole", "resumed")))
    if setting.first:
        whole, resumed = (load_model(folder / run / "model.h5").weights for run in ("whole", "resumed"))
        if whole.tobytes() != resumed.tobytes():
            faults.append("the model of the resumed run is another one")
    return Outcome(
        f"a run of {STEPS} steps resumed from a checkpoint inside it ends with the same model and figures, "
        "to the last bit",
        faults,
    )


def metrics(setting: Setting) -> Outcome:
    """Read what the run of `resume` left, and a file that is being written; try the file system's locks."""
    if setting.shared:
        return Outcome(left_out="the ranks do not share a folder: give --dir one on a file system that all see")
    folder, n, faults = setting.folder / "whole", setting.nodes, list[str]()
    if not setting.collectives.broadcast((folder / "model.h5").exists()):
        return Outcome(left_out="the run of check 'resume' came to no end")
    rows, syncs = STEPS // EVERY + 1, STEPS // cases.SYNC_EVERY
    for node in setting.local:
        read = read_rank(folder / _metrics(node))
        held = (len(read.series["step"]), len(read.syncs["step"]))
        if held != (rows, syncs) or not np.isfinite(read.series["objective_average"]).all():
            faults.append(f"node {node}'s file holds {held} rows and synchronisations, written were {(rows, syncs)}")
    if setting.first:
        joined = read_joined(folder / "metrics.h5")
        if joined.series["step"].shape != (n, rows) or (joined.series["step"] != EVERY * np.arange(rows)).any():
            faults.append(f"the joined view has steps {joined.series['step'].tolist()}")
    faults += while_open(setting)
    said, wrong = locks(setting)
    return Outcome(
        f"{n} file{'s' * (n > 1)} of {rows} rows and {syncs} synchronisations, joined; read while open; {said}",
        [*faults, *wrong],
    )


def _done(what: str, code: int) -> None:
    if code != EXIT_DONE:
        raise RankFailedError(f"'{what}' ended with code {code}")


def _on_first(setting: Setting, act: Callable[[], None]) -> None:
    """Have the first process act; what goes wrong there is everybody's."""
    error: Exception | None = None
    if setting.first:
        try:
            act()
        except (OSError, MpiOptError) as failed:
            error = failed
    setting.collectives.check(error)


def _metrics(node: int) -> str:
    return f"metrics/rank_{node:05d}.h5"


def _write(folder: Path, n: int) -> None:
    """Write the job, and the rows of all nodes one after another."""
    (folder / "job.toml").write_text(_JOB, encoding="utf-8")
    with (folder / "train.txt").open("w", encoding="utf-8") as file:
        for features, labels in cases.data(n):
            for label, row in zip(labels, features, strict=True):
                file.write(f"{label:+.0f} " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(row)) + "\n")


def _cut_off(whole: Path, resumed: Path) -> None:
    """Make of a finished run one that was killed behind the middle: no model, no view, no checkpoint of its end.

    Raises
    ------
    RankFailedError
        It has no checkpoint from its middle.
    """
    shutil.copytree(whole, resumed, ignore=shutil.ignore_patterns(".*"))
    for name in ("model.h5", "metrics.h5"):
        os.unlink(resumed / name)
    for checkpoint in found(resumed / "checkpoints"):
        if int(checkpoint.name.removeprefix("step_")) >= STEPS:
            shutil.rmtree(checkpoint)
    if not found(resumed / "checkpoints"):
        raise RankFailedError(f"a run of {STEPS} steps wrote no checkpoint before its end, asked for every {KEPT}")


def _unlike(whole: RankMetrics, resumed: RankMetrics) -> list[str]:
    """Say in which figure, those of time left out, two runs' files of a node differ first."""
    for group in ("series", "syncs"):
        mine, theirs = getattr(whole, group), getattr(resumed, group)
        for name, values in mine.items():
            if "seconds" in name:
                continue
            got = theirs[name]
            same = values.shape == got.shape and np.array_equal(values, got, equal_nan=values.dtype.kind == "f")
            if not same:
                return [f"{whole.path.name}: column {name} of {group} is another one in the resumed run"]
    if whole.model is None or resumed.model is None or whole.model.tobytes() != resumed.model.tobytes():
        return [f"{whole.path.name}: the node's last iterate is another one in the resumed run"]
    return []
