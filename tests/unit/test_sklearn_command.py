"""A saved estimator's file in the commands: labels and probabilities are the estimator's own."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, make_classification

from mpi_opt.sklearn import DistributedLinearSVC, DistributedLogisticRegression, DistributedRidge


def told(*words):
    done = subprocess.run(
        [sys.executable, "-m", "mpi_opt", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    X, y = make_classification(60, 5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.2, random_state=1)
    path = tmp_path_factory.mktemp("rows") / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return X, y, path


@pytest.mark.parametrize("labels", [[50, 10], [10, 20, 50]], ids=str)
@pytest.mark.parametrize("kind", [DistributedLogisticRegression, DistributedLinearSVC])
def test_labels(kind, labels, rows, tmp_path):
    X, y, path = rows
    model = kind().fit(X, np.array(labels)[y % len(labels)])
    model.save(tmp_path / "model.h5")
    lines = told("predict", tmp_path / "model.h5", path)
    assert [int(line[0]) for line in lines] == model.predict(X).tolist()


def test_probabilities_of_named_classes(rows, tmp_path):
    X, y, path = rows
    model = DistributedLogisticRegression().fit(X, np.array(["red", "green", "blue"])[y])
    model.save(tmp_path / "model.h5")
    head, *lines = told("predict", tmp_path / "model.h5", path, "--what", "probability")
    assert sorted(head[1:]) == ["blue", "green", "red"]
    assert [line[0] for line in lines] == model.predict(X).tolist()
    found = np.array([line[1:] for line in lines], dtype=float)
    columns = [model.classes_.tolist().index(word) for word in head[1:]]
    np.testing.assert_allclose(found, model.predict_proba(X)[:, columns], rtol=1e-12)


def test_a_regression(rows, tmp_path):
    X, y, path = rows
    model = DistributedRidge().fit(X, y)
    model.save(tmp_path / "model.h5")
    found = np.array(told("predict", tmp_path / "model.h5", path), dtype=float)[:, 0]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-10)
