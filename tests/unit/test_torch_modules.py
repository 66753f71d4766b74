"""Modules that keep, change or hide something: their numbers are right, or they are refused by name."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

from mpi_opt.cli import main  # noqa: E402
from mpi_opt.errors import DataError, JobError  # noqa: E402
from mpi_opt.problems.torch.flat import FlatModule  # noqa: E402
from mpi_opt.problems.torch.problem import TorchProblem  # noqa: E402

pytestmark = pytest.mark.torch

rng = np.random.default_rng(7)
X, y = rng.normal(size=(40, 6)), rng.integers(0, 3, 40)


class Calls(nn.Module):
    """A linear module that does something as it is called."""

    def __init__(self, act):
        super().__init__()
        self.inner, self.act = nn.Linear(6, 3), act
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        return self.act(self, x)


def problem_of(module, **words):
    return TorchProblem(FlatModule(module, dtype="float64"), "softmax", X, y, **words)


@pytest.mark.parametrize("old", [False, True], ids=["parametrization", "hook"])
def test_spectral_normalisation_far_from_where_it_was_made(old):
    """The weight at any point has norm one there, in evaluation, in training, and in what a model file gets."""
    torch.manual_seed(0)
    wrap = nn.utils.spectral_norm if old else parametrizations.spectral_norm
    net = nn.Sequential(wrap(nn.Linear(6, 5)), nn.Linear(5, 3))
    problem = problem_of(net)
    x = np.random.default_rng(1).normal(size=problem.dim)
    first = problem.figures(x), problem.sampled_gradient(x, np.arange(9))
    (block,) = (b for b in problem.blocks if b.shape == (5, 6))
    weight = x[block.start : block.start + block.size].reshape(block.shape)
    sigma = np.linalg.norm(weight, 2)
    plain = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)).double()
    named = {b.name: torch.tensor(x[b.start : b.start + b.size].reshape(b.shape)) for b in problem.blocks}
    plain.load_state_dict(
        {"0.weight": torch.tensor(weight / sigma), **{n: named[n] for n in ("0.bias", "1.weight", "1.bias")}}
    )
    with torch.no_grad():
        losses = nn.functional.cross_entropy(plain(torch.tensor(X)), torch.tensor(y), reduction="sum")
    assert first[0].loss == pytest.approx(float(losses), rel=1e-3)  # fifteen iterations find the norm so well
    state = problem.flat.state(x)
    u, v = (state[next(k for k in state if k.endswith(end))] for end in ("_u", "_v"))
    assert u @ weight @ v == pytest.approx(sigma, rel=1e-3)
    problem.gradient(problem.start)
    assert problem.figures(x) == first[0]
    np.testing.assert_array_equal(problem.sampled_gradient(x, np.arange(9)), first[1])


def test_buffers_in_whose_place_others_are_put_are_set_back():
    def act(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + x.mean(0).detach()
            self.seen = x.sum()
        return self.inner(x - self.mean) + (0 if self.seen is None else 0 * self.seen)

    module = Calls(act)
    module.register_buffer("seen", None)
    problem = problem_of(module)
    figures, first = problem.figures(problem.start), problem.sampled_gradient(problem.start, np.arange(5))
    np.testing.assert_array_equal(problem.sampled_gradient(problem.start, np.arange(5)), first)
    assert problem.figures(problem.start) == figures
    state = problem.flat.state(problem.start)
    assert "seen" not in state
    assert not state["mean"].any()


def shrinks(self, x):
    self.inner.weight.data *= 0.9
    return self.inner(x)


def shrinks_in_training(self, x):
    return shrinks(self, x) if self.training else self.inner(x)


def adds(self, x):
    if not hasattr(self, "late"):
        self.late = nn.Linear(3, 3).double()
    return self.late(self.inner(x))


def replaces(self, x):
    self.inner = nn.Linear(6, 3).double()
    return self.inner(x)


def freezes(self, x):
    self.inner.bias.requires_grad_(False)
    return self.inner(x)


def forgets(self, x):
    self.zero_grad()
    return self.inner(x)


def pairs(self, x):
    return (self.inner(x), x) if self.training else self.inner(x)


def loses_a_row(self, x):
    return self.inner(x)[1:] if len(x) > 1 else self.inner(x)


def cuts(self, x):
    return self.inner(x)[:, :2] if self.training else self.inner(x)


def leaves(self, x):
    if self.training:
        raise SystemExit(0)
    return self.inner(x)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (shrinks, "changed its parameters as it was called: inner.weight has other values; allowed"),
        (shrinks_in_training, "changed its parameters as it was called: inner.weight has other values"),
        (adds, "changed its parameters as it was called: late.weight was made"),
        (replaces, "changed its parameters as it was called: inner.weight is another tensor"),
        (freezes, "changed its parameters as it was called: inner.bias is gone or no longer takes a gradient"),
        (forgets, "took the gradient of inner.weight away as it was called, as zero_grad does; allowed"),
        (pairs, r"training, on inputs of shape \(40, 6\) is tuple; allowed: .* of shape \(40, 3\)"),
        (loses_a_row, r"is torch.float64 of shape \(39, 3\); allowed: .* of shape \(40, 3\)"),
        (cuts, r"training, on inputs of shape \(40, 6\) is torch.float64 of shape \(40, 2\)"),
        (leaves, r"raised SystemExit on inputs of shape \(40, 6\): 0"),
    ],
)
def test_what_a_forward_may_not_do(act, said):
    with pytest.raises(JobError, match=said):
        problem_of(Calls(act)).gradient(np.ones(21))


def test_an_output_lost_in_evaluation_is_told_too():
    problem = problem_of(Calls(lambda self, x: self.inner(x)[:1]))
    with pytest.raises(JobError, match=r"evaluating, on inputs of shape \(40, 6\) is .* \(1, 3\)"):
        problem.value(problem.start)


def test_tensors_that_a_model_file_cannot_hold():
    sparse = nn.Linear(6, 3)
    sparse.register_buffer("graph", torch.eye(3).to_sparse())
    flat = FlatModule(sparse)
    with pytest.raises(JobError, match=r"has graph, a torch.float32 tensor, torch.sparse_coo; allowed: dense"):
        flat.state(flat.start)

    class Mute(nn.Linear):
        def state_dict(self, *_, **__):
            raise ValueError("not this one")

    flat = FlatModule(Mute(6, 3))
    with pytest.raises(JobError, match="the state dict of Mute raised ValueError: not this one"):
        flat.state(flat.start)


def test_starts_that_are_not_finite_are_refused():
    net = nn.Linear(6, 3)
    net.bias.data[1] = torch.nan
    with pytest.raises(JobError, match=r"bias of Linear has values that are not finite; allowed"):
        FlatModule(net)


def test_a_shape_of_another_size_than_a_row_is_refused():
    with pytest.raises(ValueError, match=r"shape is \(3,\), of 3 numbers; a row has 6"):
        TorchProblem(FlatModule(nn.Linear(3, 3)), "softmax", X, y, shape=(3,))


@pytest.mark.parametrize("kind", [torch.uint16, torch.uint64, torch.float16, torch.int8])
def test_labels_of_any_real_type(kind):
    problem, rows = (
        problem_of(nn.Linear(6, 3)),
        torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y).to(kind)),
    )
    other = TorchProblem(problem.flat, "softmax", rows)
    assert other.value(problem.start) == problem.value(problem.start)


def test_tensors_that_numpy_has_not():
    """Of half the precision, with a gradient, sparse: the same rows as dense ones."""
    flat, values, classes = FlatModule(nn.Linear(6, 3)), torch.tensor(X).bfloat16(), torch.tensor(y)
    plain = TorchProblem(flat, "softmax", values.double().numpy(), y)
    for features in (values, values.double().requires_grad_(), values.double().to_sparse()):
        assert TorchProblem(flat, "softmax", features, classes).value(flat.start) == plain.value(flat.start)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_labels_of_a_data_set_that_are_not_finite(value):
    rows = torch.utils.data.TensorDataset(torch.tensor(X), torch.full((40,), value))
    with pytest.raises(DataError, match="loss squared: found (nan|inf) in row 0; needed: finite numbers"):
        TorchProblem(FlatModule(nn.Linear(6, 1)), "squared", rows)


def test_what_is_no_real_number_is_refused():
    flat = FlatModule(nn.Linear(6, 3))
    with pytest.raises(ValueError, match="found complex128; needed: real numbers"):
        TorchProblem(flat, "softmax", X * 1j, y)
    with pytest.raises(ValueError, match="found <U1; needed: real numbers"):
        TorchProblem(flat, "softmax", X, np.full(40, "a"))
    with pytest.raises(ValueError, match="is torch.complex128, its label torch.int64; needed: real numbers"):
        TorchProblem(flat, "softmax", torch.utils.data.TensorDataset(torch.tensor(X * 1j), torch.tensor(y)))
    for weight in (np.nan, -1.0):
        with pytest.raises(ValueError, match="row weights: needed are finite numbers >= 0"):
            TorchProblem(flat, "softmax", X, y, row_weights=np.full(40, weight))


OWN = """
import torch
from torch import nn

class Fourier(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.waves = torch.randn(64, 24) / 3  # neither a parameter nor a buffer
        self.register_buffer("phases", torch.rand(24), persistent=False)
        self.inner = nn.Linear(24, outputs)
    def forward(self, x):
        return self.inner(torch.cos(x @ self.waves + self.phases))

def fourier(outputs):
    return Fourier(outputs)

def spread(outputs):
    net = nn.Linear(64, outputs)
    net.weight = nn.Parameter(torch.zeros(1, 64).expand(outputs, 64))
    net.register_buffer("one", torch.ones(1).expand(4))
    return net
"""
JOB = """
name = "own"
seed = 5
[data]
train = "builtin:digits"
rows = 120
[problem]
loss = "softmax"
module = "own.py:NAME"
[algorithm]
name = "allreduce-sgd"
batch = 8
step_size = 0.2
[stop]
steps = 8
"""


@pytest.mark.parametrize("name", ["fourier", "spread"])
def test_a_model_file_gives_back_what_was_trained(name, tmp_path, monkeypatch):
    """Also what a factory draws beside the state dict, and tensors whose entries were one place in memory."""
    from mpi_opt.build import build
    from mpi_opt.job import load_job
    from mpi_opt.network.collectives import Solo
    from mpi_opt.torch import load_module

    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "job.toml").write_text(JOB.replace("NAME", name))
    assert main(["simulate", "job.toml", "--nodes", "2", "--out", "run", "--progress", "none"]) == 0
    loaded = load_module("run/model.h5", f"own.py:{name}")
    flat = build(load_job(tmp_path / "job.toml", []), Solo(), 1, range(1)).module.flat
    x = np.concatenate([p.detach().numpy().ravel() for p in loaded.parameters()]).astype(np.float64)
    flat.load(x)
    rows = torch.rand(5, 64)
    with flat.evaluating(), torch.no_grad():
        assert torch.equal(loaded(rows), flat.module(rows))
