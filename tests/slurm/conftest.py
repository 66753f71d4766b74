"""One SLURM for all tests of this folder, started with the first and ended after the last."""

import os

import pytest
from support import slurm
from support.mpirun import find_launcher

JOB = """
name = "small"
seed = 3
[data]
train = "builtin:digits"
[problem]
loss = "softmax"
[algorithm]
name = "sparq-sgd"
batch = 16
step_size = 0.01
threshold = 1.0
sync_every = 2
compressor = { name = "sign-top-k", k = 20 }
consensus_rate = 0.1
[stop]
steps = 2000
[metrics]
every = 100
"""


@pytest.fixture(scope="session")
def cluster():
    """The cluster; the test is skipped where it cannot be started."""
    launcher = find_launcher()
    if launcher is None or launcher.kind not in ("mpich", "intel"):
        pytest.skip("srun --mpi=pmi2 starts MPICH's kind only: pip install '.[mpi]'")
    try:
        started = slurm.start(install=os.environ.get("CI", "").lower() not in ("", "0", "false"))
    except slurm.Missing as reason:
        pytest.skip(f"no SLURM: {reason}")
    try:
        yield started
    finally:
        started.stop()
    assert not started.processes()


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """A job of some seconds."""
    path = tmp_path_factory.mktemp("job") / "small.toml"
    path.write_text(JOB)
    return path


@pytest.fixture(scope="session")
def whole(cluster, job, tmp_path_factory):
    """The folder of that job's run, submitted and never interrupted; its SLURM job's number."""
    out = tmp_path_factory.mktemp("whole") / "run"
    number = cluster.submit(job, out)
    cluster.wait(number)
    return out, number
