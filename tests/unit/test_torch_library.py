"""Modules in programs of one's own, as docs/pytorch.md has them; in one process here."""

import re
from pathlib import Path

import numpy as np
import pytest

import mpi_opt
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import JobError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from mpi_opt.problems.torch.nets import cnn, mlp  # noqa: E402
from mpi_opt.torch import FlatModule, TorchProblem  # noqa: E402

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "pytorch.md").read_text()


def two_moons(rows=200):
    draw = np.random.default_rng(0)
    y = np.arange(rows) % 2
    angle = np.pi * draw.random(rows)
    X = np.column_stack([np.cos(angle) + y, np.sin(angle) * (1 - 2 * y) + 0.5 * y])
    return X + 0.1 * draw.normal(size=X.shape), y.astype(float)


def sparq(**options):
    usual = {"step_size": mpi_opt.Constant(0.2), "batch": 16, "beta": 0.9, "sync_every": 2, "consensus_rate": 0.5}
    trigger = mpi_opt.Trigger(mpi_opt.Constant(0.0))
    return mpi_opt.SparqSGD(**{**usual, "trigger": trigger, "compressor": TopK(20), **options})


def test_the_program_of_the_page():
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "minimize" in block]
    alone = (
        code.replace("from mpi4py import MPI\n", "")
        .replace("MPI.COMM_WORLD", "None")
        .replace("steps=1000", "steps=300")
    )
    X, y = two_moons()
    torch.manual_seed(3)
    names = {"net": mlp((2,), 2, hidden=[16]), "X": X, "y": y, "algorithm": sparq()}
    exec(alone, names)
    with torch.no_grad():
        right = names["net"](torch.from_numpy(X).float()).argmax(1).numpy() == y
    assert right.mean() > 0.97
    assert names["result"].steps == 300


def test_the_factory_of_the_page(tmp_path):
    from mpi_opt.problems.torch.factory import make_module

    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def net" in block]
    (tmp_path / "net.py").write_text(code)
    made = make_module("net.py:net", {"width": 5}, shape=(7,), outputs=3, folder=tmp_path, seed=1)
    assert made(torch.zeros(2, 7)).shape == (2, 3)
    again = make_module("net.py:net", {"width": 5}, shape=(7,), outputs=3, folder=tmp_path, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), again.parameters(), strict=True))


def test_runs_start_at_the_module():
    problem = TorchProblem(FlatModule(mlp((2,), 2)), "softmax", *two_moons())
    seen = {}
    mpi_opt.minimize(problem, sparq(), steps=1, callback=lambda step, x: seen.setdefault(step, x.copy()))
    np.testing.assert_array_equal(seen[0], problem.start)
    assert not problem.start.flags.writeable


def test_newton_methods_are_refused():
    from mpi_opt.algorithms.newton_cg import NewtonCG

    problem = TorchProblem(FlatModule(mlp((2,), 2)), "softmax", *two_moons())
    with pytest.raises(JobError, match=r"NewtonCG needs .*hvp_at.* of a problem; TorchProblem lacks it"):
        mpi_opt.minimize(problem, NewtonCG(), steps=1)


def test_what_a_data_set_draws_follows_from_the_key():
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, number):
            return torch.randn(3) + number % 2, number % 2

    problem = TorchProblem(FlatModule(mlp((3,), 2)), "softmax", Noisy())
    rows, found = np.arange(6), []
    for step in (4, 5, 4):
        problem.draw_from(Key(0, 1, Purpose.MODULE, step))
        found.append(problem.sampled_gradient(problem.start, rows))
    np.testing.assert_array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[1])


def test_statistics_do_not_hang_on_what_was_evaluated_before():
    flat = FlatModule(cnn((1, 8, 8), 2, channels=[3], hidden=4, norm=True), dtype="float64")
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(257, 1, 8, 8)), np.arange(257) % 2.0
    flat.calibrate(X[:130])
    problem = TorchProblem(flat, "softmax", X, y)
    points = [problem.start + 0.1 * draw.normal(size=problem.dim) for _ in range(3)]
    first = [problem.figures(x) for x in points]
    for x in points:
        problem.sampled_gradient(x, np.arange(9))
    assert [problem.figures(x) for x in reversed(points)] == first[::-1]
    assert len({figures.loss for figures in first}) == 3
    mean = problem.flat.state(points[1])["1.running_mean"]
    weight = torch.from_numpy(points[1][: flat.blocks[0].size].reshape(flat.blocks[0].shape))
    halves = [
        nn.functional.conv2d(torch.from_numpy(X[part]), weight, padding=2) for part in (slice(65), slice(65, 130))
    ]
    np.testing.assert_allclose(mean, torch.stack([half.mean((0, 2, 3)) for half in halves]).mean(0), rtol=1e-10)
    with pytest.raises(ValueError, match="NaN|shape"):
        problem.value(np.zeros(3))


def test_instance_normalisation_has_statistics_of_these_rows_too():
    X = np.random.default_rng(0).normal(size=(200, 3, 4)) + 2.0
    layers = nn.InstanceNorm1d(3, track_running_stats=True), nn.Flatten(), nn.Linear(12, 2)
    flat = FlatModule(nn.Sequential(*layers), dtype="float64")
    flat.calibrate(X[:150])  # two pieces
    problem = TorchProblem(flat, "softmax", X, np.arange(200) % 2.0)
    problem.sampled_gradient(problem.start, np.arange(5))
    state = flat.state(problem.start)
    np.testing.assert_allclose(state["0.running_mean"], X[:150].mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(state["0.running_var"], X[:150].var(2, ddof=1).mean(0), rtol=1e-12)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_a_layer_that_is_called_twice_has_the_mean_of_both(kind):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.last = kind(3, track_running_stats=True), nn.Linear(12, 2)

        def forward(self, x):
            return self.last((self.norm(x) + self.norm(3.0 * x + 1.0)).flatten(1))

    X = np.random.default_rng(0).normal(size=(256, 3, 4)) + 2.0  # two pieces of 128
    flat = FlatModule(Twice(), dtype="float64")
    flat.calibrate(X)
    state = flat.state(flat.start)
    np.testing.assert_allclose(state["norm.running_mean"], 2.0 * X.mean((0, 2)) + 0.5, rtol=1e-12)
    assert not flat.module.norm._forward_pre_hooks
    assert flat.module.norm.momentum == 0.1


def test_without_calibration_statistics_are_the_running_ones():
    """As PyTorch's own: of the batches that were trained on last."""
    X, y = two_moons()
    flat = FlatModule(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)), dtype="float64")
    problem = TorchProblem(flat, "softmax", X, y)
    problem.sampled_gradient(problem.start, np.arange(5))
    problem.figures(problem.start)
    np.testing.assert_allclose(flat.state(problem.start)["0.running_mean"], 0.1 * X[:5].mean(0), rtol=1e-12)


class Noise(nn.Linear):
    """Which draws also where it evaluates."""

    def forward(self, x):
        return super().forward(x) + torch.randn(len(x), 2)


def test_what_is_drawn_in_evaluation_is_always_the_same():
    """Also where statistics, whose rows pass too, are remembered."""
    X, y = two_moons()
    flat = FlatModule(nn.Sequential(Noise(2, 2), nn.BatchNorm1d(2)))
    flat.calibrate(X[:20])
    problem = TorchProblem(flat, "softmax", X, y)
    before = torch.random.get_rng_state()
    first = problem.figures(problem.start)
    problem.draw_from(Key(0, 1, Purpose.MODULE, 7))
    problem.sampled_gradient(problem.start, np.arange(5))
    assert problem.figures(problem.start) == first
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(3)
    assert problem.figures(problem.start) == first


def test_other_buffers_are_set_back_before_each_gradient_and_evaluation():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            if self.training:
                self.seen += 1
            return self.inner(x) * (1 + self.seen)

    problem = TorchProblem(FlatModule(Counting()), "softmax", *two_moons())
    figures, first = problem.figures(problem.start), problem.sampled_gradient(problem.start, np.arange(5))
    np.testing.assert_array_equal(problem.sampled_gradient(problem.start, np.arange(5)), first)
    assert problem.figures(problem.start) == figures
    assert problem.flat.state(problem.start)["seen"] == 0
