"""The jobs of modules: sets of rivals that differ in the method alone, and what they train."""

from pathlib import Path

import pytest
from support.commands import settings

from mpi_opt.cli import main
from mpi_opt.job import load_job

JOBS = Path(__file__).parents[2] / "jobs"
DIMENSIONS = {"mnist-mlp": 101_770, "mnist-cnn": 28_874, "cifar10-subset-resnet20": 269_722}
SHAPES = {"mnist-mlp": (784,), "mnist-cnn": (1, 28, 28), "cifar10-subset-resnet20": (3, 32, 32)}
METHODS = {
    "sparq": ("sparq-sgd", 5),
    "choco": ("choco-sgd", 5),
    "dpsgd": ("d-psgd", 1),
    "allreduce": ("allreduce-sgd", 1),
    "local": ("local-sgd", 5),
}


def jobs(name):
    return {method: load_job(JOBS / f"{name}-{method}.toml") for method in METHODS}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_rivals_differ_in_the_method_alone(name):
    found = jobs(name)
    ours = found["sparq"]
    for method, job in found.items():
        assert (job.algorithm.name, job.algorithm.sync_every) == METHODS[method]
        for table in ("data", "problem", "graph", "stop", "metrics", "seed"):
            assert getattr(job, table) == getattr(ours, table), method
        for key in ("batch", "momentum", "step_size"):
            assert getattr(job.algorithm, key) == getattr(ours.algorithm, key), method
    step = ours.algorithm.step_size
    assert step.warm_up >= 1
    assert len(step.milestones) == 2
    assert step.factor < 1
    assert ours.algorithm.momentum == 0.9
    assert ours.algorithm.threshold.increase > 0
    for method in ("sparq", "choco"):
        compressor = found[method].algorithm.compressor
        assert (compressor.sizes, compressor.inner.k) == ("tensors", "10%")


@pytest.mark.torch
@pytest.mark.parametrize("name", DIMENSIONS)
def test_modules_have_the_size_that_pages_tell(name):
    pytest.importorskip("torch")
    from mpi_opt.problems.torch.factory import make_module

    problem = load_job(JOBS / f"{name}-sparq.toml").problem
    module = make_module(
        problem.module, problem.module_options or {}, shape=SHAPES[name], outputs=10, folder=JOBS, seed=0
    )
    assert sum(parameter.numel() for parameter in module.parameters()) == DIMENSIONS[name]


@pytest.mark.torch
@pytest.mark.parametrize("method", METHODS)
def test_a_job_trains_on_smaller_images(method, tmp_path):
    """Digits of 8 x 8 pixels, few steps: what is shown is that the settings fit together."""
    pytest.importorskip("torch")
    from mpi_opt.report.reading import read_course

    changes = (
        "data.train=builtin:digits",
        "data.test=",
        "data.holdout=0.2",
        "data.rows=400",
        "prepare.columns=min-max",
    )
    changes += (
        "stop.steps=40",
        "algorithm.step_size.warm_up=5",
        "data.partition=shuffled",
        "metrics.every=40",
        "metrics.nodes=1",
    )
    done = main(
        ["simulate", str(JOBS / f"mnist-cnn-{method}.toml"), "--nodes", "8", "--out", str(tmp_path / "run"),
         "--progress", "none", *settings(*changes)]
    )  # fmt: skip
    assert done == 0
    loss = read_course(tmp_path / "run").shared["objective_average"]
    assert loss[-1] < loss[0] - 0.01, loss
