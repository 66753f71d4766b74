"""A module outlives the death of a rank (ULFM): its survivors train on, and its statistics are theirs."""

import json
import subprocess

import h5py
import numpy as np
import pytest

from mpi_opt.metrics.joined import read_joined
from mpi_opt.model import load_model

pytestmark = pytest.mark.torch

JOB = """
name = "module"
[data]
train = "builtin:digits"
rows = 300
[problem]
loss = "softmax"
module = "cnn"
module_options = { channels = [3], hidden = 8, norm = true, dropout = 0.1 }
[algorithm]
name = "sparq-sgd"
batch = 8
step_size = 0.1
sync_every = 3
momentum = 0.9
threshold = 1.0
trigger = "tensor"
compressor = { name = "blockwise", sizes = "tensors", inner = { name = "sign-top-k", k = "10%" } }
consensus_rate = 0.3
[stop]
steps = 60
[metrics]
every = 20
[network]
elastic = true
check = true
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("victim", [0, 1])
def test_a_module_goes_on(victim, ulfm, tmp_path):
    torch = subprocess.run([ulfm.python, "-c", "import torch"], capture_output=True, timeout=60)
    if torch.returncode:
        pytest.skip("the environment of the MPI with ULFM has no PyTorch")
    (tmp_path / "job.toml").write_text(JOB)
    out = tmp_path / "out"
    words = ["run", tmp_path / "job.toml", "--out", out, "--progress", "lines"]
    run = ulfm.run(3, words, tmp_path / "records", {victim: ["exchange", 7]})
    assert (run.result.code, run.result.timed_out) == (0, False), str(run.result)
    assert [each["node"] for each in json.loads((out / "metrics" / "lost.json").read_text())] == [victim]
    living = [node for node in range(3) if node != victim]
    with h5py.File(out / "metrics" / f"rank_{living[0]:05d}.h5") as file:
        assert file["final/status"].asstr()[()].startswith("done: 60 steps")
    left = [_final(out, node) for node in living]
    model = load_model(out / "model.h5")
    np.testing.assert_allclose(model.weights, np.mean(left, axis=0), rtol=1e-6, atol=1e-7)
    assert np.isfinite(model.state["1.running_var"]).all()
    joined = read_joined(out / "metrics.h5")
    assert joined.series["objective_average"][living[0], -1] < 0.9 * joined.series["objective_average"][living[0], 0]
    shares = joined.syncs["blocks_fired"][living]
    assert np.array_equal(shares > 0, joined.syncs["fired"][living] == 1)


def _final(out, node):
    with h5py.File(out / "metrics" / f"rank_{node:05d}.h5") as file:
        return file["final/model"][:]
