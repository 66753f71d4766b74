"""Labels are told so that different ones look different."""

import pytest

from mpi_opt.cli import main
from mpi_opt.words import number_text

ALIKE = "1000000000000000 1:1\n1000000000000001 1:3\n1000000000000000 1:2 2:1\n"
JOB = """
name = "alike"
[data]
train = "alike"
[problem]
loss = "logistic"
{more}
[algorithm]
name = "newton"
[stop]
steps = 3
"""


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (-0.0, "0"),
        (1e15 + 1, "1000000000000001"),
        (0.1, "0.1"),
        (-1.0, "-1"),
        (1e300, "1e+300"),
        (2.0**53, repr(2.0**53)),
    ],
)
def test_numbers(number, text):
    assert number_text(number) == text
    assert float(text) == number


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alike").write_text(ALIKE)
    (tmp_path / "other").write_text("1000000000000002 1:1\n")
    (tmp_path / "job.toml").write_text(JOB.format(more=""))
    (tmp_path / "strange.toml").write_text(JOB.format(more='class_weight = { "1000000000000003" = 2.0 }'))
    return tmp_path


def said(capsys, *words):
    main([*words])
    return "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "command",
    [
        "data check alike",
        "data info x.h5",
        "plan job.toml --nodes 1",
        "model info run/model.h5",
        "evaluate run/model.h5 other",
        "simulate strange.toml --nodes 1",
        "simulate job.toml --nodes 1 --set data.test=other",
    ],
)
def test_every_command_tells_labels_apart(folder, capsys, command):
    if "x.h5" in command:
        said(capsys, "data", "convert", "alike", "--out", "x.h5")
    if "run/" in command:
        said(capsys, "simulate", "job.toml", "--nodes", "1", "--out", "run", "--progress", "none")
    told = said(capsys, *command.split())
    assert "1000000000000000" in told
    assert "1000000000000001" in told


def test_a_models_own_rows_are_told_beside_those_noted_down(folder, capsys):
    words = ["simulate", "job.toml", "--nodes", "1", "--out", "run", "--progress", "none", "--set", "prepare.rows=l2"]
    assert main(words) == 0
    lines = [line.split(maxsplit=1) for line in said(capsys, "model", "info", "run/model.h5").splitlines()]
    assert ["rows", "divided by their l2 norm"] in lines
    assert any(line[0] == "trained:" and line[1].split() == ["rows", "3"] for line in lines if len(line) == 2)
