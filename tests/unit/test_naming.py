"""Models know what their features are called, and which words their labels stand for: from table to prediction."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix

from mpi_opt import cli, launch
from mpi_opt.datasets.shardfile_open import open_shards
from mpi_opt.errors import DataError
from mpi_opt.estimators.storage import read
from mpi_opt.model import load_model, save_model
from mpi_opt.sklearn import DistributedLogisticRegression, DistributedSoftmaxRegression
from mpi_opt.words import word_text

WORDS = ["lemon", "water melon", "apple"]
NAMES = ["weight", "sourness", "colour"]
JOB = """name = "fruit"
[data]
train = "{train}"
intercept = true
{more}
[problem]
loss = "{loss}"
l2 = 0.01
[algorithm]
name = "newton"
[stop]
steps = 50
gradient_norm = 1e-10
"""
TABLE = 'label = "fruit"\nlabels = ["lemon", "water melon", "apple"]'


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    for name in launch.KNOWN_VARIABLES:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)
    for command in ("predict", "evaluate", "model"):
        monkeypatch.setattr(f"mpi_opt.commands.{command}.quiet_pipes", lambda: None)
    monkeypatch.chdir(tmp_path)


def fruit(rows=90, classes=3, seed=4):
    """Return a table of fruits, told apart by what they are like, but not without faults."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(classes, size=rows)
    features = np.array([[1.0, 3.0, 0.0], [8.0, 0.0, 1.0], [2.0, 1.0, 2.0]])[kinds] + rng.normal(size=(rows, 3))
    return pd.DataFrame(features, columns=NAMES).assign(fruit=np.array(WORDS)[kinds])


def command(capsys, *words):
    """Return what a command that succeeds prints."""
    code = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def refused(capsys, *words):
    """Return the one line that a command with faulty data ends with."""
    assert cli.main([str(word) for word in words]) == 3
    out, err = capsys.readouterr()
    assert not out
    (line,) = [line for line in err.splitlines() if "note:" not in line]
    return line


def train(capsys, source="train.csv", more=TABLE, loss="softmax"):
    """Train and return the model file's path."""
    Path("job.toml").write_text(JOB.format(train=source, more=more, loss=loss))
    command(capsys, "run", "job.toml", "--out", "run", "--progress", "none", "--overwrite")
    return Path("run/model.h5")


@pytest.fixture(params=["csv", "h5", "again.h5"])
def trained(request, capsys):
    """A model of a table, of what the table was converted to, and of what that was."""
    table = fruit()
    table.to_csv("train.csv", index=False)
    if request.param == "csv":
        return table, train(capsys)
    labels = ["--label", "fruit", "--labels", ",".join(WORDS)]
    command(capsys, "data", "convert", "train.csv", "--out", "train.h5", *labels)
    if request.param == "again.h5":
        command(capsys, "data", "convert", "train.h5", "--out", "again.h5", "--sparse")
        Path("train.h5").unlink()
        Path("again.h5").rename("train.h5")
    return table, train(capsys, "train.h5", "")


def reference(table):
    """Return scikit-learn's optimum of the same objective."""
    fitted = LogisticRegression(C=1 / (0.01 * len(table)), tol=1e-10, max_iter=10_000)
    return fitted.fit(table[NAMES].to_numpy(), table["fruit"])


def test_words_come_back(trained, capsys):
    table, model = trained
    test, theirs = fruit(60, seed=5), reference(table)
    test.to_csv("test.csv", index=False)
    expected = theirs.predict(test[NAMES].to_numpy())
    assert set(expected) == set(WORDS)
    label = ["--label", "fruit"]
    out = command(capsys, "predict", model, "test.csv", *label)
    assert out.splitlines() == [word_text(word) for word in expected]
    assert '"water melon"' in out
    out = command(capsys, "predict", model, "test.csv", *label, "--numbers")
    assert out.splitlines() == [str(WORDS.index(word)) for word in expected]
    head, *lines = command(capsys, "predict", model, "test.csv", *label, "--what", "probability").splitlines()
    assert head == 'labels lemon "water melon" apple'
    chances = [line.rsplit(" ", 3) for line in lines]
    assert [line[0] for line in chances] == [word_text(word) for word in expected]
    ours = np.array([line[1:] for line in chances], dtype=float)
    order = [theirs.classes_.tolist().index(word) for word in WORDS]
    np.testing.assert_allclose(ours, theirs.predict_proba(test[NAMES].to_numpy())[:, order], atol=1e-5)
    figures = json.loads(command(capsys, "evaluate", model, "test.csv", *label, "--json"))
    assert figures["confusion"] == confusion_matrix(test["fruit"], expected, labels=WORDS).tolist()
    assert [(entry["label"], entry["word"]) for entry in figures["classes"]] == list(enumerate(WORDS))
    shown = command(capsys, "evaluate", model, "test.csv", *label)
    assert sum("water melon" in line for line in shown.splitlines()) == 3


def test_the_file_tells(trained, capsys):
    _, path = trained
    model = load_model(path)
    assert (list(model.names), list(model.words)) == (NAMES, WORDS)
    shown = command(capsys, "model", "info", path)
    assert 'lemon, "water melon", apple\n' in shown
    assert "weight, sourness, colour\n" in shown
    told = json.loads(command(capsys, "model", "info", path, "--json"))
    assert (told["names"], told["words"]) == (NAMES, WORDS)
    assert cli.main(["model", "export", str(path), "text"]) == 0
    assert "label 0 1 2\n" in Path("text").read_text()
    assert '0 for lemon, 1 for "water melon", 2 for apple' in capsys.readouterr().err


def test_other_columns_are_refused(trained, capsys):
    _, model = trained
    test = fruit(12, seed=6)
    swapped = test[["sourness", "fruit", "weight", "colour"]]
    swapped.to_csv("swapped.csv", index=False)
    test.rename(columns={"colour": "color"}).to_csv("renamed.csv", index=False)
    labels = ["--label", "fruit", "--labels", ",".join(WORDS)]
    command(capsys, "data", "convert", "swapped.csv", "--out", "swapped.h5", *labels)
    for name in ("predict", "evaluate"):
        said = f"feature 0 (counted from 0) is called 'sourness', but 'weight' in {model};"
        assert f"swapped.csv: {said}" in refused(capsys, name, model, "swapped.csv", "--label", "fruit")
        assert f"swapped.h5: {said}" in refused(capsys, name, model, "swapped.h5")
        said = f"renamed.csv: feature 2 (counted from 0) is called 'color', but 'colour' in {model};"
        assert said in refused(capsys, name, model, "renamed.csv", "--label", "fruit")
    # which column is the label plays no part, nor does data without names
    test[["fruit", *NAMES]].to_csv("first.csv", index=False)
    test.to_csv("bare.csv", index=False, header=False)
    test[NAMES].to_csv("new.csv", index=False)
    Path("text").write_text("".join(f"0 1:{a!r} 2:{b!r} 3:{c!r}\n" for a, b, c in test[NAMES].to_numpy().tolist()))
    right = command(capsys, "predict", model, "first.csv", "--label", "fruit")
    assert right == command(capsys, "predict", model, "bare.csv", "--label", "3")
    assert right == command(capsys, "predict", model, "new.csv", "--no-label")
    assert right == command(capsys, "predict", model, "text")
    # columns that the model does not have may follow, not come between
    test[[*NAMES, "fruit"]].assign(size=1.0).to_csv("more.csv", index=False)
    more = ["--label", "fruit", "--extra-features", "ignore"]
    assert right == command(capsys, "predict", model, "more.csv", *more)
    test[["weight", "fruit", "sourness"]].assign(size=1.0, colour=1.0).to_csv("between.csv", index=False)
    assert "'size', but 'colour'" in refused(capsys, "predict", model, "between.csv", *more)


def test_words_that_mean_something_else_are_refused(trained, capsys):
    _, model = trained
    fruit(9).to_csv("test.csv", index=False)
    labels = ["--label", "fruit", "--labels", "lemon,apple,water melon"]
    command(capsys, "data", "convert", "test.csv", "--out", "test.h5", *labels)
    said = f"test.h5: its label 1 stands for 'apple', but for 'water melon' in {model};"
    assert said in refused(capsys, "evaluate", model, "test.h5")
    assert command(capsys, "predict", model, "test.h5").split()  # labels play no part
    fruit(9).replace("apple", "pear").to_csv("test.csv", index=False)
    assert "'pear'" in refused(capsys, "evaluate", model, "test.csv", "--label", "fruit")


def test_words_of_two_and_words_never_seen(capsys):
    table = fruit(classes=2)
    table.to_csv("train.csv", index=False)
    model = train(capsys, loss="logistic")
    assert dict(load_model(model).labels) == {0.0: -1.0, 1.0: 1.0}
    expected = reference(table).predict(table[NAMES].to_numpy())
    assert command(capsys, "predict", model, "train.csv").splitlines() == [word_text(word) for word in expected]
    shown = command(capsys, "predict", model, "train.csv", "--what", "probability")
    assert shown.startswith('labels "water melon" lemon\n')
    fruit().to_csv("test.csv", index=False)
    said = f'its labels apple are not among those of {model}, which are lemon, "water melon"'
    assert said in refused(capsys, "evaluate", model, "test.csv")


def test_sets_of_a_job_and_files_of_a_set_mean_the_same(capsys):
    fruit().to_csv("a.csv", index=False)
    fruit(9)[["weight", "colour", "sourness", "fruit"]].to_csv("b.csv", index=False)
    label = ["--label", "fruit", "--labels"]
    command(capsys, "data", "convert", "a.csv", "--out", "a.h5", *label, "lemon,water melon,apple")
    command(capsys, "data", "convert", "b.csv", "--out", "b.h5", *label, "lemon,water melon,apple")
    command(capsys, "data", "convert", "a.csv", "--out", "c.h5", *label, "apple,water melon,lemon")
    for other, said in (
        ("b.h5", "feature 1 (counted from 0) is called 'colour', but 'sourness' in"),
        ("c.h5", "its label 0 stands for 'apple', but for 'lemon' in"),
    ):
        Path("job.toml").write_text(JOB.format(train="a.h5", more=f'test = "{other}"', loss="softmax"))
        line = refused(capsys, "run", "job.toml", "--out", "r", "--progress", "none")
        assert f"{other}: {said} the train set a.h5" in line
        both = JOB.format(train="X", more="", loss="softmax").replace('"X"', f'["a.h5", "{other}"]')
        Path("job.toml").write_text(both)
        line = refused(capsys, "run", "job.toml", "--out", "r", "--progress", "none")
        assert f"{other}: {said}" in line
        assert "a.h5, of the same set" in line


def test_columns_that_were_added_have_no_names(capsys):
    fruit().to_csv("a.csv", index=False)
    command(capsys, "data", "convert", "a.csv", "--out", "a.h5", "--label", "fruit", "--labels", ",".join(WORDS))
    assert open_shards(Path("a.h5")).facts.provenance["names"] == NAMES
    command(capsys, "data", "convert", "a.h5", "--out", "b.h5", "--sparse", "--features", 5)
    model = load_model(train(capsys, "b.h5", ""))
    assert (model.names, model.features, list(model.words)) == (None, 5, WORDS)
    command(capsys, "data", "convert", "a.h5", "--out", "c.h5", "--sparse")
    model = load_model(train(capsys, "c.h5", "features = 5"))
    assert (model.names, model.features) == (None, 5)


def test_estimators_and_the_command_share_names_and_words(capsys):
    table = fruit()
    fitted = DistributedSoftmaxRegression(l2=0.01, tol=1e-10).fit(table[NAMES], table["fruit"].to_numpy(str))
    fitted.save("model.h5")
    model = load_model("model.h5")
    assert (list(model.names), list(model.words)) == (NAMES, sorted(WORDS))
    assert not {"classes", "feature_names"} & model.provenance.keys()
    table.to_csv("train.csv", index=False)
    expected = fitted.predict(table[NAMES])
    out = command(capsys, "predict", "model.h5", "train.csv", "--label", "fruit")
    assert out.splitlines() == [word_text(word) for word in expected]
    table[["sourness", "weight", "colour", "fruit"]].to_csv("swapped.csv", index=False)
    assert "'sourness', but 'weight'" in refused(capsys, "predict", "model.h5", "swapped.csv", "--label", "fruit")
    # and the other way
    kinds = ((DistributedSoftmaxRegression, 3, "softmax"), (DistributedLogisticRegression, 2, "logistic"))
    for kind, classes, loss in kinds:
        table = fruit(classes=classes)
        table.to_csv("train.csv", index=False)
        loaded = kind.load(train(capsys, loss=loss))
        assert loaded.feature_names_in_.tolist() == NAMES
        assert loaded.classes_.tolist() == WORDS[:classes]
        np.testing.assert_array_equal(loaded.predict(table[NAMES]), reference(table).predict(table[NAMES].to_numpy()))
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(table[NAMES[::-1]])


def test_labels_that_are_neither_numbers_nor_text_keep_their_type(capsys):
    table = fruit(classes=2)
    huge = np.array([2**53 + 1, 2**53 + 2])  # no two numbers of float64
    fitted = DistributedLogisticRegression(l2=0.01).fit(table[NAMES], huge[(table["fruit"] == "lemon").astype(int)])
    fitted.save("model.h5")
    loaded = DistributedLogisticRegression.load("model.h5")
    assert loaded.classes_.dtype == huge.dtype
    np.testing.assert_array_equal(loaded.classes_, huge)
    table[NAMES].to_csv("new.csv", index=False)
    out = command(capsys, "predict", "model.h5", "new.csv", "--no-label")
    assert out.splitlines() == [str(label) for label in fitted.predict(table[NAMES]).tolist()]


@pytest.mark.parametrize("name", ["feature_names", "classes"])
def test_what_version_2_kept_in_the_provenance_is_read(name):
    kept = {"feature_names": ["u", "v"], "classes": ["no", "yes"]}[name]
    provenance = {name: json.dumps(kept), "classes_dtype": "<U3"} if name == "classes" else {name: json.dumps(kept)}
    facts = {"features": 2, "intercept": False, "index_base": 1, "l2": 0.1, "job": "", "provenance": provenance}
    save_model("m.h5", np.ones(2), loss="logistic", labels={0.0: -1.0, 1.0: 1.0}, **facts)
    stored = read("m.h5")
    assert list(stored.names if name == "feature_names" else stored.classes) == kept
    if name == "classes":
        save_model("m.h5", np.ones(3), loss="softmax", labels={0.0: 0.0, 1.0: 1.0, 2.0: 2.0}, **facts | {"features": 1})
        with pytest.raises(DataError, match="names 2 labels for 3 classes"):
            read("m.h5")
