"""``mpi-opt data check`` under a launcher, and a job that reads what is not finite, counted over all ranks."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from mpi_opt.model import load_model


def alone(words, folder):
    done = subprocess.run(
        [sys.executable, "-m", "mpi_opt", *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("n", [2, 5])
def test_the_report_is_that_of_one_process(n, mpirun, tmp_path):
    rng = np.random.default_rng(n)
    lines = [f"{1 + j % 2} 1:{v:.17g} 3:1" for j, v in enumerate(rng.random(3000))]
    for at, line in ((2900, "1 3:nan"), (7, "1 5:1 4:1"), (1500, "1 2:1 x"), (1501, "oops")):
        lines[at] = line
    text = "\r\n".join(lines).encode()
    (tmp_path / "x").write_bytes(text)
    (tmp_path / "y.gz").write_bytes(gzip.compress(text[:50_000] + b"\n"))
    words = ["data", "check", str(tmp_path / "x"), str(tmp_path / "y.gz"), "--json"]
    result = mpirun(n, ["mpi-opt", *words], timeout=60)
    code, out = alone(words, tmp_path)
    assert result.code == code == 3, str(result)
    printed = [log for log in (result.output, *result.logs.values()) if log.strip()]
    assert len(printed) == 1, str(result)
    assert json.loads(printed[0]) == json.loads(out)
    places = [(told["line"], told["column"]) for told in json.loads(out)["faults"]["first"]]
    assert places[:4] == [(8, 7), (1501, 7), (1502, 1), (2901, 3)]


def test_good_files_and_missing_ones(mpirun, tmp_path):
    (tmp_path / "x").write_text("1 1:1\n2 2:1\n")
    result = mpirun(3, ["mpi-opt", "data", "check", str(tmp_path / "x")], timeout=60).check()
    assert (result.output + "".join(result.logs.values())).count("no faults") == 1
    result = mpirun(3, ["mpi-opt", "data", "check", str(tmp_path / "none")], timeout=60)
    assert result.code == 3
    assert (result.output + "".join(result.logs.values())).count("unreadable") == 1


def test_a_run_tells_what_it_left_out(mpirun, tmp_path):
    rng = np.random.default_rng(0)
    rows = ["1 qid:1 0:nan"] * 3 + ["-1 2:inf"] * 2
    rows += [f"{1 - 2 * (j % 2)} 0:{v:.6f} 2:{(-1) ** j:.1f}" for j, v in enumerate(rng.random(40))]
    (tmp_path / "x").write_text("\n".join(rng.permutation(rows).tolist()))
    (tmp_path / "job.toml").write_text(
        'name = "j"\ndata = { train = "x", index_base = "auto", nan = "drop-row" }\n'
        'problem.loss = "logistic"\nalgorithm = { name = "newton" }\nstop.rounds = 3\n'
    )
    mpirun(3, ["mpi-opt", "run", str(tmp_path / "job.toml"), "--out", str(tmp_path / "out")], timeout=60).check()
    log = (tmp_path / "out" / "log.txt").read_text()
    assert log.count('x: 5 rows left out: a label or value of theirs is not finite (data.nan = "drop-row")') == 1
    assert log.count("x: 3 qid: fields ignored") == 1
    model = load_model(tmp_path / "out" / "model.h5")
    assert (model.index_base, model.features) == (0, 3)
