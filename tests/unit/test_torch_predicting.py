"""What `predict` and `evaluate` say of a module's file: every error names it, and where in it the fault is."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from mpi_opt.cli import main

pytestmark = pytest.mark.torch

JOB = """
name = "module"
[data]
train = "builtin:digits"
rows = 60
[problem]
loss = "softmax"
module = "own.py:net"
module_options = { width = 5 }
[algorithm]
name = "d-psgd"
batch = 8
step_size = 0.3
[stop]
steps = 3
"""
OWN = """
import torch
from torch import nn

class Net(nn.Sequential):
    pass

def net(width, shape, outputs):
    return Net(nn.Linear(*shape, width), nn.Linear(width, outputs))

def wider(width, shape, outputs):
    return Net(nn.Linear(*shape, width + 1), nn.Linear(width + 1, outputs))

def renamed(size, shape, outputs):
    return Net(nn.Linear(*shape, size), nn.Linear(size, outputs))

def picky(width, shape, outputs):
    class Picky(Net):
        def forward(self, rows):
            raise ValueError("no rows like these")
    return Picky(nn.Linear(*shape, width), nn.Linear(width, outputs))

def pair(width, shape, outputs):
    class Pair(Net):
        def forward(self, rows):
            return super().forward(rows), 3
    return Pair(nn.Linear(*shape, width), nn.Linear(width, outputs))

def short(width, shape, outputs):
    class Short(Net):
        def forward(self, rows):
            return super().forward(rows)[:, :3]
    return Short(nn.Linear(*shape, width), nn.Linear(width, outputs))

def infinite(width, shape, outputs):
    class Infinite(Net):
        def forward(self, rows):
            return super().forward(rows) / 0.0
    return Infinite(nn.Linear(*shape, width), nn.Linear(width, outputs))

def noisy(width, shape, outputs):
    class Noisy(Net):
        def forward(self, rows):
            return super().forward(rows) + torch.randn(len(rows), 10)
    return Noisy(nn.Linear(*shape, width), nn.Linear(width, outputs))

def fails(width):
    return 1 / 0

def none(width):
    return None
"""


@pytest.fixture(scope="module")
def trained(torch, tmp_path_factory):
    """Return a folder with a module's model file, a linear model's, and the factories."""
    place = tmp_path_factory.mktemp("models")
    (place / "job.toml").write_text(JOB)
    (place / "own.py").write_text(OWN)
    for name, words in {
        "own": [],
        "mlp": ["--set", "problem.module=mlp", "--set", "problem.module_options={ hidden = [3] }"],
        "linear": ["--set", "problem.module=", "--set", "problem.module_options="],
    }.items():
        out = ["--out", str(place / name), "--progress", "none"]
        assert main(["simulate", str(place / "job.toml"), "--nodes", "2", *out, *words]) == 0
        shutil.copy(place / name / "model.h5", place / f"{name}.h5")
    return place


FAULTS = {
    "unasked": ("own.h5", None, "own.h5: its module is made by 'own.py:net', which is not run unasked"),
    "linear": ("linear.h5", "own.py:net", "linear.h5: is a linear model"),
    "word": ("own.h5", "nett", "own.h5: module 'nett': unknown"),
    "function": ("own.h5", "own.py:nett", "own.h5: module 'own.py:nett': there is no function nett in own.py"),
    "file": ("own.h5", "gone.py:net", "own.h5: module 'gone.py:net': {place}/gone.py: FileNotFoundError"),
    "options": (
        "own.h5",
        "own.py:renamed",
        "own.h5: module options: own.py:renamed takes size: missing a required argument",
    ),
    "raises": ("own.h5", "own.py:fails", "own.h5: module 'own.py:fails': it raised ZeroDivisionError"),
    "no module": ("own.h5", "own.py:none", "own.h5: module 'own.py:none': it returned NoneType"),
    "builtin": ("mlp.h5", "cnn", "mlp.h5: problem.shape = [64]: cnn takes [channels, height, width]"),
    "tensors": ("own.h5", "own.py:wider", "own.h5: does not fit Net: Error(s) in loading state_dict"),
    "rows": ("own.h5", "own.py:picky", "own.h5: Picky raised ValueError on inputs of shape (128, 64): no rows like"),
    "tuple": ("own.h5", "own.py:pair", "own.h5: Pair put out a tuple for 128 rows; the model has 10 numbers a row"),
    "columns": ("own.h5", "own.py:short", "own.h5: Short put out a tensor of shape (128, 3) for 128 rows"),
    "infinite": ("own.h5", "own.py:infinite", "row 1: the module's output is not finite (own.h5)"),
}

OF_THE_FILE = ("unasked", "linear", "tensors", "tuple", "columns", "infinite")
"""Faults of what is stored and what comes of it, exit code 3; the others are of what was asked for."""


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_module_names_its_file(trained, capsys, monkeypatch, command, fault):
    model, module, said = FAULTS[fault]
    monkeypatch.chdir(trained)
    code = main([command, model, "builtin:digits", *([] if module is None else ["--module", module])])
    told = capsys.readouterr()
    assert code == (3 if fault in OF_THE_FILE else 2)
    assert told.out == ""
    assert said.format(place=trained) in told.err


def test_programs_name_it_too(torch, trained, monkeypatch):
    from mpi_opt.errors import JobError
    from mpi_opt.torch import load_module

    monkeypatch.chdir(trained)
    with pytest.raises(JobError, match="^own.h5: module 'own.py:nett': there is no function"):
        load_module("own.h5", "own.py:nett")


def test_what_a_module_draws_hangs_on_its_rows_alone(torch, trained, monkeypatch):
    """So that predictions are the same on any number of ranks, each of which has other rows."""
    from mpi_opt.model import load_model
    from mpi_opt.predictor import scorer

    monkeypatch.chdir(trained)
    see, plain = (scorer(load_model("own.h5"), f"own.py:{name}") for name in ("noisy", "net"))
    rows = np.linspace(0.0, 1.0, 3 * 64).reshape(3, 64)
    before, first = torch.random.get_rng_state(), see(rows)
    assert not np.allclose(first, plain(rows))
    np.testing.assert_array_equal(see(rows), first)
    assert torch.equal(before, torch.random.get_rng_state())


def test_without_pytorch_the_file_is_named(trained):
    code = (
        "import sys\nfrom mpi_opt.cli import main\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "sys.exit(main(['predict', 'mlp.h5', 'builtin:digits']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=trained)
    assert done.returncode == 2, done.stderr
    assert "mlp.h5: its module needs PyTorch, which is not installed: pip install 'mpi_opt[torch]'" in done.stderr


def test_a_set_that_does_not_fit_names_the_file(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(trained)
    np.save(tmp_path / "wide.npy", np.ones((3, 66)))
    assert main(["predict", "mlp.h5", str(tmp_path / "wide.npy"), "--no-label"]) == 3
    assert "has 66 features (its last column is 65), mlp.h5 has 64;" in capsys.readouterr().err
