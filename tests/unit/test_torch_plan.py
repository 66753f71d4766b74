"""What `plan` says that a module takes, against what it took."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mpi_opt.cli import main
from mpi_opt.job import load_job
from mpi_opt.planning import plan_job

pytestmark = pytest.mark.torch

JOB = """
name = "module"
[data]
train = ["images.npy", "labels.npy"]
[problem]
loss = "softmax"
module = "{module}"
[algorithm]
name = "d-psgd"
batch = 16
step_size = 0.1
[stop]
steps = 3
"""
MEASURE = """
import sys
from pathlib import Path

import numpy as np
from mpi_opt.build import build
from mpi_opt.job import load_job
from mpi_opt.network.collectives import Solo

def resident(name):
    # not getrusage, whose peak a process has from the one that started it
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return 1024 * int(line.split()[1])

built = build(load_job(Path(sys.argv[1])), Solo(), 1, range(1))
(problem,) = built.problems
problem.sampled_gradient(built.start, np.arange(2))  # libraries are loaded, buffers of their own made
before = resident("VmRSS")
for _ in range(2):
    problem.sampled_gradient(built.start, np.arange(problem.rows))
print(resident("VmHWM") - before)
"""


def written(folder, module, features, rows, options=""):
    rng = np.random.default_rng(0)
    np.save(folder / "images.npy", rng.random((rows, features)))
    np.save(folder / "labels.npy", np.arange(rows) % 10)
    (folder / "job.toml").write_text(JOB.format(module=module).replace("[algorithm]", f"{options}\n[algorithm]"))
    return folder / "job.toml"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(120)
def test_activations_are_near_what_resnet20_takes(torch, tmp_path):
    """The process's peak above what it held before; PyTorch's routines take work space of their own."""
    job = written(tmp_path, "resnet20", 3072, 64)
    found = plan_job(load_job(job), nodes=1).memory
    assert found.made.rows == 64
    (said,) = found.made.activations
    command = [sys.executable, "-c", MEASURE, str(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert 0.6 < int(done.stdout) / said < 1.8
    # 269,722 parameters and gradients in float32; buffers: two statistics of 688 channels, and 19 counts of 8 bytes
    assert found.made.made == 2 * 4 * 269_722 + 4 * 2 * 688 + 19 * 8
    assert found.total.most == sum(
        part.most for part in (found.data, found.vectors, found.matrices, found.buffers, found.module)
    )


def test_an_mlps_activations_by_hand(torch, tmp_path):
    """Kept are the batch, the hidden layer after relu, log-softmax, and two numbers a row or fewer."""
    job = written(tmp_path, "mlp", 64, 200, "module_options = { hidden = [32] }")
    found = plan_job(load_job(job), nodes=2).memory.made
    assert found.rows == 100
    kept = 4 * 100 * (64 + 32 + 10)
    least = kept + 2 * 4 * 100 * 64 + 8 * 100 * 64
    assert len(found.activations) == 2
    assert all(least <= each <= least + 100 * 8 * 4 for each in found.activations)


def test_rows_are_the_largest_batch(torch, tmp_path):
    """A step's, or a piece of the pass over the shard, of which there are two for 300 rows."""
    job = written(tmp_path, "mlp", 64, 300)
    assert plan_job(load_job(job), nodes=1).memory.made.rows == 150
    large = plan_job(load_job(job, ["algorithm.batch=280"]), nodes=1).memory.made
    assert large.rows == 280
    assert plan_job(load_job(job), nodes=300).memory.made.rows == 1


def test_a_linear_model_has_no_module(torch, tmp_path):
    job = written(tmp_path, "mlp", 64, 40)
    found = plan_job(load_job(job, ["problem.module="]), nodes=2)
    assert found.memory.made is None
    assert found.memory.module.most == 0
    assert "activations" not in found.text()


def test_a_module_whose_gradient_cannot_be_taken_is_planned_without(torch, tmp_path, monkeypatch):
    """A row alone, for one, does not train batch normalisation: what is left is told, and that it is left."""
    (tmp_path / "own.py").write_text(
        "from torch import nn\n"
        "def net(shape, outputs):\n"
        "    return nn.Sequential(nn.Linear(*shape, 5), nn.BatchNorm1d(5), nn.Linear(5, outputs))\n"
    )
    job = written(tmp_path, "own.py:net", 64, 3)
    found = plan_job(load_job(job), nodes=3)
    assert found.memory.made.activations is None
    assert found.memory.module.most == found.memory.made.made > 0
    assert "activations not known: problem.module: Sequential raised ValueError" in found.text()


def test_the_command_tells_it(torch, tmp_path, capsys):
    job = written(tmp_path, "cnn", 64, 40)
    assert main(["plan", str(job), "--nodes", "2"]) == 0
    text = capsys.readouterr().out
    assert ", activations of 20 rows about " in text
    assert "of the module there is one in a process, also for all virtual nodes" in text
    assert main(["plan", str(job), "--nodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["module"]["most"] > 0
