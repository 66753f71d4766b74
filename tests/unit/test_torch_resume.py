"""A run is resumed with the module that it had, and with no other."""

import json
import shutil

import numpy as np
import pytest

from mpi_opt.cli import main
from mpi_opt.problems.torch.tensors import difference

pytestmark = pytest.mark.torch

JOB = """
name = "module"
[data]
train = "builtin:digits"
rows = 60
[problem]
loss = "softmax"
module = "own.py:net"
[algorithm]
name = "choco-sgd"
batch = 8
step_size = 0.3
compressor = { name = "top-k", k = "10%" }
consensus_rate = 0.5
[stop]
steps = 20
[metrics]
every = 10
[checkpoint]
every = 10
"""
OWN = """
import torch
from torch import nn

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 4), nn.Linear(4, 64), nn.Linear(64, 10)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("factor", torch.full((2,), 0.5))
        self.shift = nn.Parameter(torch.zeros(10), requires_grad=False)

    def forward(self, x):
        z = self.norm(self.first(x)).tanh()
        return self.last(self.second(z).tanh() * self.factor[0]) + self.shift

def net():
    return Scaled()
"""


@pytest.fixture(scope="module")
def run(torch, tmp_path_factory):
    """Return the folder of a job and its run, as if killed before the last step."""
    place = tmp_path_factory.mktemp("run")
    (place / "job.toml").write_text(JOB)
    (place / "own.py").write_text(OWN)
    out = place / "out"
    assert main(["simulate", str(place / "job.toml"), "--nodes", "2", "--out", str(out), "--progress", "none"]) == 0
    shutil.copy(out / "model.h5", place / "whole.h5")
    (out / "model.h5").unlink()
    shutil.rmtree(out / "checkpoints" / "step_000000000020", ignore_errors=True)
    return place


def resume(out):
    return main(["resume", str(out), "--progress", "none"])


CHANGES = {
    "swapped": (
        ("nn.Linear(64, 4), nn.Linear(4, 64), nn", "nn.Linear(4, 64), nn.Linear(64, 4), nn"),
        ("self.first(x)", "self.second(x)"),
        ("self.second(z)", "self.first(z)"),
        "parameter 1 is first.weight (64, 4), that of the checkpoint first.weight (4, 64)",
    ),
    "renamed": (
        ("self.last", "self.head"),
        "parameter 5 is head.weight (10, 64), that of the checkpoint last.weight (10, 64)",
    ),
    "melted": (
        (", requires_grad=False", ""),
        "parameter 1 is shift (10,), that of the checkpoint first.weight (4, 64)",
    ),
    "longer": (
        ("        self.shift", "        self.slope = nn.Parameter(torch.zeros(1))\n        self.shift"),
        "parameter 1 is slope (1,), that of the checkpoint first.weight (4, 64)",
    ),
    "refrozen": (("torch.zeros(10)", "torch.ones(10)"), "the frozen parameter shift has other values than in the chec"),
    "rescaled": (("0.5))", "0.25))"), "the buffer factor has other values than in the checkpoint"),
    "reshaped": (("(2,), 0.5", "(3,), 0.5"), "factor is a buffer factor (3,), in the checkpoint a buffer factor (2,)"),
    "more": (
        ("        self.shift", "        self.register_buffer('more', torch.ones(1))\n        self.shift"),
        "the module has the buffer more (1,), that of the checkpoint has none",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_factory_that_changed_since_the_checkpoint_is_refused(run, tmp_path, capsys, name):
    *changes, said = CHANGES[name]
    text = OWN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    out = tmp_path / "out"
    shutil.copytree(run / "out", out)
    try:
        (run / "own.py").write_text(text)
        assert resume(out) == 2
    finally:
        (run / "own.py").write_text(OWN)
    told = capsys.readouterr().err
    assert said in told
    assert "allowed: the factory as it was when the run began" in told
    assert "problem.module = " in told


def test_the_same_module_goes_on_to_the_same_bits(run, tmp_path):
    """Also where its file was touched, and other numbers are drawn for what is trained."""
    from mpi_opt.model import load_model

    out = tmp_path / "out"
    shutil.copytree(run / "out", out)
    try:
        (run / "own.py").write_text(OWN.replace("return Scaled()", "torch.rand(3)\n    return Scaled()"))
        assert resume(out) == 0
    finally:
        (run / "own.py").write_text(OWN)
    whole, gone_on = (load_model(path).state for path in (run / "whole.h5", out / "model.h5"))
    for name, values in whole.items():
        np.testing.assert_array_equal(values, gone_on[name], err_msg=name)
    assert "resumed from the checkpoint at step 10" in (out / "log.txt").read_text()


def test_sizes_of_tensors_that_are_no_more_are_told_as_the_modules(run):
    """A job that was resolved holds the lengths of its module's tensors, which are looked at before the checkpoint."""
    from mpi_opt.build import build
    from mpi_opt.errors import JobError
    from mpi_opt.job import load_job, to_toml
    from mpi_opt.network.collectives import Solo

    words = ["algorithm.compressor={name='blockwise',sizes='tensors',inner={name='top-k',k='10%'}}"]
    resolved = to_toml(build(load_job(run / "job.toml", words), Solo(), 1, range(1)).job)
    try:
        (run / "own.py").write_text(OWN.replace("nn.Linear(64, 10)", "nn.Linear(64, 10, bias=False)"))
        with pytest.raises(JobError, match=r"1228, of problem.module = .*own.py:net'; a resumed run needs the factory"):
            build(load_job(resolved), Solo(), 1, range(1))
    finally:
        (run / "own.py").write_text(OWN)


def test_checkpoints_of_earlier_releases_are_gone_on_with(run, tmp_path):
    """Their manifests do not say of which tensors the module is."""
    from mpi_opt.run.checkpoint import _digest, read_manifest

    out = tmp_path / "out"
    shutil.copytree(run / "out", out)
    place = out / "checkpoints" / "step_000000000010"
    assert [each["name"] for each in read_manifest(place).tensors][:2] == ["first.weight", "first.bias"]
    content = json.loads((place / "manifest.json").read_bytes())
    del content["sha256"], content["tensors"]
    (place / "manifest.json").write_text(json.dumps({**content, "sha256": _digest(content)}))
    assert read_manifest(place).tensors is None
    assert resume(out) == 0


def test_a_mean_model_of_other_tensors_is_refused_too(run, torch):
    from types import SimpleNamespace

    from mpi_opt import beginning
    from mpi_opt.build import build
    from mpi_opt.errors import JobError
    from mpi_opt.job import load_job
    from mpi_opt.network.collectives import Solo

    past = SimpleNamespace(folder=run / "out", nodes=2)
    built = build(load_job(run / "job.toml"), Solo(), 1, range(1))
    begun = beginning.find_begin(built, Solo(), past, anew=True)
    assert (begun.step, begun.x0.size) == (10, built.start.size)
    built.module.tensors[0]["name"] = "zeroth.weight"
    with pytest.raises(JobError, match="parameter 1 is zeroth.weight .* that of the checkpoint first.weight"):
        beginning.find_begin(built, Solo(), past, anew=True)


def test_modules_of_another_length_differ_at_their_ends():
    kept = [{"kind": "parameter", "name": "a", "shape": [3]}, {"kind": "buffer", "name": "b", "shape": [2]}]
    assert difference(kept, kept) is None
    assert difference([], kept) == "parameter 1 is none, that of the checkpoint a (3,)"
    assert difference(kept[:1], kept) == "that of the checkpoint has the buffer b (2,), the module has none"
