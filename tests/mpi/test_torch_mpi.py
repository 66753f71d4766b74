"""A module with all that could come between: dropout, batch normalisation, momentum; over MPI as in lockstep."""

import json
from pathlib import Path

import pytest
from support.resumable import QUIET, same_runs, simulated

from mpi_opt.model import load_model

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

N = 3
JOB = """
name = "module"
seed = 5
[data]
train = "builtin:digits"
holdout = 0.5
rows = 250
partition = { name = "dirichlet", alpha = 0.5 }
[problem]
loss = "softmax"
module = "cnn"
module_options = { channels = [4], hidden = 16, norm = true, dropout = 0.3 }
l2 = 0.001
[algorithm]
name = "sparq-sgd"
batch = 8
momentum = 0.9
step_size = { schedule = "step", initial = 0.1, factor = 0.1, milestones = [20], warm_up = 5 }
sync_every = 3
threshold = 1.0
compressor = { name = "sign-top-k", k = "5%" }
consensus_rate = 0.3
[stop]
steps = 33
[metrics]
every = 11
[checkpoint]
minutes = "never"
every = 12
[network]
check = true
reductions = "ordered"
"""


def test_interrupted_over_mpi_ends_as_uninterrupted_in_lockstep(mpirun, tmp_path):
    from support import interrupted

    job, out = tmp_path / "module.toml", str(tmp_path / "mpi")
    job.write_text(JOB)
    whole = simulated(job, tmp_path / "whole", N, "checkpoint.every=")
    orders = tmp_path / "orders.json"
    for order in (
        {"argv": ["run", str(job), "--out", out, *QUIET], "at": 16, "ranks": [1]},
        {"argv": ["resume", out, *QUIET]},
    ):
        orders.write_text(json.dumps([order]))
        mpirun(N, [interrupted.__file__, orders], timeout=200).check()
    same_runs(whole, tmp_path / "mpi", N, besides=("control_bytes",))
    one, other = (load_model(folder / "model.h5") for folder in (whole, tmp_path / "mpi"))
    assert one.state.keys() == other.state.keys()
    for name, values in one.state.items():
        assert values.tobytes() == other.state[name].tobytes(), name
    assert (one.module, one.labels) == (other.module, other.labels)


def test_what_one_rank_cannot_make_ends_all(mpirun, tmp_path):
    """A factory that fails on one rank only, and two that draw apart from PyTorch's generator, one what is frozen."""
    from support import interrupted

    (tmp_path / "own.py").write_text(
        "import os\nfrom mpi4py import MPI\nfrom torch import nn\n"
        "def odd(outputs):\n"
        "    if MPI.COMM_WORLD.rank == 1:\n        raise OSError('no such disk')\n"
        "    return nn.Linear(64, outputs)\n"
        "def apart(outputs):\n"
        "    net = nn.Linear(64, outputs)\n    net.bias.data += MPI.COMM_WORLD.rank\n    return net\n"
        "def frozen(outputs):\n"
        "    net = apart(outputs)\n    net.bias.requires_grad = False\n    return net\n"
    )
    job = tmp_path / "module.toml"
    job.write_text(JOB)
    commands = []
    for name in ("odd", "apart", "frozen"):
        words = [f"problem.module=own.py:{name}", "problem.module_options="]
        sets = [part for word in words for part in ("--set", word)]
        commands.append(["run", str(job), "--out", str(tmp_path / name), *QUIET, *sets])
    orders = tmp_path / "commands.json"
    orders.write_text(json.dumps(commands))
    result = mpirun(2, [Path(interrupted.__file__).with_name("several.py"), orders], timeout=200).check()
    assert result.logs[0].count("exit code 2") == 3, result.logs
    assert "it raised OSError: no such disk" in result.logs[0] + result.logs[1]
    assert result.logs[0].count("its parameters or buffers differ between processes 0 and 1") == 2
