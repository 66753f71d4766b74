"""Where commands write files: through links, never in the place of a device or pipe; and names that cannot be read."""

import os
import stat

import numpy as np
import pytest

from mpi_opt.cli import main
from mpi_opt.model import save_model

COMMANDS = {
    "predict": "predict m.h5 set --out {}",
    "evaluate": "evaluate m.h5 set --out {}",
    "convert": "data convert set --out {} --overwrite",
    "generate": "data generate linear --rows 5 --features 2 --out {} --overwrite",
    "generate-h5": "data generate linear --rows 5 --features 2 --out {} --overwrite",
    "export": "model export m.h5 {}",
    "import": "model import text {}",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in ("predict", "evaluate", "generate", "model", "jobs"):
        monkeypatch.setattr(f"mpi_opt.commands.{module}.quiet_pipes", lambda: None)
    (tmp_path / "set").write_text("1 1:1\n-1 2:1\n")
    facts = {"features": 2, "intercept": False, "index_base": 1, "l2": 0.1, "job": "", "provenance": {}}
    save_model("m.h5", np.array([1.0, -1.0]), loss="logistic", labels={-1.0: -1.0, 1.0: 1.0}, **facts)
    assert main(["model", "export", "m.h5", "text"]) == 0
    return tmp_path


def run(command, name):
    return main([word.format(name) for word in COMMANDS[command].split()])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_is_not_replaced(folder, capsys, command):
    name = "pipe.h5" if command == "generate-h5" else "pipe"
    os.mkfifo(name)
    assert run(command, name) == 2
    assert "is no file but a device, pipe or socket" in capsys.readouterr().err
    assert stat.S_ISFIFO(os.stat(name).st_mode)
    assert not [entry for entry in os.listdir() if entry.endswith(".new")]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("command", COMMANDS)
def test_links_are_followed(folder, command, there):
    name = "link.h5" if command == "generate-h5" else "link"
    (folder / "far").mkdir()
    os.symlink("far/real", name)
    if there:
        (folder / "far/real").write_bytes(b"old")
    assert run(command, name) == 0
    assert os.readlink(name) == "far/real"
    assert (folder / "far/real").read_bytes() not in (b"", b"old")
    assert os.listdir("far") == ["real"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["x" * 300, "loop", "sub", "set/below"])
def test_names_that_no_file_can_have(folder, capsys, command, name):
    os.symlink("loop", "loop")
    (folder / "sub").mkdir()
    assert run(command, name) == 2
    said = capsys.readouterr().err
    assert said.startswith("mpi-opt: error: ")
    assert name in said
    assert said.count("\n") == 1
    assert os.path.islink("loop")


def test_models_whose_names_are_too_long(folder, capsys):
    assert main(["model", "info", "x" * 300]) == 3
    assert "cannot be read: File name too long" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["data check", "data info", "predict m.h5", "data fetch"])
def test_homes_of_users_there_are_not(folder, capsys, command):
    assert main([*command.split(), "~nobody-of-this-name/x.md"]) == 3
    said = capsys.readouterr()
    assert "~nobody-of-this-name" in said.err + said.out
    assert "Traceback" not in said.err


def test_a_file_that_is_called_like_a_glob(folder, capsys):
    (folder / "s[e]t").write_text("1 1:1\n1 2:1\n1 1:3\n")
    assert main(["predict", "m.h5", "s[e]t"]) == 0
    assert capsys.readouterr().out == "1\n-1\n1\n"
    (folder / "s[e]t").unlink()
    assert main(["predict", "m.h5", "s[e]t"]) == 0
    assert capsys.readouterr().out == "1\n-1\n"


def test_rows_without_features_say_what_to_do(folder, capsys):
    (folder / "bare").write_text("1\n-1\n")
    assert main(["data", "convert", "bare", "--out", "bare.h5"]) == 3
    assert "say how many there are with --features" in capsys.readouterr().err
    assert main(["data", "convert", "bare", "--out", "bare.h5", "--features", "2"]) == 0


@pytest.mark.parametrize(
    ("command", "name"),
    [("predict", "set"), ("predict", "m.h5"), ("evaluate", "set"), ("evaluate", "m.h5"), ("convert", "set")]
    + [("export", "m.h5"), ("import", "text")],
)
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_read_is_not_written_over(folder, capsys, command, name, linked):
    before = (folder / name).read_bytes()
    if linked:
        os.link(name, "other name")
        words = [part.replace("{}", "other name") for part in COMMANDS[command].split()]
        assert main(words) == 2
    else:
        assert run(command, name) == 2
    assert "is what is read; allowed is another name" in capsys.readouterr().err
    assert (folder / name).read_bytes() == before
