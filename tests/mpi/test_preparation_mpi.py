"""Preparation, weights and validation over MPI: the bits of lockstep, and errors that reach everybody."""

import numpy as np
import pytest
from support.commands import finals, settings, simulate
from support.jobs import write_job

from mpi_opt.model import load_model

SGD_ONLY = ("batch", "step_size", "sync_every", "threshold", "compressor", "consensus_rate")
NEWTON = ["algorithm.name=newton", *(f"algorithm.{key}=" for key in SGD_ONLY), "stop.steps=12", "metrics.every=4"]
TUNED = ["problem.l2=", "validation={l2 = [0.1, 0.01], folds = 3}"]


def everything(result):
    return result.output + "".join(result.logs.values())


def made(folder):
    job = write_job(folder)
    omega = np.random.default_rng(1).uniform(0.1, 2.0, 40)
    (folder / "omega.txt").write_text("".join(f"{number!r}\n" for number in omega.tolist()))
    return job


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (3, ["prepare.columns=standard", "prepare.rows=l2", "data.holdout=0.2", "data.partition=shuffled"]),
        (2, ["prepare.columns=standard", "prepare.center=true", *TUNED, *NEWTON]),
        (4, ["prepare.columns=max-abs", 'algorithm.output="local"', *TUNED]),
    ],
)
def test_run_leaves_what_lockstep_leaves(n, words, mpirun, tmp_path):
    job = made(tmp_path)
    words = ["network.reductions=ordered", "data.weights=omega.txt", "problem.class_weight=balanced", *words]
    mpirun(n, ["mpi-opt", "run", job, "--out", tmp_path / "mpi", *settings(*words)], timeout=90).check()
    simulate(job, n, tmp_path / "lockstep", *words)
    np.testing.assert_array_equal(finals(tmp_path / "mpi", n), finals(tmp_path / "lockstep", n))
    one, other = (load_model(tmp_path / word / "model.h5") for word in ("mpi", "lockstep"))
    np.testing.assert_array_equal(one.weights, other.weights)
    for name in ("shift", "factor"):
        np.testing.assert_array_equal(getattr(one.preparation, name), getattr(other.preparation, name))
    assert one.class_weights == other.class_weights
    assert one.validation == other.validation
    assert (one.validation is not None) == any("validation" in word for word in words)


def test_wrong_weights_end_all_ranks_by_the_line(mpirun, tmp_path):
    job = made(tmp_path)
    with (tmp_path / "omega.txt").open("a") as file:
        file.write("-3\n")
    done = mpirun(3, ["mpi-opt", "run", job, "--out", tmp_path / "out", "--set", "data.weights=omega.txt"], timeout=60)
    assert done.code == 3
    assert "omega.txt:41: weight '-3'; allowed: a finite number >= 0" in everything(done)
    assert not (tmp_path / "out").exists()


def test_too_few_rows_for_the_folds_end_all_ranks(mpirun, tmp_path):
    job = made(tmp_path)
    words = settings("validation={l2 = [0.1], folds = 41}")
    done = mpirun(2, ["mpi-opt", "run", job, "--out", tmp_path / "out", *words], timeout=60)
    assert done.code == 3
    assert "validation.folds = 41, but there are 40 rows" in everything(done)
    assert not (tmp_path / "out").exists()
