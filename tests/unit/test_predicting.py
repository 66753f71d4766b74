"""The commands predict and evaluate: what they say, in which order, on how many processes, and what they refuse."""

import gzip
import json

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax
from sklearn import metrics
from sklearn.datasets import dump_svmlight_file, load_digits
from support.threads import on_threads

from mpi_opt import cli, launch
from mpi_opt.datasets.preparation import Preparation
from mpi_opt.evaluating import as_text, evaluate
from mpi_opt.metrics.scores import mean
from mpi_opt.model import load_model, save_model
from mpi_opt.network.collectives import Solo
from mpi_opt.predicting import reading_of, score
from mpi_opt.predictions import write_predictions
from mpi_opt.predictor import rankings
from mpi_opt.words import number_text

ROWS, FEATURES = 403, 17


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    for name in launch.KNOWN_VARIABLES:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)
    monkeypatch.setattr("mpi_opt.commands.predict.quiet_pipes", lambda: None)
    monkeypatch.setattr("mpi_opt.commands.evaluate.quiet_pipes", lambda: None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def features(rng):
    return np.where(rng.random((ROWS, FEATURES)) < 0.4, rng.normal(size=(ROWS, FEATURES)), 0.0)


def saved(path, weights, loss="logistic", labels=None, *, job="", **changes):
    given = {"features": FEATURES, "intercept": False, "index_base": 1, "l2": 0.1, "job": job, "provenance": {}}
    save_model(path, np.ravel(weights), loss=loss, labels=labels, **given | changes)
    return path


def written(path, features, labels, index_base=1):
    dump_svmlight_file(features, labels, str(path), zero_based=index_base == 0)
    return path


def run(*arguments, capsysbinary):
    """Return exit code, standard output and errors of the command."""
    code = cli.main([str(argument) for argument in arguments])
    told = capsysbinary.readouterr()
    return code, told.out.decode(), told.err.decode()


def good(*arguments, capsysbinary):
    code, out, err = run(*arguments, capsysbinary=capsysbinary)
    assert (code, err) == (0, ""), err
    return out


def refused(*arguments, capsysbinary):
    code, out, err = run(*arguments, capsysbinary=capsysbinary)
    assert out == ""
    assert err.count("\n") == 1, err
    return code, err


SIGNS = {10.0: -1.0, 20.0: 1.0}
THREE = {10.0: 0.0, 20.0: 1.0, 50.0: 2.0}


# --- predict ----------------------------------------------------------------------------------------------------------


def test_two_classes(features, rng, capsysbinary):
    weights = rng.normal(size=FEATURES + 1)
    model = saved("m.h5", weights, "logistic", SIGNS, intercept=True)
    data = written("d", features, np.zeros(ROWS))
    z = features @ weights[:-1] + weights[-1]
    out = good("predict", model, data, capsysbinary=capsysbinary)
    assert out.split("\n") == [*np.where(z > 0, "20", "10"), ""]
    scores = np.loadtxt(good("predict", model, data, "--what", "score", capsysbinary=capsysbinary).splitlines())
    np.testing.assert_allclose(scores, z, rtol=1e-13, atol=1e-15)
    first, *rows = good("predict", model, data, "--what", "probability", capsysbinary=capsysbinary).splitlines()
    assert first == "labels 20 10"
    table = np.loadtxt(rows)
    np.testing.assert_array_equal(table[:, 0], np.where(z > 0, 20, 10))
    np.testing.assert_allclose(table[:, 1:], np.stack([expit(z), expit(-z)], axis=1), rtol=1e-12)


def test_several_classes(features, rng, capsysbinary):
    weights = rng.normal(size=(FEATURES, 3))
    data, z = written("d", features, np.zeros(ROWS)), features @ weights
    for loss, wanted in (
        ("softmax", softmax(z, axis=1)),
        ("logistic", expit(z) / expit(z).sum(axis=1, keepdims=True)),
    ):
        model = saved("m.h5", weights, loss, {20.0: 0.0, 10.0: 1.0, 50.0: 2.0})
        first, *rows = good("predict", model, data, "--what", "probability", capsysbinary=capsysbinary).splitlines()
        assert first == "labels 20 10 50"
        table = np.loadtxt(rows)
        np.testing.assert_array_equal(table[:, 0], np.array([20, 10, 50])[z.argmax(axis=1)])
        np.testing.assert_allclose(table[:, 1:], wanted, rtol=1e-12)
        first, *rows = good("predict", model, data, "--what", "score", capsysbinary=capsysbinary).splitlines()
        assert first == "labels 20 10 50"
        np.testing.assert_allclose(np.loadtxt(rows)[:, 1:], z, rtol=1e-13, atol=1e-15)


def test_probabilities_that_underflow_are_still_probabilities(capsysbinary):
    model = saved("m.h5", np.diag([1.0, 2.0, 3.0]), "logistic", THREE, features=3)
    with open("d", "w") as text:
        text.write("0 1:-2000 2:-999 3:-667\n0 1:-1e300 2:0 3:1e300\n")
    rows = good("predict", model, "d", "--what", "probability", capsysbinary=capsysbinary).splitlines()[1:]
    (a, b, c), (d, e, f) = np.loadtxt(rows)[:, 1:]
    np.testing.assert_allclose([b / c, a + b + c], [np.exp(2001 - 1998), 1.0], rtol=1e-12)
    np.testing.assert_allclose([d, e, f], [0, 1 / 3, 2 / 3])


def test_regression(features, rng, capsysbinary):
    weights = rng.normal(size=FEATURES)
    model, data = saved("m.h5", weights, "huber"), written("d", features, np.zeros(ROWS))
    for what in ("label", "score"):
        out = good("predict", model, data, "--what", what, capsysbinary=capsysbinary)
        np.testing.assert_allclose(np.loadtxt(out.splitlines()), features @ weights, rtol=1e-13, atol=1e-15)
    code, err = refused("predict", model, "none", "--what", "probability", capsysbinary=capsysbinary)
    assert code == 2
    assert "loss = 'huber' gives no probabilities" in err


def test_labels_read_back_as_they_were():
    texts = ["-1", "10", "0.5", "9007199254740991", "1e+300", "-0.1"]
    assert [number_text(float(text)) for text in texts] == texts
    assert number_text(-0.0) in ("0", "-0")


@pytest.mark.parametrize("rule", ["none", "l1", "l2", "max"])
@pytest.mark.parametrize("shifted", [False, True])
def test_preparation_is_applied(rule, shifted, features, rng, capsysbinary):
    weights, factor, shift = rng.normal(size=(3, FEATURES))
    prepared = Preparation("standard", shift if shifted else None, factor, rule)
    model = saved("m.h5", weights, "squared", preparation=prepared)
    data = written("d", features, np.zeros(ROWS))
    x = (features - shift if shifted else features) * factor
    if rule != "none":
        norms = np.linalg.norm(x, {"l1": 1, "l2": 2, "max": np.inf}[rule], axis=1, keepdims=True)
        x = x / np.where(norms == 0, 1, norms)
    out = good("predict", model, data, capsysbinary=capsysbinary)
    np.testing.assert_allclose(np.loadtxt(out.splitlines()), x @ weights, rtol=1e-12, atol=1e-14)


SETS = {
    "text": lambda features: written("d", features, np.arange(ROWS)),
    "gzip": lambda features: _gzipped(features),
    "dense": lambda features: "builtin:digits",
}


def _gzipped(features):
    path = written("d", features, np.arange(ROWS))
    with gzip.open("d.gz", "wb") as out, open(path, "rb") as text:
        out.write(text.read())
    return "d.gz"


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("kind", ["text", "gzip", "dense"])
def test_any_number_of_processes_writes_the_same_bytes(kind, shifted, columns, features, rng, tmp_path):
    width = 64 if kind == "dense" else FEATURES
    prepared = Preparation("standard", rng.normal(size=width), rng.normal(size=width)) if shifted else Preparation()
    weights, labels = rng.normal(size=(width, columns)), SIGNS if columns == 1 else THREE
    model = load_model(saved("m.h5", weights, "logistic", labels, features=width, preparation=prepared))
    words = [str(SETS[kind](features))]

    def predict(together, what, out):
        found = score(model, words, [tmp_path], reading_of(model), "refuse", together)
        write_predictions(model, found, what, tmp_path / out, together)
        return found.labels

    def bytes_of(size, what):
        parts = on_threads(size, lambda together: predict(together, what, "out"))
        for part in parts:
            if isinstance(part, Exception):
                raise part
        truth = load_digits().target if kind == "dense" else np.arange(ROWS)
        np.testing.assert_array_equal(np.concatenate(parts), truth)
        return (tmp_path / "out").read_bytes()

    for what in ("label", "probability", "score"):
        alone = bytes_of(1, what)
        for size in (2, 3, 5, 8):
            assert bytes_of(size, what) == alone
        assert alone.count(b"\n") == (1797 if kind == "dense" else ROWS) + alone.startswith(b"labels")


def test_pieces_are_written_in_order(features, rng, tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_opt.predictions._PIECE", 7)
    model = load_model(saved("m.h5", rng.normal(size=FEATURES), "squared"))
    written("d", features, np.arange(ROWS))

    def predict(together):
        found = score(model, ["d"], [tmp_path], reading_of(model), "refuse", together)
        write_predictions(model, found, "label", tmp_path / "out", together)

    assert on_threads(3, predict) == [None] * 3
    np.testing.assert_allclose(np.loadtxt("out"), features @ model.weights, rtol=1e-13, atol=1e-15)


def test_columns_are_the_models(features, rng, capsysbinary):
    """More of them are refused or left out, fewer are zeros; counted from the model's base."""
    weights = rng.normal(size=FEATURES - 4)
    small = saved("small.h5", weights, "squared", features=FEATURES - 4)
    data = written("d", features, np.zeros(ROWS))
    code, err = refused("predict", small, data, capsysbinary=capsysbinary)
    assert code == 3
    assert "d: has 17 features (its last column is 17), small.h5 has 13; --extra-features ignore" in err
    out = good("predict", small, data, "--extra-features", "ignore", capsysbinary=capsysbinary)
    np.testing.assert_allclose(np.loadtxt(out.splitlines()), features[:, :-4] @ weights, rtol=1e-13, atol=1e-15)
    more = rng.normal(size=FEATURES + 9)
    wide = saved("wide.h5", more, "squared", features=FEATURES + 9)
    out = good("predict", wide, data, capsysbinary=capsysbinary)
    np.testing.assert_allclose(np.loadtxt(out.splitlines()), features @ more[:FEATURES], rtol=1e-13, atol=1e-15)
    zero_based = written("d0", features, np.zeros(ROWS), index_base=0)
    other = saved("zero.h5", more, "squared", features=FEATURES + 9, index_base=0)
    assert good("predict", other, zero_based, capsysbinary=capsysbinary) == out
    assert good("predict", wide, zero_based, "--index-base", 0, capsysbinary=capsysbinary) == out
    code, err = refused("predict", wide, zero_based, capsysbinary=capsysbinary)
    assert (code, "index 0" in err) == (3, True)


def test_dense_columns_are_the_models(rng, capsysbinary):
    """Columns of a table have no numbers of their own: fewer of them are other ones, not zeros."""
    x = load_digits().data / 16.0  # the set as jobs have it
    weights, shift = rng.normal(size=(2, 60))
    model = saved("m.h5", weights, "squared", features=60, preparation=Preparation("standard", shift))
    out = good("predict", model, "builtin:digits", "--extra-features", "ignore", capsysbinary=capsysbinary)
    np.testing.assert_allclose(np.loadtxt(out.splitlines()), (x[:, :60] - shift) @ weights, rtol=1e-10, atol=1e-10)
    code, err = refused("predict", model, "builtin:digits", capsysbinary=capsysbinary)
    assert (code, "has 64 features (its last column is 63), m.h5 has 60" in err) == (3, True)
    model = saved("m.h5", rng.normal(size=70), "squared", features=70)
    code, err = refused("predict", model, "builtin:digits", capsysbinary=capsysbinary)
    assert (code, "has 64 features, m.h5 has 70" in err) == (3, True)


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".h5"])
def test_tables_and_converted_sets(suffix, features, rng, capsysbinary):
    """Read as the model's job says: the label stands in the last column here, and is not among the features."""
    weights = rng.normal(size=FEATURES)
    truth = np.where(features @ weights > 0, 20, 10)
    table, data = np.column_stack([features, truth]), f"t{suffix}"
    np.save("t.npy", table)
    np.savetxt("t.csv", table, delimiter=",", fmt="%.17g")
    if suffix == ".h5":
        code, _, err = run("data", "convert", "t.npy", "--label", -1, "--out", data, capsysbinary=capsysbinary)
        assert code == 0, err
    model = saved("m.h5", weights, "logistic", SIGNS, job="[data]\nlabel = -1\n")
    found = figures_of(model, data, capsysbinary=capsysbinary)
    assert (found["accuracy"], found["rows"]) == (1.0, ROWS)
    text = written("d", features, truth)
    assert figures_of(model, text, capsysbinary=capsysbinary)["confusion"] == found["confusion"]


def test_what_is_refused(features, capsysbinary, tmp_path):
    model, data = saved("m.h5", np.ones(FEATURES), "squared-hinge", SIGNS), written("d", features, np.full(ROWS, 10))
    tell = {"capsysbinary": capsysbinary}
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "huge").write_text("1 1:1\n1 1:1e308 2:1e308\n")
    (tmp_path / "cut.h5").write_bytes((tmp_path / "m.h5").read_bytes()[:-100])
    (tmp_path / "sub").mkdir()
    for arguments, code, words in (
        (["predict", model, data, "--what", "probability"], 2, "loss = 'squared-hinge' gives no probabilities"),
        (["predict", model, "nowhere"], 3, "'nowhere' was not found"),
        (["predict", "nowhere.h5", data], 3, "nowhere.h5: no such file"),
        (["predict", "sub", data], 3, "sub: is a folder"),
        (["predict", "d", data], 3, "d: cannot be opened as HDF5"),
        (["predict", "cut.h5", data], 3, "cut.h5: damaged"),
        (["predict", model, "empty"], 3, "empty: holds no rows"),
        (["predict", model, "huge"], 3, "huge: row 2: its numbers times the model's weights are beyond"),
        (["predict", model, data, "--out", "sub"], 2, "cannot write sub: is a folder"),
        (["predict", model, data, "--out", "."], 2, "--out: '.': allowed: the name of a file"),
        (["evaluate", model, data, "--out", ".."], 2, "--out: '..': allowed: the name of a file"),
        (["model", "export", model, ""], 2, "OUT: '': allowed: the name of a file"),
        (["predict", model, data, "--out", "none/p"], 2, "cannot write none/p: No such file"),
        (["predict", saved("other.h5", np.ones(FEATURES), "squared", job="no job"), data], 3, "is no TOML"),
        (["predict", model], 2, "DATA"),
        (["evaluate", model, "empty"], 3, "empty: holds no rows"),
    ):
        found, _, err = run(*arguments, **tell)
        assert (found, words in err) == (code, True), err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cut.h5",
        "d",
        "empty",
        "huge",
        "m.h5",
        "other.h5",
        "sub",
    ]


def test_an_error_of_one_process_is_everybodys(features, tmp_path):
    model = load_model(saved("m.h5", np.ones(FEATURES), "squared"))
    written("d", features, np.zeros(ROWS))

    def predict(together):
        found = score(model, ["d"], [tmp_path], reading_of(model), "refuse", together)
        write_predictions(model, found, "label", tmp_path / "none" / "p", together)

    assert ["cannot write" in str(error) for error in on_threads(3, predict)] == [True] * 3


# --- evaluate ---------------------------------------------------------------------------------------------------------


def figures_of(*arguments, capsysbinary):
    return json.loads(good("evaluate", *arguments, "--json", capsysbinary=capsysbinary))


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_two_classes_scored(loss, features, rng, capsysbinary):
    weights = rng.normal(size=FEATURES)
    z = features @ weights
    truth = np.where(z + rng.normal(size=ROWS) > 0.5, 20, 10)
    model, data = saved("m.h5", weights, loss, SIGNS), written("d", features, truth)
    found = figures_of(model, data, "--out", "p", capsysbinary=capsysbinary)
    decided = np.loadtxt("p")
    np.testing.assert_array_equal(decided, np.where(z > 0, 20, 10))
    wanted = {
        "accuracy": metrics.accuracy_score(truth, decided),
        "balanced_accuracy": metrics.balanced_accuracy_score(truth, decided),
        "f1": metrics.f1_score(truth, decided, pos_label=20),
        "auc": metrics.roc_auc_score(truth == 20, z),
    }
    if loss == "logistic":
        wanted["log_loss"] = metrics.log_loss(truth == 20, expit(z))
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)
    assert ("log_loss" in found) == (loss == "logistic")
    assert found["confusion"] == metrics.confusion_matrix(truth, decided).tolist()
    assert [entry["label"] for entry in found["classes"]] == [10, 20]
    assert (found["rows"], found["data"], found["notes"]) == (ROWS, "d", [])
    assert found["model"] == load_model(model).sha256


@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared-hinge"])
def test_several_classes_scored(loss, features, rng, capsysbinary):
    weights = rng.normal(size=(FEATURES, 3))
    z = features @ weights
    names = np.array([20, 10, 50])
    truth = names[(z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    model = saved("m.h5", weights, loss, {20.0: 0.0, 10.0: 1.0, 50.0: 2.0})
    found = figures_of(model, written("d", features, truth), capsysbinary=capsysbinary)
    decided = names[z.argmax(axis=1)]
    table = {"softmax": softmax(z, axis=1), "logistic": expit(z) / expit(z).sum(axis=1)[:, None], "squared-hinge": z}[
        loss
    ]
    areas = [metrics.roc_auc_score(truth == name, column) for name, column in zip(names, table.T, strict=True)]
    wanted = {
        "accuracy": metrics.accuracy_score(truth, decided),
        "balanced_accuracy": metrics.balanced_accuracy_score(truth, decided),
        "f1_macro": metrics.f1_score(truth, decided, average="macro"),
        "auc_macro": np.mean(areas),
    }
    if loss != "squared-hinge":
        wanted["log_loss"] = metrics.log_loss(truth, table[:, [1, 0, 2]])
        macro = metrics.roc_auc_score(truth, table[:, [1, 0, 2]], multi_class="ovr")
        assert wanted["auc_macro"] == pytest.approx(macro, abs=1e-12)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)
    assert found["confusion"] == metrics.confusion_matrix(truth, decided).tolist()
    assert [entry["label"] for entry in found["classes"]] == [10, 20, 50]
    each = metrics.f1_score(truth, decided, average=None)
    np.testing.assert_allclose([entry["f1"] for entry in found["classes"]], each, atol=1e-12)
    by_label = [areas[1], areas[0], areas[2]]
    np.testing.assert_allclose([entry["auc"] for entry in found["classes"]], by_label, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_areas_tell_probabilities_apart_that_round_to_one(columns, rng, capsysbinary):
    values = np.sort(rng.uniform(50, 700, 200))
    weights = np.append(1.0, np.zeros(columns - 1))  # the first class against others that are alike
    truth = np.arange(200) // 100 * -1.0
    model = saved("m.h5", weights, "softmax", {float(-c): float(c) for c in range(columns)}, features=1)
    found = figures_of(model, written("d", values[:, None], truth), capsysbinary=capsysbinary)
    assert {entry["label"]: entry["auc"] for entry in found["classes"]}[0] == 0.0  # larger values are of class -1


def test_rankings_are_log_odds(rng):
    for columns in (2, 3, 7):
        z = rng.normal(scale=4.0, size=(columns, 300))
        odds = [z[c] - logsumexp(np.delete(z, c, axis=0), axis=0) for c in range(columns)]
        model = load_model(
            saved("m.h5", np.zeros(columns), "softmax", {float(c): float(c) for c in range(columns)}, features=1)
        )
        np.testing.assert_allclose(rankings(model, z), odds, rtol=1e-12, atol=1e-13)
        assert rankings(model, z[:, :0]).shape == (columns, 0)


def test_regression_scored(features, rng, capsysbinary):
    weights = rng.normal(size=FEATURES)
    truth = features @ weights + rng.normal(size=ROWS)
    model, data = saved("m.h5", weights, "squared"), written("d", features, truth)
    found = figures_of(model, data, capsysbinary=capsysbinary)
    wanted = metrics.mean_squared_error(truth, features @ weights), metrics.r2_score(truth, features @ weights)
    np.testing.assert_allclose([found["mse"], found["r2"]], wanted, rtol=1e-9)  # labels are written in 16 digits
    text = good("evaluate", model, data, capsysbinary=capsysbinary)
    assert "R^2" in text
    written("d", features, np.full(ROWS, 3))
    assert "R^2 is undefined" in good("evaluate", model, data, capsysbinary=capsysbinary)


def test_figures_are_the_same_on_any_number_of_processes(features, rng, tmp_path):
    weights = rng.normal(size=(FEATURES, 3))
    truth = np.array([10, 20, 50])[(features @ weights + rng.gumbel(size=(ROWS, 3))).argmax(axis=1)]
    written("d", features, truth)
    model = load_model(saved("m.h5", weights, "softmax", THREE))

    def task(together):
        return evaluate(model, score(model, ["d"], [tmp_path], reading_of(model), "refuse", together), together)

    alone = task(Solo())
    for size in (2, 3, 5, 8):
        for found in on_threads(size, task):
            assert found.pop("log_loss") == pytest.approx(alone["log_loss"], rel=1e-12)
            assert found == {key: value for key, value in alone.items() if key != "log_loss"}


def test_unknown_labels_are_named(features, capsysbinary):
    model = saved("m.h5", np.ones(FEATURES), "logistic", SIGNS)
    data = written("d", features, np.resize([10, 20, 30, -0.5], ROWS))
    code, err = refused("evaluate", model, data, capsysbinary=capsysbinary)
    assert code == 3
    assert "d: its labels -0.5, 30 are not among those of m.h5, which are 10, 20" in err


def test_missing_classes_and_majorities_are_said(features, capsysbinary):
    model = saved("m.h5", np.append(np.zeros(FEATURES), -1.0), "logistic", SIGNS, intercept=True)
    data = written("d", features, np.resize([10, 10, 10, 20], ROWS))
    found = figures_of(model, data, capsysbinary=capsysbinary)
    assert (found["f1"], found["auc"], found["balanced_accuracy"]) == (0.0, 0.5, 0.5)
    assert found["classes"][1]["precision"] is None
    (note,) = found["notes"]
    assert "every row is predicted as 10, the label of 75" in note
    written("d", features, np.full(ROWS, 20))
    found = figures_of(model, data, capsysbinary=capsysbinary)
    assert (found["auc"], found["balanced_accuracy"], found["classes"][0]["recall"]) == (None, 0.0, None)
    assert "no row has the label 10: its recall and the AUC are undefined" in found["notes"][0]
    text = good("evaluate", model, data, capsysbinary=capsysbinary)
    assert "AUC                undefined" in text
    assert "note: every row is predicted as 10" in text


def test_large_confusion_is_left_to_json():
    classes = [{"label": float(c), "rows": 1, "predicted": 1, "right": 1} for c in range(13)]
    rest = dict.fromkeys(("recall", "precision", "f1", "auc"), 1.0)
    figures = {"data": "d", "rows": 13, "loss": "softmax", "model": "0" * 64, "accuracy": 1.0, "notes": []}
    figures |= {"classes": [entry | rest for entry in classes], "confusion": np.eye(13, dtype=int).tolist()}
    assert "predicted as (across)" not in as_text(figures)
    small = figures | {"confusion": [[1, 0], [0, 1]], "classes": figures["classes"][:2]}
    assert "predicted as (across)" in as_text(small)
    assert mean(np.ones(2), Solo()) == 1.0
