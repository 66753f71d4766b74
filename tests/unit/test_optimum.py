"""Reference optima against SciPy, published figures and closed forms; kept, found anew, believed, refused."""

import json
import shutil

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_svmlight_file
from support.commands import simulate
from support.jobs import JOB, write_job, write_libsvm

from mpi_opt.comparing import Request, compare
from mpi_opt.errors import DataError, JobError
from mpi_opt.job import load_job
from mpi_opt.optimum import FILE, find_optimum
from mpi_opt.report.reading import read_course


def job_of(folder, *settings, rows=40):
    write_libsvm(folder / "train.txt", rows)
    return load_job(JOB, [f"data.folder={folder}", *settings])


def rows_of(folder):
    features, labels = load_svmlight_file(str(folder / "train.txt"))
    return features.toarray(), labels


def test_logistic_is_what_scipy_finds(tmp_path):
    A, y = rows_of(job_of(tmp_path).folder)
    l2 = 1 / len(y)
    found = find_optimum(job_of(tmp_path), None, {}, [])
    best = minimize(
        lambda w: np.logaddexp(0, -y * (A @ w)).mean() + l2 / 2 * w @ w, np.zeros(6), method="BFGS", tol=1e-12
    )
    assert found.value == pytest.approx(best.fun, abs=1e-13)
    assert found.value <= best.fun + 1e-15
    assert (found.rows, found.dim, found.method) == (40, 6, "Newton's method")
    assert found.gap < 1e-12
    assert found.steps < 30


@pytest.mark.parametrize("method", ["newton", "newton-cg"])
def test_squared_is_the_closed_form(tmp_path, monkeypatch, method):
    if method == "newton-cg":
        monkeypatch.setattr("mpi_opt.optimum._DENSE", 0)
    job = job_of(tmp_path, "problem.loss=squared", "problem.l2=0.1", "data.partition=by-label")
    A, y = rows_of(tmp_path)
    w = np.linalg.solve(A.T @ A / 40 + 0.1 * np.eye(6), A.T @ y / 40)
    found = find_optimum(job, None, {}, [])
    assert found.value == pytest.approx(((A @ w - y) ** 2).mean() / 2 + 0.05 * w @ w, abs=1e-14)
    assert found.method == {"newton": "Newton's method", "newton-cg": "Newton-CG"}[method]
    # what validation chose counts, not what the job says
    assert find_optimum(job, 0.2, {}, []).value > found.value


@pytest.mark.parametrize("loss", ["softmax", "squared-hinge", "huber"])
def test_other_losses_and_an_intercept(tmp_path, loss):
    job = job_of(tmp_path, f"problem.loss={loss}", "data.intercept=true", "prepare.columns=standard")
    found = find_optimum(job, None, {}, [])
    assert found.gap < 1e-12
    assert found.gradient_norm < 1e-7


def test_rows_that_can_be_parted_have_an_infimum_without_a_penalty(tmp_path):
    assert 0 <= find_optimum(job_of(tmp_path, "problem.l2=0"), None, {}, []).value < 1e-11


def test_what_is_not_found_to_accuracy_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_opt.optimum._STEPS", 2)
    with pytest.raises(JobError, match=r"no optimum was found: after 2 steps of newton F = .*; give --reference F or"):
        find_optimum(job_of(tmp_path), None, {}, [tmp_path])
    assert not (tmp_path / FILE).exists()


def test_an_optimum_is_kept_until_the_data_change(tmp_path, monkeypatch):
    job, runs = job_of(tmp_path), [tmp_path / "a", tmp_path / "b"]
    for run in runs:
        run.mkdir()
    first = find_optimum(job, None, {"k": 1}, runs)
    assert (runs[0] / FILE).read_text() == (runs[1] / FILE).read_text()
    # a false value in the file shows whether it is taken
    false = json.loads((runs[1] / FILE).read_text()) | {"value": 7.0}
    (runs[1] / FILE).write_text(json.dumps(false))
    assert find_optimum(job, None, {"k": 1}, runs[1:]).value == 7.0
    assert find_optimum(job, None, {"k": 2}, runs[1:]).value == first.value
    (runs[1] / FILE).write_text(json.dumps(false))
    write_libsvm(tmp_path / "train.txt", 41)
    assert find_optimum(job, None, {"k": 1}, runs[1:]).rows == 41
    (runs[1] / FILE).write_text(json.dumps(false))
    (tmp_path / "train.txt").unlink()
    assert find_optimum(job, None, {"k": 1}, runs[1:]).value == 7.0
    with pytest.raises(DataError, match=r"(?s)cannot be computed: .*train.txt.* or give it|or give it: --reference"):
        find_optimum(job, None, {"k": 2}, runs[1:])
    (runs[1] / FILE).write_text("{")
    with pytest.raises(DataError, match="--reference F or RUN"):
        find_optimum(job, None, {"k": 1}, runs[1:])


def test_a_folder_that_cannot_be_written_to_is_passed_over(tmp_path):
    assert find_optimum(job_of(tmp_path), None, {}, [tmp_path / "nowhere"]).rows == 40


@pytest.mark.data
def test_a9a_is_as_published(datasets):
    job = load_job(JOB, [f"data.folder={datasets}", "data.train=a9a"])
    assert find_optimum(job, None, {}, []).value == pytest.approx(0.323379582465, abs=1e-12)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    write_job(folder)
    for name, *words in (
        ["few", "algorithm.sync_every=5"],
        ["much", "algorithm.sync_every=1", "algorithm.compressor=identity", "algorithm.threshold=0"],
    ):
        simulate(folder / "job.toml", 3, folder / name, "metrics.every=4", *words)
    return [folder / "few", folder / "much"]


def test_simulated_runs_from_end_to_end(simulated):
    answer = compare(Request(runs=simulated, target=0.05))
    assert answer.heading[1].startswith("F* = 0.2112169780")
    for path, record in zip(simulated, answer.records, strict=True):
        assert (path / FILE).exists()
        course = read_course(path)
        gaps = course.shared["objective_average"] - record["reference"]
        row = record["row"]
        assert gaps[row] <= 0.05
        assert (gaps[:row] > 0.05).all()
        assert record["sent_bytes"] == course.sent[:, row].sum()
        assert record["fired"] == course.fired[:, course.sync_steps < record["step"]].sum()
    few, much = answer.records
    assert few["sent_bytes"] < much["sent_bytes"]
    assert any(note.startswith("H (algorithm.sync_every) differs: 5 (few), 1 (much)") for note in answer.notes)


def test_a_run_carried_away_needs_no_data(simulated, tmp_path):
    reference = compare(Request(runs=simulated, target=0.05)).records[0]["reference"]
    away = shutil.copytree(simulated[0], tmp_path / "away")
    data = simulated[0].parent / "train.txt"
    data.rename(tmp_path / "hidden.txt")
    try:
        assert compare(Request(runs=[away], target=0.05)).records[0]["reference"] == reference
        (away / FILE).unlink()
        with pytest.raises(DataError, match="train.txt"):
            compare(Request(runs=[away], target=0.05))
        assert compare(Request(runs=[away], target=0.05, reference="0.2")).records[0]["reached"] == 1
    finally:
        (tmp_path / "hidden.txt").rename(data)
