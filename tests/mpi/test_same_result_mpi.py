"""Deterministic methods give the same model on 1, 2 and 4 ranks, from text and from a converted file, within 1e-10."""

import json

import numpy as np
import pytest
from support.commands import ROOT
from support.jobs import write_libsvm

from mpi_opt.metrics.joined import read_joined
from mpi_opt.model import load_model

RUNS = ((1, "rows.txt"), (2, "rows.h5"), (4, "rows.txt"), (4, "rows.h5"))
JOB = """
name = "same"
data = {{ train = "rows.txt", partition = "shuffled", intercept = true }}
problem = {{ loss = "logistic", l2 = 0.01 }}
algorithm = {{ {algorithm} }}
stop = {{ {stop} }}
metrics.every = 1000
"""
# Whose steps are those of one node however the rows are dealt: stopped on the way, where no optimum hides a difference.
STEPS = {
    "newton": ('name = "newton"', "steps = 3"),
    "newton-cg": ('name = "newton-cg"', "steps = 3"),
    "lbfgs": ('name = "lbfgs"', "steps = 8"),
    "allreduce-sgd": ('name = "allreduce-sgd", step_size = 0.5, momentum = 0.5', "steps = 30"),
}
# Whose way depends on the split, but not where it ends.
ENDS = {
    "local-newton": ('name = "local-newton", finish = "newton"', "steps = 60, gradient_norm = 1e-12"),
    "giant": ('name = "giant"', "steps = 200, gradient_norm = 1e-12"),
    "admm": ('name = "admm"', "steps = 400, gradient_norm = 1e-12"),
}


@pytest.fixture(scope="module")
def found(mpirun, tmp_path_factory):
    """Model and last gradient norm by method, number of ranks and source."""
    folder = tmp_path_factory.mktemp("same")
    write_libsvm(folder / "rows.txt", rows=203, features=8, seed=11)  # no multiple of 2 or 4
    convert = ["data", "convert", str(folder / "rows.txt"), "--out", str(folder / "rows.h5")]
    results = {}
    for name, (algorithm, stop) in (STEPS | ENDS).items():
        (folder / f"{name}.toml").write_text(JOB.format(algorithm=algorithm, stop=stop))
    for n in sorted({n for n, _ in RUNS}):
        commands = [convert] * (n == 1)
        places = {(name, of): folder / f"{name}-{n}-{of}" for name in STEPS | ENDS for k, of in RUNS if k == n}
        for (name, source), out in places.items():
            job = str(folder / f"{name}.toml")
            commands.append(["run", job, "--out", str(out), "--set", f"data.train={source}", "--progress", "none"])
        (folder / "commands.json").write_text(json.dumps(commands))
        script = ROOT / "tests" / "support" / "several.py"
        done = mpirun(n, [script, folder / "commands.json"], timeout=120).check()
        assert done.logs[0].count("exit code 0") == len(commands), done.logs[0]
        for (name, source), out in places.items():
            norm = read_joined(out / "metrics.h5").series["gradient_norm"][0, -1]
            results[name, n, source] = load_model(out / "model.h5").weights, norm
    return results


@pytest.mark.parametrize("name", STEPS | ENDS)
def test_the_same_model_on_1_2_and_4_ranks(name, found):
    model, norm = found[name, 1, "rows.txt"]
    assert model.shape == (9,)
    if name in STEPS:
        assert norm > 1e-5, "at the optimum all are the same"
    for n, source in RUNS:
        other = found[name, n, source][0]
        np.testing.assert_allclose(other, model, rtol=0, atol=1e-10, err_msg=f"{n} {source}")
    np.testing.assert_array_equal(found[name, 4, "rows.h5"][0], found[name, 4, "rows.txt"][0])


def test_all_ends_are_one_optimum(found):
    optimum = found["local-newton", 1, "rows.txt"][0]
    for name in ENDS:
        np.testing.assert_allclose(found[name, 4, "rows.h5"][0], optimum, rtol=0, atol=1e-10)
    assert np.abs(found["newton", 1, "rows.txt"][0] - optimum).max() > 1e-3, "stopped on the way"
