"""Jobs that are run on an emulated network, and what their runs leave: figures on disk, and traffic at the switch."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support.mpirun import Result
from support.netlab import FIRST, Lab

from mpi_opt.report.course import Course
from mpi_opt.report.reading import read_course

SPARQ = """
[graph]
name = "ring"
[algorithm]
name = "sparq-sgd"
batch = "full"
step_size = 2.0
sync_every = 5
threshold = 25.0
compressor = { name = "sign-top-k", k = 60 }
consensus_rate = 0.4
"""
HEAVY = SPARQ.replace("sync_every = 5", "sync_every = 12")
"""For many rows: about as much to compute between two exchanges as an exchange takes."""
D_PSGD = """
[graph]
name = "ring"
[algorithm]
name = "d-psgd"
batch = "full"
step_size = 2.0
"""
RACE_SPARQ = """
[graph]
name = "ring"
[algorithm]
name = "sparq-sgd"
batch = "full"
step_size = 1.0
sync_every = 5
threshold = 0.02
compressor = { name = "sign-top-k", k = 12 }
consensus_rate = "auto"
"""
RACE_D_PSGD = D_PSGD.replace("2.0", "1.0")
LOCAL_NEWTON = """
[algorithm]
name = "local-newton"
local_steps = 3
finish = "none"
"""
SLOW_NEWTON = LOCAL_NEWTON + "damping = 0.3\n"
"""So that it goes on for some dozen rounds."""
GIANT = """
[algorithm]
name = "giant"
"""


@dataclass(frozen=True)
class Ran:
    """A run, and what the switch saw meanwhile: int64 ``(n, n)``, [sender, receiver]."""

    job: Path
    course: Course
    result: Result
    bytes: np.ndarray
    stream: np.ndarray
    dropped: int

    @property
    def steps(self) -> int:
        """How many it took."""
        return int(self.course.shared["step"][-1])

    def total(self, *names: str) -> np.ndarray:
        """Return running totals at the end, added up, one a node."""
        return sum(self.course.own[name][:, -1] for name in names)


def seconds_a_step(long: Ran, short: Ran) -> float:
    """Return the seconds of a step, the mean over nodes, without what begins and ends a run."""
    clocks = long.total("seconds") - short.total("seconds")
    return float(clocks.mean()) / (long.steps - short.steps)


def run(lab: Lab, job: Path, out: Path, *settings: str, timeout: float = 60.0) -> Ran:
    """Run a job on every host of a lab; ``settings`` are words such as ``stop.steps=100``."""
    words = [word for setting in settings for word in ("--set", setting)]
    before = lab.counts()
    result = lab.mpirun(["mpi-opt", "run", job, "--out", out, *words], timeout=timeout).check()
    after = lab.counts()
    moved = {name: after[name] - before[name] for name in after}
    return Ran(job, read_course(out), result, moved["bytes"], moved["payload"], int(moved["dropped"]))


def predicted(job: Path, network: Path | None) -> float:
    """Return what the model says of a step on four nodes: one node's own work, and the network as measured, or none.

    The work is timed in a process that comes before others as the ranks do, and so has the cores that they have.
    """
    words = [
        "sh",
        "-c",
        FIRST,
        sys.executable,
        "-P",
        "-m",
        "netlab.predicting",
        job,
        "-" if network is None else network,
    ]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        words, env=environment, start_new_session=True, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def write(folder: Path, name: str, method: str, *, steps: int, every: int, rows: int, features: int, most: int) -> Path:
    """Write a job on generated rows, of which ``most`` entries each are not zero; return its path."""
    data = folder / f"rows{rows}x{features}.txt"
    if not data.exists():
        _write_rows(data, rows, features, most)
    job = folder / f"{name}.toml"
    job.write_text(f"""
name = "{name}"
[data]
train = "{data.name}"
features = {features}
[problem]
loss = "logistic"
l2 = 1e-3
{method}
[stop]
steps = {steps}
[metrics]
every = {every}
""")
    return job


def _write_rows(path: Path, rows: int, features: int, most: int) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=features)
    lines = []
    for _ in range(rows):
        columns = np.sort(rng.choice(features, most, replace=False))
        values = rng.normal(size=most).round(2)
        label = 1 if values @ truth[columns] + rng.normal() > 0 else -1
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in zip(columns, values, strict=True)))
    path.write_text("\n".join(lines) + "\n")
