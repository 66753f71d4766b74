"""Jobs that name a module: what they train, what they leave, what is refused."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.commands import finals, settings

from mpi_opt.cli import main
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import load_job, to_toml

JOB = """
name = "module"
[data]
train = "builtin:digits"
rows = 200
holdout = 0.3
[problem]
loss = "softmax"
module = "mlp"
module_options = { hidden = [8] }
[algorithm]
name = "choco-sgd"
batch = 8
step_size = 0.3
compressor = { name = "top-k", k = "10%" }
consensus_rate = 0.5
[stop]
steps = 30
[metrics]
every = 10
"""
OWN = """
from __future__ import annotations

from dataclasses import dataclass

from torch import nn

@dataclass
class Settings:  # whose annotations are looked up in the module that it is defined in
    width: int

def leaves():
    raise SystemExit(0)

def few():
    return nn.Linear(64, 3)

def extra(outputs):
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"seen": 3}
    return Extra(64, outputs)

def net(width, shape, outputs, flat=True):
    return nn.Sequential(nn.Linear(*shape, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, outputs))

def bare():
    return nn.Linear(64, 10)

def none():
    return 3

def fails():
    return 1 / 0

def random(outputs):
    import numpy as np
    net = nn.Linear(64, outputs)
    net.bias.data += float(np.random.default_rng().normal())
    return net
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "script.py").write_text("import sys\n\nsys.exit(0)\n")
    return tmp_path / "job.toml"


def simulate(job, out, *words, nodes=3, code=0):
    found = main(
        ["simulate", str(job), "--nodes", str(nodes), "--out", str(out), "--progress", "none", *settings(*words)]
    )
    assert found == code


NORMED = ("problem.module=cnn", "problem.module_options={ channels = [3], hidden = 8, norm = true }")
OWNED = ("problem.module=own.py:net", "problem.module_options={ width = 6 }")


@pytest.mark.torch
@pytest.mark.parametrize("words", [(), NORMED, OWNED, ("problem.loss=squared", "problem.dtype=float64")])
def test_a_model_file_is_the_module_that_was_evaluated(torch, job, tmp_path, words, capsys, monkeypatch):
    """Loaded back it is what the nodes ended with, and gives the figures that the command gives."""
    from mpi_opt.model import load_model
    from mpi_opt.torch import load_module

    out = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    simulate(job, out, *words)
    model = load_model(out / "model.h5")
    own = "own.py:net" if words == OWNED else None
    module = load_module(out / "model.h5", own)
    assert not module.training
    assert list(module.state_dict()) == list(model.state)
    named = dict(module.named_parameters())
    flat = np.concatenate([named[name].detach().numpy().reshape(-1) for name in model.module["parameters"]])
    np.testing.assert_array_equal(flat, model.weights)
    mean = finals(out, 3).mean(axis=0)  # choco-sgd's output is the average
    np.testing.assert_allclose(flat, mean, rtol=1e-6, atol=1e-7)
    extra = [] if own is None else ["--module", own]
    capsys.readouterr()
    assert main(["evaluate", str(out / "model.h5"), "builtin:digits", "--json", *extra]) == 0
    figures = json.loads(capsys.readouterr().out)
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    with torch.no_grad():
        rows = torch.from_numpy(X / 16).to(next(module.parameters()).dtype)
        z = module(rows.reshape(-1, *model.module["shape"]))
    if "problem.loss=squared" in words:
        assert figures["mse"] == pytest.approx(float(((z[:, 0].numpy() - y) ** 2).mean()), rel=1e-9)
        return
    assert figures["accuracy"] == pytest.approx(float((z.argmax(1).numpy() == y).mean()))


@pytest.mark.torch
def test_statistics_are_those_of_the_calibration_rows(torch, job, tmp_path):
    """With fewer than 512 training rows of all of them, and the same on any number of nodes."""
    from torch.nn import functional

    from mpi_opt.model import load_model
    from mpi_opt.torch import load_module

    simulate(job, tmp_path / "run", *NORMED, "data.holdout=", "data.rows=100", nodes=2)
    module = load_module(tmp_path / "run" / "model.h5")
    model = load_model(tmp_path / "run" / "model.h5")
    assert int(model.state["1.num_batches_tracked"]) == 1
    from mpi_opt.build import build
    from mpi_opt.network.collectives import Solo

    plain = load_job(job, ["data.holdout=", "data.rows=100", *NORMED])
    for nodes in (1, 2, 5):
        built = build(plain, Solo(), nodes, range(nodes))
        rows = np.concatenate([shard.features for shard in built.loaded.train])
        seen = functional.conv2d(torch.from_numpy(rows).float().reshape(-1, 1, 8, 8), module[0].weight, padding=2)
        np.testing.assert_allclose(model.state["1.running_mean"], seen.mean((0, 2, 3)).detach(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.state["1.running_var"], seen.var((0, 2, 3)).detach(), rtol=1e-4)
        state = built.module.flat.state(model.weights)
        for name, values in model.state.items():
            np.testing.assert_array_equal(state[name], values, err_msg=name)


@pytest.mark.torch
def test_the_start_is_the_modules_own_from_the_seed(torch, job, tmp_path):
    from mpi_opt.build import build
    from mpi_opt.network.collectives import Solo

    def start(seed, nodes):
        built = build(load_job(job, [f"seed={seed}"]), Solo(), nodes, range(nodes))
        assert len({id(problem.flat) for problem in [*built.problems, *built.tests]}) == 1
        return built.start

    before = torch.random.get_rng_state()
    np.testing.assert_array_equal(start(0, 2), start(0, 3))
    assert np.abs(start(0, 2) - start(1, 2)).max() > 0.1
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.torch
def test_neighbours_know_where_all_start(torch, job, tmp_path):
    """Nothing is told of the start: a threshold that is never met leaves no message and an exact average."""
    simulate(job, tmp_path / "run", 'algorithm.name="sparq-sgd"', "algorithm.threshold=1e9", "network.check=true")
    from mpi_opt.metrics.joined import read_joined

    read = read_joined(tmp_path / "run" / "metrics.h5")
    assert read.series["messages"][:, -2].max() == 0


@pytest.mark.torch
@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["problem.module=mpl"], JobError, "problem.module = 'mpl': unknown; did you mean 'mlp'"),
        (["problem.module=own.py:nett"], JobError, "no function nett in own.py; did you mean 'net'"),
        (["problem.module=gone.py:net"], JobError, "FileNotFoundError: no such file"),
        (["problem.module=no_such_package:net"], JobError, "ModuleNotFoundError: No module named 'no_such_package'"),
        (["problem.module=own.py:none", "problem.module_options="], JobError, "it returned int; allowed: a torch.nn"),
        (["problem.module=own.py:fails", "problem.module_options="], JobError, "it raised ZeroDivisionError"),
        (["problem.module=own.py:leaves", "problem.module_options="], JobError, "it raised SystemExit: 0"),
        (["problem.module=script.py:net", "problem.module_options="], JobError, "script.py: SystemExit: 0"),
        (["problem.module=own.py:few", "problem.module_options="], JobError, "3 numbers a row; needed: 10"),
        (["problem.module=own.py:extra", "problem.module_options="], JobError, "Extra has _extra_state, a dict"),
        (["problem.module=own.py:net"], JobError, "own.py:net takes width, flat: missing a required argument: 'width'"),
        (["problem.module_options={ hiden = [3] }"], JobError, "mlp takes hidden, activation, dropout: got an unexp"),
        (
            ["problem.module=cnn", 'problem.module_options={ norm = "no" }'],
            JobError,
            "norm = 'no': allowed: true, false",
        ),
        (
            ["problem.module_options={ hidden = [0] }"],
            JobError,
            "options.hidden: allowed: integers of at least 1",
        ),
        (["problem.module_options={ dropout = 1.5 }"], JobError, "dropout = 1.5: allowed: at least 0 and below 1"),
        (["problem.shape=[3, 21]"], JobError, "holds 63 numbers, but a row of builtin:digits has 64"),
        (["problem.module=own.py:bare", "problem.module_options=", "problem.shape=[8, 8]"], JobError, "Linear raised"),
        (["problem.loss=logistic"], JobError, 'problem.loss = "logistic": a module takes softmax, squared'),
        (["problem.l2=1/N"], JobError, 'l2 = "1/N": a module takes a number'),
        (["problem.device=cuda:77"], JobError, "problem.device = 'cuda:77': there are 0 CUDA devices"),
        (["problem.device=gpu"], JobError, 'problem.device = "gpu": allowed: "cpu", "cuda" or "cuda:NUMBER"'),
        (["problem.device=cpu:7"], JobError, 'problem.device = "cpu:7": allowed'),
        (["data.intercept=true"], JobError, "data.intercept: has no meaning beside problem.module"),
        (["validation.l2=[0.1, 1.0]"], JobError, "chooses l2 of linear models"),
        (['clock.network="10gbe"'], JobError, 'clock.compute = "counted": operations of a module are not known'),
        (["problem.module="], JobError, "problem.module_options: has a meaning only beside problem.module"),
        (["problem.module=resnet20", "problem.module_options=", "problem.shape=[64]"], JobError, "resnet20 takes"),
    ],
)
def test_what_is_refused_before_a_run(torch, job, words, error, said):
    from mpi_opt.build import build
    from mpi_opt.network.collectives import Solo

    with pytest.raises(error, match=said.replace("(", r"\(").replace("[", r"\[")):
        build(load_job(job, words), Solo(), 2, range(2))


@pytest.mark.parametrize("name", ["newton", "giant", "lbfgs", "admm", "local-newton", "newton-cg"])
def test_methods_that_need_curvature_are_refused_by_name(job, name):
    words = [f"algorithm.{key}=" for key in ("batch", "step_size", "compressor", "consensus_rate")]
    with pytest.raises(JobError, match=f'algorithm.name = "{name}": works on linear models, .* allowed: sparq-sgd'):
        load_job(job, [*words, f"algorithm.name={name}"])


def test_a_resolved_job_is_the_same_job(job):
    plain = load_job(job)
    assert (plain.problem.l2, plain.problem.dtype, plain.problem.device) == (0.0, "float32", "cpu")
    assert load_job(to_toml(plain)) == plain


@pytest.mark.torch
def test_a_loss_that_is_not_finite_ends_the_run(torch, job, tmp_path):
    simulate(job, tmp_path / "run", "algorithm.step_size=1e30", code=5)
    assert not (tmp_path / "run" / "model.h5").exists()


@pytest.mark.torch
def test_a_model_file_runs_no_code_unasked(torch, job, tmp_path, monkeypatch):
    from mpi_opt.torch import load_module

    simulate(job, tmp_path / "run", *OWNED)
    (tmp_path / "own.py").write_text("raise SystemExit('run unasked')")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run" / "model.h5"
    with pytest.raises(DataError, match="made by 'own.py:net', which is not run unasked; name it: --module own.py:net"):
        load_module(path)
    assert main(["model", "info", str(path)]) == 0
    with pytest.raises(DataError, match="does not fit Linear.*Missing key"):
        load_module(path, torch.nn.Linear(3, 3))
    made = load_module(
        path,
        lambda width, shape, outputs: torch.nn.Sequential(
            torch.nn.Linear(*shape, width),
            torch.nn.BatchNorm1d(width),
            torch.nn.Tanh(),
            torch.nn.Linear(width, outputs),
        ),
    )
    assert made[3].out_features == 10


@pytest.mark.torch
@pytest.mark.parametrize("anew", [False, True])
def test_another_number_of_parameters_than_in_an_old_checkpoint_is_refused(torch, job, monkeypatch, anew):
    """Those of earlier releases do not say of which tensors they are."""
    from types import SimpleNamespace

    from mpi_opt import beginning
    from mpi_opt.build import build
    from mpi_opt.network.collectives import Solo
    from mpi_opt.resuming import Mean

    built = build(load_job(job), Solo(), 1, range(1))
    for size in (built.start.size, built.start.size - 9):
        state = SimpleNamespace(x=np.zeros(size), weighted=None)
        kept = SimpleNamespace(step=3, pieces=({"state": state},), notes=(), tensors=None)
        monkeypatch.setattr(beginning, "read_kept", lambda *_, kept=kept: kept)
        monkeypatch.setattr(beginning, "mean_model", lambda *_, state=state: Mean(3, state.x, ()))
        past = SimpleNamespace(folder=None, nodes=2)
        if size == built.start.size:
            assert beginning.find_begin(built, Solo(), past, anew=anew).step == 3
        else:
            with pytest.raises(JobError, match=r"has 610 parameters, that of the checkpoint 601; allowed: the factory"):
                beginning.find_begin(built, Solo(), past, anew=anew)


def test_a_module_named_for_a_linear_model_is_refused(job, tmp_path, capsys):
    simulate(job, tmp_path / "run", "problem.module=", "problem.module_options=")
    assert main(["evaluate", str(tmp_path / "run" / "model.h5"), "builtin:digits", "--module", "mlp"]) == 3
    assert "is a linear model; a module is that of one trained with problem.module" in capsys.readouterr().err


def test_without_pytorch_it_is_said_how_to_get_it(job, tmp_path):
    """In a process that cannot import it; linear jobs and the help of all commands never try."""
    code = (
        "import sys\nfrom mpi_opt.cli import main\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        f"linear = ['problem.module=', 'problem.module_options=']\n"
        f"job = ['simulate', {str(job)!r}, '--nodes', '2', '--progress', 'none', '--out']\n"
        f"assert main([*job, {str(tmp_path / 'a')!r}, *[w for s in linear for w in ('--set', s)]]) == 0\n"
        f"code = main([*job, {str(tmp_path / 'b')!r}])\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "problem.module needs PyTorch, which is not installed: pip install 'mpi_opt[torch]'" in done.stderr
    assert "Traceback" not in done.stderr
