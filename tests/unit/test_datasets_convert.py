"""``mpi-opt data convert`` and ``data info``: every kind of source, options, errors, and what is told."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from support.shardfiles import assert_same, held, joined, write_text

from mpi_opt import cli, launch
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.datasets.spec import Reading


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    for name in launch.KNOWN_VARIABLES:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)
    monkeypatch.delenv("MPI_OPT_DATASETS", raising=False)
    monkeypatch.chdir(tmp_path)


def command(*words) -> int:
    return cli.main(["data", *map(str, words)])


TABLE = np.array([[0.5, 0.0, 3.0], [0.0, 0.0, 0.1], [-1.0, 2.0, 0.0], [1e-300, 0.0, 7.0]])
LABELS = np.array([1.0, -1.0, 1.0, 1.0])


def make(form: str) -> tuple[list[str], Reading, list[str]]:
    """Write the table in some form; return the words for it, how it is read, and the options that say so."""
    if form == "npy":
        np.save("x.npy", TABLE)
        np.save("y.npy", LABELS)
        return ["x.npy", "y.npy"], Reading(), []
    if form == "npy-column":
        np.save("x.npy", np.column_stack([TABLE, LABELS]))
        return ["x.npy"], Reading(label=-1), ["--label=-1"]
    if form == "npz":
        np.savez("x.npz", X=TABLE, y=LABELS)
        return ["x.npz"], Reading(), []
    if form == "scipy":
        scipy.sparse.save_npz("x.npz", scipy.sparse.csr_array(TABLE))
        np.save("y.npy", LABELS)
        return ["x.npz", "y.npy"], Reading(), []
    if form == "csv":
        text = "\n".join(
            ",".join([*map(repr, row), str(label)]) for row, label in zip(TABLE.tolist(), LABELS, strict=True)
        )
        Path("x.csv").write_text("a,b,c,target\n" + text + "\n")
        return ["x.csv"], Reading(label="target"), ["--label", "target"]
    if form == "words":
        lines = [
            f"{'yes' if label > 0 else 'no'},{row[0]!r}" for row, label in zip(TABLE.tolist(), LABELS, strict=True)
        ]
        Path("x.csv").write_text("y,a\n" + "\n".join(lines) + "\n")
        return ["x.csv"], Reading(labels=("no", "yes")), ["--labels", "no,yes"]
    return ["builtin:iris"], Reading(), []


@pytest.mark.parametrize("form", ["npy", "npy-column", "npz", "scipy", "csv", "words", "builtin"])
def test_every_source(form, tmp_path, capsys):
    words, reading, options = make(form)
    assert command("convert", *words, "--out", "z.h5", *options) == 0
    told = capsys.readouterr().out
    expected = joined(held(words, tmp_path, reading=reading))
    for size in (1, 2, 5):
        assert_same(expected, joined(held("z.h5", tmp_path, size)))
    assert f"{expected[1]['rows']} rows, {expected[1]['features']} features" in told
    assert command("info", "z.h5", "--verify") == 0
    assert "verified: every checksum fits" in capsys.readouterr().out


def test_packed_text_and_options(tmp_path, capsys):
    import gzip

    write_text(tmp_path / "x", base=0)
    (tmp_path / "x.gz").write_bytes(gzip.compress((tmp_path / "x").read_bytes()))
    assert command("convert", "x.gz", "--out", "x.h5") == 3
    assert "index 0" in capsys.readouterr().err
    assert not (tmp_path / "x.h5").exists()
    assert command("convert", "x.gz", "--out", "x.h5", "--index-base", "auto") == 0
    assert_same(joined(held("x", tmp_path, reading=Reading(0))), joined(held("x.h5", tmp_path, 3)))
    facts = open_shards(tmp_path / "x.h5").facts
    assert facts.index_base == 0
    assert facts.provenance["command"] == [
        "mpi-opt", "data", "convert", "x.gz", "--out", "x.h5", "--index-base", "auto"
    ]  # fmt: skip
    assert facts.provenance["reading"]["index_base"] is None
    assert command("convert", "x.h5", "--out", "w.h5", "--features", "100", "--dtype", "float32") == 0
    told = capsys.readouterr().out
    assert "values changed on their way to float32" in told
    assert open_shards(tmp_path / "w.h5").facts.features == 100


def test_what_is_not_finite(tmp_path, capsys):
    (tmp_path / "x").write_text("1 1:0.5\n-1 1:nan 2:3\n1 2:1\n")
    assert command("convert", "x", "--out", "x.h5") == 3
    assert "x:2:" in capsys.readouterr().err
    assert command("convert", "x", "--out", "x.h5", "--nan", "drop-row") == 0
    assert "1 rows left out" in capsys.readouterr().out
    assert held("x.h5", tmp_path)[0].labels.tolist() == [1.0, 1.0]
    assert any("1 rows left out" in note for note in held("x.h5", tmp_path)[0].notes)


def test_a_file_that_is_there_stays(tmp_path, capsys):
    write_text(tmp_path / "x")
    (tmp_path / "x.h5").write_text("mine")
    assert command("convert", "x", "--out", "x.h5") == 2
    assert "is there already; --overwrite replaces it" in capsys.readouterr().err
    assert (tmp_path / "x.h5").read_text() == "mine"
    assert command("convert", "x", "--out", "x.h5", "--overwrite") == 0
    assert command("convert", "x.h5", "--out", "x.h5", "--overwrite") == 2
    assert "is what is read" in capsys.readouterr().err
    assert command("convert", "x", "--out", "no/x.h5") == 2
    assert "its folder does not exist" in capsys.readouterr().err
    assert command("convert", "x", "--out", tmp_path) == 2
    assert sorted(os.listdir(tmp_path)) == ["x", "x.h5"]


def test_a_column_is_for_tables(tmp_path, capsys):
    write_text(tmp_path / "x")
    assert command("convert", "x", "--out", "x.h5", "--label", "y") == 3
    assert "label is for tables" in capsys.readouterr().err


def test_names_that_are_no_text(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    write_text(tmp_path / name)
    assert command("convert", name, "--out", "x.dat") == 0
    assert open_shards(tmp_path / "x.dat").facts.name == "caf\\udce9"
    assert command("info", "x.dat", "--verify") == 0


def test_info(tmp_path, capsys):
    write_text(tmp_path / "x")
    assert command("convert", "x", "--out", "x.h5") == 0
    capsys.readouterr()
    assert command("info", "x.h5", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)["sets"]
    holding = held("x", tmp_path)[0]
    assert (told["rows"], told["features"], told["nonzeros"]) == (38, 9, holding.nonzeros)
    assert told["label_counts"] == [[label, int((holding.labels == label).sum())] for label in (-1.0, 1.0)]
    assert told["arrays"]["indices"] == {"type": "uint8", "items": holding.nonzeros, "bytes": holding.nonzeros}
    assert command("info", "x.h5") == 0
    assert "38 rows, 9 features" in capsys.readouterr().out
    assert command("info", "x") == 0
    assert "x: LIBSVM text" in capsys.readouterr().out
    assert command("info", "builtin:iris") == 0
    assert command("info", "x", "--verify") == 2
    assert "has no checksums" in capsys.readouterr().err
    data = bytearray((tmp_path / "x.h5").read_bytes())
    place = open_shards(tmp_path / "x.h5").places["values"]
    data[place.at + 100] ^= 8
    (tmp_path / "x.h5").write_bytes(data)
    assert command("info", "x.h5") == 0
    assert command("info", "x.h5", "--verify") == 3
    assert "x.h5: damaged: values have changed" in capsys.readouterr().err
