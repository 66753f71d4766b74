"""Runs on prepared data: the same result for every number of nodes, and a model that knows what was done."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, normalize
from support.jobs import write_libsvm

from mpi_opt.errors import DataError
from mpi_opt.execute import Orders, simulate_job
from mpi_opt.job import load_job
from mpi_opt.metrics.joined import read_joined
from mpi_opt.model import load_model

ROWS = 45
JOB = """
name = "prepared"
[data]
train = "train.txt"
holdout = 0.2
weights = "omega.txt"
intercept = true
[problem]
loss = "logistic"
l2 = 0.01
class_weight = "balanced"
[algorithm]
name = "newton"
[stop]
steps = 60
gradient_norm = 1e-13
[metrics]
every = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    write_libsvm(folder / "train.txt", ROWS, 5, seed=2)
    # some entries absent, columns of many sizes
    lines = [line.split() for line in (folder / "train.txt").read_text().splitlines()]
    for at, line in enumerate(lines):
        line[1:] = [
            f"{word.split(':')[0]}:{float(word.split(':')[1]) * 10 ** (j % 4)}" for j, word in enumerate(line[1:])
        ]
        del line[1 + at % 5]
        if at % 4 == 0:
            line[0] = "1"
    (folder / "train.txt").write_text("\n".join(" ".join(line) for line in lines) + "\n")
    omega = np.random.default_rng(1).uniform(0.1, 2.0, ROWS)
    (folder / "omega.txt").write_text("".join(f"{number!r}\n" for number in omega.tolist()))
    (folder / "job.toml").write_text(JOB)
    return folder


def trained(folder, *words, nodes=3, out="out"):
    job = load_job(folder / "job.toml", words)
    orders = Orders(out=folder / out, progress="none", overwrite=True, command=["test"])
    assert simulate_job(job, orders, nodes=nodes) == 0
    return load_model(folder / out / "model.h5")


RULES = {
    "standard": ["prepare.columns=standard"],
    "standard, centred": ["prepare.columns=standard", "prepare.center=true"],
    "min-max": ["prepare.columns=min-max"],
    "min-max, centred": ["prepare.columns=min-max", "prepare.center=true"],
    "max-abs": ["prepare.columns=max-abs"],
    "rows": ["prepare.rows=l2"],
    "both": ["prepare.columns=max-abs", "prepare.rows=max"],
}
METHODS = {
    "newton": [],
    "newton-cg": ["algorithm.name=newton-cg"],
    "lbfgs": ["algorithm.name=lbfgs", "stop.steps=300"],
    "allreduce-sgd": [
        "algorithm.name=allreduce-sgd",
        "algorithm.step_size=0.1",
        "stop.gradient_norm=",
        "metrics.every=60",
    ],
}


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        *(("newton", rule) for rule in RULES),
        *((method, rule) for method in METHODS if method != "newton" for rule in ("standard, centred", "both")),
    ],
)
def test_the_number_of_nodes_does_not_matter(folder, method, rule):
    words = RULES[rule] + METHODS[method]
    one, two, four = (trained(folder, *words, nodes=nodes) for nodes in (1, 2, 4))
    for other in (two, four):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(one.preparation.factor, other.preparation.factor)
        np.testing.assert_array_equal(one.preparation.shift, other.preparation.shift)
        assert one.class_weights == other.class_weights


def table(folder):
    lines = [line.split() for line in (folder / "train.txt").read_text().splitlines()]
    A = np.zeros((ROWS, 5))
    for row, line in zip(A, lines, strict=True):
        for word in line[1:]:
            row[int(word.split(":")[0]) - 1] = float(word.split(":")[1])
    return A, np.array([float(line[0]) for line in lines])


SCALERS = {
    "standard": (StandardScaler(with_mean=False), None),
    "standard, centred": (StandardScaler(), None),
    "min-max, centred": (MinMaxScaler(), None),
    "max-abs": (MaxAbsScaler(), None),
    "both": (MaxAbsScaler(), "max"),
}


@pytest.mark.parametrize("rule", SCALERS)
def test_trained_and_tested_as_scikit_learn_would_with_the_training_rows(folder, rule):
    from mpi_opt.datasets.partition import hold_out

    model = trained(folder, *RULES[rule])
    A, y = table(folder)
    kept, held = hold_out(ROWS, 0.2, 0)
    scaler, norm = SCALERS[rule]
    scaler.fit(A[kept])

    def ready(rows):
        columns = scaler.transform(rows)
        return columns if norm is None else normalize(columns, norm=norm)

    by_label = {label: kept.size / (2 * np.count_nonzero(y[kept] == label)) for label in (-1.0, 1.0)}
    other = LogisticRegression(C=1 / (0.01 * kept.size), class_weight=by_label, solver="newton-cholesky", tol=1e-13)
    other.fit(ready(A[kept]), y[kept], sample_weight=np.loadtxt(folder / "omega.txt")[kept])
    np.testing.assert_allclose(model.weights[:-1], other.coef_[0], atol=1e-8)
    np.testing.assert_allclose(model.weights[-1], other.intercept_[0], atol=1e-8)
    assert model.class_weights == pytest.approx(by_label)
    np.testing.assert_allclose(model.preparation.apply(A), ready(A), rtol=1e-12, atol=1e-12)
    told = read_joined(folder / "out" / "metrics.h5").series
    assert told["test_error_average"][0, -1] == pytest.approx(1 - other.score(ready(A[held]), y[held]))
    # the test loss is plain, whatever the weights
    losses = np.logaddexp(0, -y[held] * other.decision_function(ready(A[held])))
    assert told["test_loss"][0, -1] == pytest.approx(losses.mean(), abs=1e-8)


def test_what_was_done_is_told(folder):
    trained(folder, *RULES["standard"])
    assert "scaled (standard) but not centred" in (folder / "out" / "log.txt").read_text()
    trained(folder, *RULES["standard, centred"])
    assert "stored dense: 0.0018 MB" in (folder / "out" / "log.txt").read_text()


def test_weights_of_a_wrong_number_of_rows_stop_the_run(folder):
    (folder / "short.txt").write_text("1\n1\n")
    with pytest.raises(DataError, match=r"short\.txt:2: ends after 2 weights"):
        trained(folder, "data.weights=short.txt", out="none")
