"""predict and evaluate over MPI: the bytes and figures of one process, and errors that end every rank alike."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from mpi_opt.model import save_model

SEVERAL = Path(__file__).parents[1] / "support" / "several.py"
FEATURES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of one and of three columns, and a set for both, plain and compressed."""
    place, rng = tmp_path_factory.mktemp("predict"), np.random.default_rng(6)
    features = np.where(rng.random((211, FEATURES)) < 0.5, rng.normal(size=(211, FEATURES)), 0.0)
    given = {"features": FEATURES, "intercept": False, "index_base": 1, "l2": 0.1, "job": "", "provenance": {}}
    for name, loss, labels, columns in (
        ("two.h5", "logistic", {10.0: -1.0, 20.0: 1.0}, 1),
        ("three.h5", "softmax", {10.0: 0.0, 20.0: 1.0, 50.0: 2.0}, 3),
    ):
        save_model(place / name, rng.normal(size=FEATURES * columns), loss=loss, labels=labels, **given)
    dump_svmlight_file(features, rng.choice([10, 20], 211), str(place / "d"), zero_based=False)
    (place / "d.gz").write_bytes(gzip.compress((place / "d").read_bytes()))
    return place


def commands(folder, out):
    cases = [("two", "label", "d"), ("two", "probability", "d"), ("three", "probability", "d"), ("three", "score", "d")]
    cases += [("two", "label", "d.gz"), ("three", "score", "d.gz")]
    done = [
        ["predict", f"{folder}/{model}.h5", f"{folder}/{data}", "--what", what, "--out", f"{out}/{model}-{what}-{data}"]
        for model, what, data in cases
    ]
    done += [["evaluate", f"{folder}/{model}.h5", f"{folder}/d", "--json"] for model in ("two", "three")]
    shifted = ["predict", f"{folder}/two.h5", f"{folder}/d", "--index-base", "0"]
    return [*done, shifted, ["evaluate", f"{folder}/gone.h5", f"{folder}/d"]]


def figures(result):
    return [json.loads(line) for line in result.logs[0].splitlines() if line.startswith("{")]


def test_one_answer_on_any_number_of_ranks(folder, mpirun, tmp_path):
    seen = {}
    for n in (1, 2, 3, 5, 8):
        out = tmp_path / str(n)
        out.mkdir()
        (out / "commands.json").write_text(json.dumps(commands(folder, out)))
        result = mpirun(n, [SEVERAL, out / "commands.json"], timeout=120)
        result.check()
        (out / "commands.json").unlink()
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        two, three = figures(result)
        losses = [two.pop("log_loss"), three.pop("log_loss")]
        seen[n] = files, two, three
        assert all(files[name] == files[name.removesuffix(".gz")] for name in files)
        assert files["two-label-d"].count(b"\n") == 211
        if n == 1:
            alone = losses
            continue
        assert seen[n] == seen[1]
        np.testing.assert_allclose(losses, alone, rtol=1e-12)
        for rank, log in result.logs.items():
            codes = [line for line in log.splitlines() if line.startswith("exit code")]
            assert codes == ["exit code 0"] * (len(commands(folder, out)) - 2) + ["exit code 3"] * 2
            assert ("has 13 features" in log) == (rank == 0)
            assert ("gone.h5: no such file" in log) == (rank == 0)


def test_standard_output_is_rank_0s_alone(folder, mpirun):
    result = mpirun(3, ["mpi-opt", "predict", folder / "three.h5", folder / "d"])
    result.check()
    assert set(result.logs[0].split()) <= {"10", "20", "50"}
    assert [len(result.logs[rank].split()) for rank in range(3)] == [211, 0, 0]


def test_one_command_under_mpiexec_ends_with_its_code(folder, mpirun, tmp_path):
    (tmp_path / "cut.h5").write_bytes((folder / "two.h5").read_bytes()[:-9])
    result = mpirun(2, ["mpi-opt", "predict", tmp_path / "cut.h5", folder / "d", "--out", tmp_path / "none" / "p"])
    assert result.code == 3
    assert "cut.h5: damaged" in result.logs[0]
    result = mpirun(2, ["mpi-opt", "predict", folder / "two.h5", folder / "d", "--out", tmp_path / "none" / "p"])
    assert result.code == 2
    assert "cannot write" in result.logs[0]
    assert not result.timed_out
