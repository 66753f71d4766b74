"""Commands that look at runs of modules: other seeds and numbers of nodes compare, though their starts differ."""

import json

import pytest
from support.commands import settings

from mpi_opt.cli import main

pytestmark = pytest.mark.torch

JOB = """
name = "module"
[data]
train = "builtin:digits"
rows = 120
holdout = 0.3
[problem]
loss = "softmax"
module = "cnn"
module_options = { channels = [3], hidden = 8, norm = true, dropout = 0.1 }
[algorithm]
name = "d-psgd"
batch = 8
step_size = 0.1
[stop]
steps = 12
[metrics]
every = 4
"""
RUNS = {"two": (2, ()), "three": (3, ()), "seed": (2, ("seed=1",)), "alone": (1, ()), "five": (5, ())}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    pytest.importorskip("torch")
    place = tmp_path_factory.mktemp("runs")
    (place / "job.toml").write_text(JOB)
    for name, (nodes, words) in RUNS.items():
        line = ["simulate", str(place / "job.toml"), "--nodes", str(nodes), "--out", str(place / name)]
        assert main([*line, "--progress", "none", *settings(*words)]) == 0
    return place


def told(capsys, *words):
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_objectives_compare_over_numbers_of_nodes(runs, capsys):
    """The gradients that rows are told by elsewhere differ at their common start: statistics are the pieces' own."""
    names = ("alone", "two", "three", "five")
    found = json.loads(told(capsys, "compare", *(runs / name for name in names), "--format", "json"))["runs"]
    assert [run["nodes"] for run in found] == [1, 2, 3, 5]
    assert all(run["value_average"] > 0 for run in found)


def test_errors_compare_over_seeds(runs, capsys):
    found = json.loads(told(capsys, "compare", runs / "two", runs / "seed", "--measure", "error", "--format", "json"))
    assert [run["seed"] for run in found["runs"]] == ["0", "1"]
    # their rows are others: data.holdout is drawn by the seed
    assert main(["compare", str(runs / "two"), str(runs / "seed")]) == 2
    assert "seed (draws the rows that data.holdout takes away)" in capsys.readouterr().err


def test_seeds_of_one_set_compare(runs, tmp_path, capsys):
    for seed in (0, 1):
        line = ["simulate", runs / "job.toml", "--nodes", "2", "--out", tmp_path / f"s{seed}", "--progress", "none"]
        told(capsys, *line, *settings("data.holdout=", "data.rows=", "stop.steps=4", f"seed={seed}"))
    found = json.loads(told(capsys, "compare", tmp_path / "s0", tmp_path / "s1", "--group-seeds", "--format", "json"))
    assert [run["runs"] for run in found["runs"]] == [2]


def test_other_rows_are_still_refused(runs, tmp_path, capsys):
    line = ["simulate", runs / "job.toml", "--nodes", "2", "--out", tmp_path / "other", "--progress", "none"]
    told(capsys, *line, *settings("data.rows=100"))
    assert main(["compare", str(runs / "two"), str(tmp_path / "other")]) == 2
    assert "data.rows is 120 and 100" in capsys.readouterr().err


def test_runs_are_reported_watched_and_described(runs, tmp_path, capsys):
    assert "step 12" in told(capsys, "watch", runs / "three", "--once")
    assert "done: 12 steps" in told(capsys, "status", runs / "three")
    assert "nothing wrong" in told(capsys, "metrics", "check", runs / "five")
    assert "module" in told(capsys, "model", "info", runs / "alone" / "model.h5")
    assert "torch " in told(capsys, "info")
    pytest.importorskip("matplotlib")
    told(capsys, "report", runs / "two", runs / "three", "--out", tmp_path / "report")
    assert (tmp_path / "report" / "report.html").exists()
