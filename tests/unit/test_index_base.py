"""What a model says that text counts its columns from, whatever the training set was stored as."""

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

from mpi_opt.cli import main
from mpi_opt.model import load_model

JOB = """
name = "base"
[data]
train = {train}
[problem]
loss = "squared"
l2 = 0.1
[algorithm]
name = "newton"
[stop]
steps = 5
"""
TABLE = np.array([[0.5, 2.0, 0.0], [1.5, 0.0, 1.0], [-1.0, 3.0, 0.0], [0.25, -1.0, -2.0]])
TARGET = np.array([1.0, -2.0, 0.5, 3.0])


def text(path, base):
    path.write_text(
        "".join(
            f"{y!r} " + " ".join(f"{j + base}:{x!r}" for j, x in enumerate(row)) + "\n"
            for y, row in zip(TARGET.tolist(), TABLE.tolist(), strict=True)
        )
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text(tmp_path / "zero", 0)
    text(tmp_path / "one", 1)
    np.save("X.npy", TABLE)
    np.save("y.npy", TARGET)
    save_npz("S.npz", csr_array(TABLE))
    return tmp_path


def trained(train, *words):
    with open("job.toml", "w", encoding="utf-8") as file:
        file.write(JOB.format(train=train))
    settings = [part for word in words for part in ("--set", word)]
    command = ["simulate", "job.toml", "--nodes", "2", "--out", "run", "--overwrite", "--progress", "none", *settings]
    assert main(command) == 0
    return load_model("run/model.h5")


def predicted(data, capsys):
    capsys.readouterr()
    assert main(["predict", "run/model.h5", data]) == 0
    return [float(line) for line in capsys.readouterr().out.split()]


@pytest.mark.parametrize("prepare", ["prepare.columns=none", "prepare.columns=standard"])
@pytest.mark.parametrize("stored", ["text", "--sparse", "--dense"])
@pytest.mark.parametrize("base", [0, 1])
def test_the_base_of_text_survives_centring_and_dense_storage(folder, capsys, base, stored, prepare):
    train = ("zero", "one")[base]
    word = f'"{train}"'
    if stored != "text":
        assert main(["data", "convert", train, "--out", "x.h5", stored, "--index-base", str(base)]) == 0
        word = '"x.h5"'
    words = [prepare] + (["prepare.center=true"] if prepare.endswith("standard") else [])
    words += [f"data.test={train}"] + ([f"data.index_base={base}"] if stored == "text" else [])
    model = trained(word, *words)
    assert model.index_base == base
    by_array = model.preparation.apply(TABLE) @ model.weights
    np.testing.assert_allclose(predicted(train, capsys), by_array, rtol=1e-12)


@pytest.mark.parametrize("convert", [None, "--sparse", "--dense"])
@pytest.mark.parametrize("word", ['["X.npy", "y.npy"]', '["S.npz", "y.npy"]'])
@pytest.mark.parametrize("base", [0, 1])
def test_arrays_do_not_tell_so_the_job_does(folder, capsys, base, word, convert):
    if convert:
        names = [part.strip(' "') for part in word.strip("[]").split(",")]
        assert main(["data", "convert", *names, "--out", "x.h5", convert]) == 0
        word = '"x.h5"'
    train = ("zero", "one")[base]
    model = trained(word, f"data.index_base={base}", f"data.test={train}")
    assert model.index_base == base
    np.testing.assert_allclose(predicted(train, capsys), TABLE @ model.weights, rtol=1e-12)
