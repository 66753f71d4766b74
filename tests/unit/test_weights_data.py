"""Weights of rows and classes, from the files to the optimum: scikit-learn's and LIBLINEAR's definition."""

import bz2

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from support.jobs import write_libsvm
from support.prepared import loaded_of
from support.threads import on_threads

from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.weights import class_weights, row_weights
from mpi_opt.errors import DataError, JobError
from mpi_opt.execute import Orders, simulate_job
from mpi_opt.job import load_job
from mpi_opt.model import load_model
from mpi_opt.network.collectives import Solo

ROWS = 41


@pytest.fixture
def folder(tmp_path):
    write_libsvm(tmp_path / "train.txt", ROWS, 5, seed=2)
    numbers = np.random.default_rng(3).uniform(0.0, 4.0, ROWS)
    (tmp_path / "omega.txt").write_text("".join(f"{number!r}\n" for number in numbers.tolist()))
    (tmp_path / "omega.bz2").write_bytes(bz2.compress((tmp_path / "omega.txt").read_bytes()))
    return tmp_path


def omegas(folder):
    return np.loadtxt(folder / "omega.txt")


def loaded_by(folder, nodes=1, processes=1, **words):
    spec = DataSpec(**{"train": "train.txt", "weights": "omega.txt", "search": (folder,)} | words)
    local = [range(rank, nodes, processes) for rank in range(processes)]
    results = on_threads(processes, lambda collectives: load(spec, collectives, nodes, local[collectives.rank]))
    errors = [result for result in results if isinstance(result, Exception)]
    if errors:
        assert len(errors) == processes
        assert len({str(error) for error in errors}) == 1
        raise errors[0]
    return results


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("partition", ["contiguous", "shuffled", "by-label"])
@pytest.mark.parametrize("word", ["omega.txt", "omega.bz2"])
def test_weights_go_with_their_rows(folder, processes, partition, word):
    results = loaded_by(folder, 6, processes, weights=word, partition=partition, holdout=0.2, seed=4)
    shards = [shard for result in results for shard in (*result.train, *result.test)]
    for shard in shards:
        np.testing.assert_array_equal(shard.weights, omegas(folder)[shard.rows])
    assert sorted(np.concatenate([shard.rows for shard in shards])) == list(range(ROWS))


def test_without_weights_there_are_none(folder):
    (loaded,) = loaded_by(folder, weights=None)
    assert loaded.train[0].weights is None


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (3, "-1", r"omega\.txt:4: weight '-1'; allowed: a finite number >= 0"),
        (0, "nan", r"omega\.txt:1: weight 'nan'"),
        (2, "inf", r"omega\.txt:3: weight 'inf'"),
        (2, "1e999", r"omega\.txt:3: weight '1e999'"),
        (5, "1 2", r"omega\.txt:6: weight '1 2'"),
        (5, "", r"omega\.txt:6: weight ''"),
        (7, "1_0", r"omega\.txt:8: weight '1_0'"),
        (40, None, r"omega\.txt:40: ends after 40 weights, but the set train\.txt has 41 rows"),
        (40, "1\n1", r"omega\.txt:42: ends after 42 weights, but the set train\.txt has 41 rows"),
    ],
)
@pytest.mark.parametrize("processes", [1, 3])
def test_wrong_weights_name_file_and_line_everywhere(folder, line, text, message, processes):
    lines = (folder / "omega.txt").read_text().splitlines()
    lines[line : line + 1] = [] if text is None else [text]
    (folder / "omega.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=message):
        loaded_by(folder, 3, processes)


def test_carriage_returns_signs_exponents_and_a_missing_last_newline_are_read(folder):
    (folder / "omega.txt").write_bytes(b"+1e0\r\n .5 \r\n" + b"2\n" * (ROWS - 3) + b"0")
    (loaded,) = loaded_by(folder)
    np.testing.assert_array_equal(loaded.train[0].weights, [1.0, 0.5, *[2.0] * (ROWS - 3), 0.0])


def test_weights_that_are_all_zero_are_refused(folder):
    (folder / "omega.txt").write_text("0\n" * ROWS)
    with pytest.raises(DataError, match=r"train\.txt: all rows have the weight 0"):
        loaded_by(folder, 2, 2)


def test_a_missing_file_is_named_everywhere(folder):
    with pytest.raises(DataError, match=r"'none\.txt' was not found"):
        loaded_by(folder, 2, 2, weights="none.txt")


# --- classes ----------------------------------------------------------------------------------------------------------


def three_classes():
    labels = np.repeat([0.0, 1.0, 2.0], [2, 6, 12])
    parts = [labels[:5], labels[5:]]
    features = [np.ones((part.size, 2)) for part in parts]
    return loaded_of(features, parts, mapping={7.0: 0.0, 3.0: 1.0, 5.0: 2.0, 9.0: 3.0})


def test_balanced_is_as_scikit_learn_has_it():
    from sklearn.utils.class_weight import compute_class_weight

    loaded = three_classes()
    found = class_weights("balanced", loaded.train, loaded.info, Solo())
    labels = np.concatenate([shard.labels for shard in loaded.train])
    expected = compute_class_weight("balanced", classes=np.unique(labels), y=labels)
    # a label without training rows has nothing to weigh
    assert found == pytest.approx({7.0: expected[0], 3.0: expected[1], 5.0: expected[2], 9.0: 1.0}, rel=1e-15)


def test_balanced_counts_the_rows_of_all_processes():
    loaded = three_classes()

    def one(collectives):
        return class_weights("balanced", [loaded.train[collectives.rank]], loaded.info, collectives)

    assert on_threads(2, one) == [class_weights("balanced", loaded.train, loaded.info, Solo())] * 2


def test_given_class_weights_are_by_the_label_in_the_file_and_times_the_rows():
    loaded = three_classes()
    found = class_weights({"3": 2.0, "9.0": 4.0}, loaded.train, loaded.info, Solo())
    assert found == {7.0: 1.0, 3.0: 2.0, 5.0: 1.0, 9.0: 4.0}
    shard = loaded.train[0]
    np.testing.assert_array_equal(row_weights(shard, loaded.info, found), np.where(shard.labels == 1.0, 2.0, 1.0))
    from dataclasses import replace

    both = replace(shard, weights=np.arange(5.0))
    np.testing.assert_array_equal(
        row_weights(both, loaded.info, found), np.where(shard.labels == 1.0, 2.0, 1.0) * np.arange(5.0)
    )
    assert row_weights(shard, loaded.info, None) is None


def test_an_unknown_label_is_refused():
    loaded = three_classes()
    with pytest.raises(JobError, match=r"problem\.class_weight: made has no label 4; it has 3, 5, 7, 9"):
        class_weights({"4": 1.0}, loaded.train, loaded.info, Solo())


# --- the optimum ------------------------------------------------------------------------------------------------------

JOB = """
name = "weighted"
[data]
train = "train.txt"
intercept = true
[problem]
loss = "logistic"
l2 = 0.01
[algorithm]
name = "newton"
[stop]
steps = 40
gradient_norm = 1e-13
[metrics]
every = 1
"""


def trained(folder, *words, nodes=3):
    (folder / "job.toml").write_text(JOB)
    out = folder / "out"
    job = load_job(folder / "job.toml", words)
    assert simulate_job(job, Orders(out=out, progress="none", overwrite=True, command=["test"]), nodes=nodes) == 0
    return load_model(out / "model.h5")


def table(folder):
    lines = [line.split() for line in (folder / "train.txt").read_text().splitlines()]
    return (
        np.array([[float(word.split(":")[1]) for word in line[1:]] for line in lines]),
        np.array([float(line[0]) for line in lines]),
    )


CLASSES = {"balanced": "balanced", '{ "-1" = 0.5, "1" = 3 }': {-1.0: 0.5, 1.0: 3.0}, "": None}


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("rows", [False, True])
def test_logistic_optimum_is_scikit_learns(folder, classes, rows):
    words = ['data.weights="omega.txt"'] * rows + ([f"problem.class_weight={classes}"] if classes else [])
    model = trained(folder, *words)
    A, y = table(folder)
    by_label = CLASSES[classes]
    if by_label == "balanced":  # by rows; newer versions of scikit-learn count sample weights
        by_label = {label: ROWS / (2 * np.count_nonzero(y == label)) for label in (-1.0, 1.0)}
    other = LogisticRegression(C=1 / (0.01 * ROWS), class_weight=by_label, tol=1e-14, max_iter=500)
    other.set_params(solver="newton-cholesky")
    other.fit(A, y, sample_weight=omegas(folder) if rows else None)
    np.testing.assert_allclose(model.weights[:-1], other.coef_[0], atol=1e-8)
    np.testing.assert_allclose(model.weights[-1], other.intercept_[0], atol=1e-8)
    assert (model.class_weights is None) == (not classes)
    if classes.startswith("{"):
        assert model.class_weights == {-1.0: 0.5, 1.0: 3.0}


def test_squared_hinge_optimum_is_liblinears(folder):
    model = trained(
        folder,
        "data.intercept=false",
        'problem.loss="squared-hinge"',
        'problem.class_weight={"1"=3}',
        'data.weights="omega.txt"',
    )
    A, y = table(folder)
    other = LinearSVC(C=1 / (0.01 * ROWS), class_weight={1.0: 3.0}, fit_intercept=False, dual=False, tol=1e-12)
    other.fit(A, y, sample_weight=omegas(folder))
    np.testing.assert_allclose(model.weights, other.coef_[0], atol=1e-6)


def test_softmax_optimum_is_scikit_learns(folder):
    rng = np.random.default_rng(5)
    A, _ = table(folder)
    y = rng.integers(0, 3, ROWS)
    rows = (f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for label, row in zip(y, A, strict=True))
    (folder / "train.txt").write_text("\n".join(rows) + "\n")
    model = trained(
        folder,
        'problem.loss="softmax"',
        'data.weights="omega.txt"',
        "data.intercept=false",
        'problem.class_weight="balanced"',
    )
    by_label = {label: ROWS / (3 * np.count_nonzero(y == label)) for label in range(3)}
    other = LogisticRegression(
        C=1 / (0.01 * ROWS), class_weight=by_label, tol=1e-13, max_iter=5000, fit_intercept=False
    )
    other.fit(A, y, sample_weight=omegas(folder))
    found = model.matrix - model.matrix.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found.T, other.coef_ - other.coef_.mean(axis=0), atol=1e-6)


def test_the_objective_told_is_the_weighted_one(folder):
    from mpi_opt.metrics.joined import read_joined

    model = trained(folder, 'data.weights="omega.txt"', "problem.class_weight=balanced", "data.intercept=false")
    A, y = table(folder)
    counts = {label: np.count_nonzero(y == label) for label in (-1.0, 1.0)}
    omega = omegas(folder) * np.array([ROWS / (2 * counts[label]) for label in y])
    losses = np.logaddexp(0.0, -y * (A @ model.weights))
    expected = (omega @ losses) / ROWS + 0.005 * model.weights @ model.weights
    told = read_joined(folder / "out" / "metrics.h5").series
    assert told["objective_average"][0, -1] == pytest.approx(expected, rel=1e-12)
    wrong = np.mean(np.sign(A @ model.weights) != y)
    assert told["train_error_average"][0, -1] == pytest.approx(wrong)
