"""From a job to a scored set by the commands, on real data: accuracies that others publish for these sets."""

import json
import os

import numpy as np
import pytest
from support.commands import ROOT, simulate

from mpi_opt import cli

pytestmark = pytest.mark.data


def accuracy(job, data, *words, monkeypatch, datasets, tmp_path, capsys):
    monkeypatch.setenv("MPI_OPT_DATASETS", str(datasets))
    monkeypatch.setattr("mpi_opt.commands.evaluate.quiet_pipes", lambda: None)
    simulate(ROOT / "jobs" / job, 1, tmp_path / "run", *words, timeout=280, env=dict(os.environ))
    model = str(tmp_path / "run" / "model.h5")
    assert cli.main(["evaluate", model, data, "--json", "--out", str(tmp_path / "labels")]) == 0
    return json.loads(capsys.readouterr().out), model


@pytest.mark.parametrize(("intercept", "wanted"), [("true", 0.98661), ("false", 0.98388)])
def test_w8a(intercept, wanted, monkeypatch, datasets, tmp_path, capsys):
    """8 % of the rows are empty: without an intercept their margin is 0, and the label -1, right nearly always."""
    tools = {"monkeypatch": monkeypatch, "datasets": datasets, "tmp_path": tmp_path, "capsys": capsys}
    words = [f"data.intercept={intercept}", "data.holdout="]
    figures, model = accuracy("w8a-newton.toml", "w8a", *words, **tools)
    assert figures["accuracy"] == pytest.approx(wanted, abs=5e-5)
    assert cli.main(["predict", model, "w8a", "--what", "score", "--out", str(tmp_path / "scores")]) == 0
    ties = int((np.loadtxt(tmp_path / "scores") == 0).sum())
    assert ties == (0 if intercept == "true" else 4203)


@pytest.mark.slow
def test_mnist(monkeypatch, datasets, tmp_path, capsys):
    words = ["algorithm.name=lbfgs", "stop.steps=25", "metrics.every=25", "data.test="]
    tools = {"monkeypatch": monkeypatch, "datasets": datasets, "tmp_path": tmp_path, "capsys": capsys}
    figures, _ = accuracy("mnist-local-newton.toml", "mnist.t", *words, **tools)
    assert figures["accuracy"] == pytest.approx(0.92, abs=0.01)
    assert figures["auc_macro"] > 0.99
    assert np.sum(figures["confusion"]) == 10_000
