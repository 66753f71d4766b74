"""Tables and arrays over MPI: the same run from every kind of file, and one rank's fault is everybody's."""

import numpy as np
import scipy.sparse
from support.jobs import write_job

from mpi_opt.model import load_model


def files(folder):
    """Write one set as a table and as arrays; return what a job calls them."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 5)).round(3)
    y = (x @ rng.normal(size=5) > 0).astype(int)
    lines = ["y,a,b,c,d,e", *(f"{label}," + ",".join(map(repr, row)) for label, row in zip(y, x.tolist(), strict=True))]
    (folder / "t.csv").write_text("\n".join(lines))
    np.save(folder / "y.npy", y)
    scipy.sparse.save_npz(folder / "S.npz", scipy.sparse.csc_array(x))
    return '"t.csv"', '["S.npz", "y.npy"]'


def test_two_kinds_of_files_give_the_same_model(mpirun, tmp_path):
    job = write_job(tmp_path)
    weights = []
    for k, words in enumerate(files(tmp_path)):
        mpirun(3, ["mpi-opt", "run", job, "--set", f"data.train={words}", "--out", tmp_path / f"run{k}"]).check()
        weights.append(load_model(tmp_path / f"run{k}" / "model.h5").weights)
    assert weights[0].shape == (5,)
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-12)


def test_a_fault_on_one_rank_ends_all(mpirun, tmp_path):
    files(tmp_path)
    lines = (tmp_path / "t.csv").read_text().split("\n")
    lines[299] = "1,2,3,x,5,6"
    (tmp_path / "t.csv").write_text("\n".join(lines))
    job = write_job(tmp_path)
    result = mpirun(3, ["mpi-opt", "run", job, "--set", "data.train=t.csv", "--out", tmp_path / "run"])
    assert result.code == 3
    said = result.output + "".join(result.logs.values())
    assert said.count("t.csv:300:7: 'x' in column 'c' is not a number") == 1


def test_names_and_words_are_known_to_all_ranks(mpirun, tmp_path):
    files(tmp_path)
    head, *lines = (tmp_path / "t.csv").read_text().split("\n")
    worded = [("no" if line[0] == "0" else "yes") + line[1:] for line in lines]
    (tmp_path / "w.csv").write_text("\n".join([head, *worded]))
    (tmp_path / "z.csv").write_text("\n".join(["y,a,c,b,d,e", *worded]))
    words = ["--set", "data.train=w.csv", "--set", 'data.labels=["no", "yes"]']
    mpirun(3, ["mpi-opt", "run", write_job(tmp_path), *words, "--out", tmp_path / "run"]).check()
    model = load_model(tmp_path / "run" / "model.h5")
    assert (model.names, model.words) == (("a", "b", "c", "d", "e"), ("no", "yes"))
    said = []
    for n in (1, 3):
        ask = ["mpi-opt", "predict", tmp_path / "run" / "model.h5", tmp_path / "w.csv", "--out", tmp_path / f"{n}.txt"]
        mpirun(n, ask).check()
        said.append((tmp_path / f"{n}.txt").read_text())
    assert said[0] == said[1]
    assert said[0].count("no\n") + said[0].count("yes\n") == len(lines)
    # the set was made by a hyperplane, so that its own words come back but for a few
    assert np.mean(np.array(said[0].split()) == [line.split(",")[0] for line in worded]) > 0.9
    result = mpirun(3, ["mpi-opt", "predict", tmp_path / "run" / "model.h5", tmp_path / "z.csv"])
    assert result.code == 3
    output = result.output + "".join(result.logs.values())
    assert output.count(f"feature 1 (counted from 0) is called 'c', but 'b' in {tmp_path / 'run' / 'model.h5'};") == 1
