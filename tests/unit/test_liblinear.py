"""LIBLINEAR's text: its own library predicts alike with our models, and we with its; broken text is refused by line."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from liblinear import liblinear as library
from liblinear import liblinearutil
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file
from support.commands import ROOT, simulate

from mpi_opt import cli
from mpi_opt.datasets.preparation import Preparation
from mpi_opt.errors import DataError, JobError
from mpi_opt.liblinear import import_liblinear, write_liblinear
from mpi_opt.model import load_model, save_model
from mpi_opt.modelinfo import as_text, facts
from mpi_opt.predictor import decide, has_probabilities, margins, probabilities

FEATURES = 9


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@pytest.fixture
def features(rng):
    x = np.where(rng.random((300, FEATURES)) < 0.5, rng.normal(size=(300, FEATURES)), 0.0)
    x[:5] = 0.0  # without an intercept their margins are 0
    return x


def model_of(tmp_path, weights, loss, labels, intercept, preparation=None, index_base=1):
    save_model(
        tmp_path / "model.h5",
        np.ravel(weights),
        loss=loss,
        labels=labels,
        features=FEATURES,
        intercept=intercept,
        index_base=index_base,
        l2=0.1,
        job="",
        provenance={},
        preparation=preparation,
    )
    return load_model(tmp_path / "model.h5")


def theirs(path, x, chances=False):
    """Return what LIBLINEAR's library predicts with the model in a file: labels and values."""
    model = liblinearutil.load_model(str(path))
    assert model is not None
    labels, _, values = liblinearutil.predict([], csr_matrix(x), model, "-q -b 1" if chances else "-q")
    return np.array(labels), np.array(values), list(model.get_labels())


def ours(model, x):
    z = margins(model, x)
    return z if model.labels is None else np.array(model.order)[decide(z)]


MODELS = [
    ("logistic", {3.0: -1.0, 7.0: 1.0}, 1),
    ("logistic", {7.0: -1.0, 3.0: 1.0}, 1),
    ("logistic", {-1.0: 1.0, 0.0: 2.0, 5.0: 0.0}, 3),
    ("squared-hinge", {-1.0: -1.0, 1.0: 1.0}, 1),
    ("squared-hinge", {10.0: 0.0, 20.0: 1.0, 50.0: 2.0}, 3),
    ("softmax", {10.0: 0.0, 20.0: 1.0, 50.0: 2.0}, 3),
    ("softmax", {10.0: 0.0, 20.0: 1.0}, 2),
    ("squared", None, 1),
    ("huber", None, 1),
]


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("loss", "labels", "columns"), MODELS)
def test_liblinear_predicts_as_we_do(loss, labels, columns, intercept, prepared, features, rng, tmp_path):
    weights = rng.normal(size=(FEATURES + intercept, columns))
    preparation = Preparation("standard", *rng.normal(size=(2, FEATURES))) if prepared else None
    model = model_of(tmp_path, weights, loss, labels, intercept, preparation)
    notes = write_liblinear(model, tmp_path / "text")
    assert ("no probabilities" in " ".join(notes)) == (loss == "softmax" and columns > 2)
    found, values, order = theirs(tmp_path / "text", features)
    if labels is None:
        np.testing.assert_allclose(found, ours(model, features), rtol=1e-12, atol=1e-13)
        return
    np.testing.assert_array_equal(found, ours(model, features))
    if loss == "logistic" or columns == 2:
        _, values, order = theirs(tmp_path / "text", features, chances=True)
        mine = probabilities(model, margins(model, features)).T
        np.testing.assert_allclose(values, mine[:, [model.order.index(label) for label in order]], rtol=0, atol=1e-13)
    elif columns > 1:
        np.testing.assert_allclose(values, margins(model, features).T, rtol=1e-12, atol=1e-13)
    # and back: the same numbers, however often
    import_liblinear(tmp_path / "text", tmp_path / "back.h5", softmax=loss == "softmax" and columns > 2)
    back = load_model(tmp_path / "back.h5")
    np.testing.assert_array_equal(ours(back, features), ours(model, features))
    if not prepared and (loss, columns) != ("softmax", 2):
        assert (back.weights.tobytes(), back.order, back.loss) == (model.weights.tobytes(), model.order, loss)


@pytest.mark.parametrize("bias", [-1, 1, 2.5])
@pytest.mark.parametrize(
    ("solver", "names"),
    [(solver, names) for solver in range(8) for names in ((1, -1), (-1, 1), (3, 1, 2))]
    + [(solver, (1, -1)) for solver in (11, 12, 13)],
)
def test_we_predict_as_liblinear_does(solver, bias, names, features, rng, tmp_path):
    truth = np.array(names)[(features @ rng.normal(size=(FEATURES, len(names))) + 0.3).argmax(axis=1)]
    first = int(np.flatnonzero(truth == names[0])[0])
    order = np.argsort(np.arange(300) != first, kind="stable")  # labels are numbered as they come
    x, y = features[order], truth[order].astype(float)
    if solver > 10:
        y = x @ rng.normal(size=FEATURES)
    model = liblinearutil.train(y, csr_matrix(x), f"-s {solver} -B {bias} -q -e 0.01")
    liblinearutil.save_model(str(tmp_path / "text"), model)
    chances = solver in (0, 6, 7)
    found, values, order = theirs(tmp_path / "text", x, chances)
    import_liblinear(tmp_path / "text", tmp_path / "model.h5")
    back = load_model(tmp_path / "model.h5")
    assert back.provenance["solver_type"] == library.solver_names(solver).name
    assert has_probabilities(back) == chances
    if solver > 10:
        np.testing.assert_allclose(ours(back, x), found, rtol=1e-12, atol=1e-13)
        return
    np.testing.assert_array_equal(ours(back, x), found)
    assert list(back.order) == order
    if chances:
        np.testing.assert_allclose(probabilities(back, margins(back, x)).T, values, rtol=0, atol=1e-13)


def test_columns_from_0_are_said(rng, tmp_path):
    model = model_of(tmp_path, rng.normal(size=FEATURES), "squared", None, False, index_base=0)
    assert "counts columns from 1" in write_liblinear(model, tmp_path / "text")[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"preparation": Preparation(rows="l2")}, "divides each row by its l2 norm"),
        ({"labels": {0.5: -1.0, 1.0: 1.0}}, "label 0.5 is no 32-bit integer"),
        ({"labels": {3e9: -1.0, 1.0: 1.0}}, "label 3000000000.0 is no 32-bit integer"),
    ],
)
def test_what_the_text_cannot_say_is_refused(changes, words, tmp_path):
    given = {"labels": {1.0: -1.0, 2.0: 1.0}, "intercept": False, "loss": "logistic", "weights": np.ones(FEATURES)}
    with pytest.raises(JobError, match=words):
        write_liblinear(model_of(tmp_path, **given | changes), tmp_path / "text")
    assert not (tmp_path / "text").exists()


GOOD = "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 3\nbias 1\nw\n0.5 \n-1 \n2e-3 \n4 \n"


def test_text_may_be_laid_out_freely(tmp_path):
    """LIBLINEAR reads words, wherever lines end."""
    (tmp_path / "text").write_text(GOOD.replace("0.5 \n-1 ", "0.5 -1"))
    import_liblinear(tmp_path / "text", tmp_path / "model.h5")
    assert load_model(tmp_path / "model.h5").weights.tolist() == [0.5, -1, 2e-3, 4]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("L2R_LR", "ONECLASS_SVM", "text:6: solver_type ONECLASS_SVM: allowed are"),
        ("solver_type L2R_LR\n", "", "text:5: solver_type has 0 values, needed is 1"),
        ("nr_class 2", "nr_class 3", "text:6: label has 2 values, needed is 3"),
        ("nr_class 2", "nr_class 1", "text:6: nr_class 1: needed is a whole number from 2"),
        ("nr_class 2", "nr_class two", "nr_class two"),
        ("nr_class 2", "nr_class 99999999999999", "nr_class 99999999999999"),
        ("label 1 -1", "label 1 1", "different numbers"),
        ("label 1 -1", "label 1 0.5", "label 0.5: needed is a whole number"),
        ("label 1 -1", "label 1 -1\nlabel 1 -1", "text:4: 'label 1 -1' where a new key or w belongs"),
        ("nr_feature 3", "nr_feature -3", "nr_feature -3"),
        ("nr_feature 3", "nr_feature 2000000000", "ends after 4 of 2000000001 numbers: the file is cut off"),
        ("nr_feature 3", "nr_feature 2", "text:10: more than the 3 numbers"),
        ("bias 1", "bias one", "bias one: needed is a finite number"),
        ("bias 1", "bias inf", "bias inf: needed is a finite number"),
        ("-1 \n", "minus \n", "text:8: 'minus': needed are numbers"),
        ("-1 \n", "1_0 \n", "text:8: '1_0': needed are numbers"),
        ("-1 \n", "nan \n", "number 2 behind w is not finite"),
        ("w\n", "", "text:6: '0.5' where a new key or w belongs"),
        (GOOD[GOOD.index("w\n") :], "", "text:5: ends before w"),
        (GOOD, "", "text:0: ends before w"),
        ("-1 \n", "ü \n", "is no text of LIBLINEAR's, at byte"),
    ],
)
def test_broken_text_is_refused_by_line(old, new, words, tmp_path):
    assert old in GOOD
    (tmp_path / "text").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(DataError) as told:
        import_liblinear(tmp_path / "text", tmp_path / "model.h5")
    assert words in str(told.value)
    assert str(tmp_path / "text") in str(told.value)
    assert not (tmp_path / "model.h5").exists()


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="ascii"), st.integers(0, len(GOOD)))
def test_altered_text_gives_a_model_or_an_error(tmp_path_factory, at, letter, end):
    folder = tmp_path_factory.mktemp("text")
    (folder / "text").write_text((GOOD[:at] + letter + GOOD[at + 1 :])[:end])
    try:
        import_liblinear(folder / "text", folder / "model.h5")
    except (DataError, JobError) as error:
        told = str(error)
    else:
        told = str(folder / "text") if load_model(folder / "model.h5").columns == 1 else ""
    assert str(folder / "text") in told


def test_only_columns_of_classes_can_be_softmax(tmp_path):
    (tmp_path / "text").write_text(GOOD)
    with pytest.raises(JobError, match="of type L2R_LR with 2 classes; allowed is MCSVM_CS"):
        import_liblinear(tmp_path / "text", tmp_path / "model.h5", softmax=True)


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mpi_opt.commands.model.quiet_pipes", lambda: None)
    (tmp_path / "text").write_text(GOOD)
    assert cli.main(["model", "import", "text", "m.h5"]) == 0
    assert cli.main(["model", "info", "m.h5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["labels"], told["intercepts"], told["loss"]) == ([[-1.0, -1.0], [1.0, 1.0]], [4.0], "logistic")
    assert told["sha256"] == load_model("m.h5").sha256
    assert cli.main(["model", "info", "m.h5"]) == 0
    assert "features 3, the first called 1 in text" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["model", "export", "m.h5", "again"]) == 0
    assert [line.split() for line in (tmp_path / "again").read_text().splitlines()][:6] == [
        line.split() for line in GOOD.splitlines()[:6]
    ]
    for arguments, code in (
        (["info", "text"], 3),
        (["import", "m.h5", "o.h5"], 3),
        (["import", "none", "o.h5"], 3),
        (["import", ".", "o.h5"], 3),
        (["export", "m.h5", "none/out"], 2),
        (["import", "text", "none/out"], 2),
        (["export", "."], 2),
        ([], 2),
    ):
        assert cli.main(["model", *arguments]) == code
        assert capsys.readouterr().err.startswith("mpi-opt: error: ")


def test_info_of_much(rng, tmp_path):
    labels = {float(c): float(c) for c in range(20)}
    weights = rng.normal(size=(FEATURES + 1, 20))
    prepared = Preparation("min-max", np.ones(FEATURES), np.ones(FEATURES), "l1")
    text = as_text(facts(model_of(tmp_path, weights, "softmax", labels, True, prepared)))
    assert "... (20)" in text
    assert "min-max, shifted" in text
    assert "divided by their l1 norm" in text


def test_info_of_validation_has_a_line_for_each_value_tried(rng, tmp_path):
    model = model_of(tmp_path, rng.normal(size=FEATURES), "logistic", {-1.0: -1.0, 1.0: 1.0}, False)
    table = [{"l2": l2, "loss_mean": 0.123456789, "losses": [0.1, 0.2]} for l2 in (0.1, 0.01)]
    lines = as_text(facts(replace(model, validation={"chosen": 0.01, "folds": 2, "table": table}))).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("validation"))
    assert lines[at].split(maxsplit=1)[1] == "chosen = 0.01, folds = 2"
    assert [line.split(maxsplit=1)[1] for line in lines[at + 1 : at + 3]] == [
        "l2 = 0.1, loss_mean = 0.123457",
        "l2 = 0.01, loss_mean = 0.123457",
    ]


@pytest.mark.data
def test_a9a_there_and_back(datasets, tmp_path, capsys, monkeypatch):
    """Accuracy on the test set by the commands, LIBLINEAR's own predictions with our model, and ours with its."""
    monkeypatch.setenv("MPI_OPT_DATASETS", str(datasets))
    monkeypatch.chdir(tmp_path)
    simulate(ROOT / "jobs" / "a9a-newton.toml", 2, tmp_path / "run", "data.test=", env=dict(os.environ))
    assert cli.main(["evaluate", "run/model.h5", "a9a.t", "--json", "--out", "labels"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["accuracy"] == pytest.approx(0.8498, abs=2e-4)
    assert cli.main(["model", "export", "run/model.h5", "text"]) == 0
    (packed,) = [path for path in (datasets / "a9a").iterdir() if path.name.startswith("a9a.t")]
    x, truth = load_svmlight_file(str(packed), n_features=123)
    model = liblinearutil.load_model("text")
    found, (accuracy, _, _), chances = liblinearutil.predict(truth, csr_matrix(x), model, "-q -b 1")
    np.testing.assert_array_equal(np.loadtxt("labels"), found)
    assert accuracy / 100 == pytest.approx(figures["accuracy"], abs=1e-12)
    assert cli.main(["predict", "run/model.h5", "a9a.t", "--what", "probability", "--out", "chances"]) == 0
    assert (tmp_path / "chances").read_text().startswith("labels 1 -1\n")
    np.testing.assert_allclose(np.loadtxt("chances", skiprows=1)[:, 1:], chances, rtol=0, atol=1e-13)
    # the optimum of LIBLINEAR's own training, C = 1/(l2 N) = 1
    (packed,) = [p for p in (datasets / "a9a").iterdir() if p.name.startswith("a9a") and not p.name.startswith("a9a.t")]
    x, truth = load_svmlight_file(str(packed), n_features=123)
    liblinearutil.save_model("trained", liblinearutil.train(truth, csr_matrix(x), "-s 0 -c 1 -e 1e-8 -q"))
    assert cli.main(["model", "import", "trained", "theirs.h5"]) == 0
    back, mine = load_model("theirs.h5"), load_model("run/model.h5")
    signs = 1.0 if back.order == mine.order else -1.0
    np.testing.assert_allclose(signs * back.weights, mine.weights, atol=1e-4)
    assert cli.main(["evaluate", "theirs.h5", "a9a.t", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["log_loss"] == pytest.approx(figures["log_loss"], abs=1e-6)
