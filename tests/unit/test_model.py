"""The model file: what was saved is loaded, and nothing else."""

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_opt.datasets.preparation import Preparation
from mpi_opt.errors import DataError, DivergedError
from mpi_opt.model import load_model, save_model

GIVEN = {
    "loss": "logistic",
    "labels": {0.0: -1.0, 1.0: 1.0},
    "features": 4,
    "intercept": True,
    "index_base": 1,
    "l2": 1 / 3,
    "job": "name = 'ü'\n",
    "provenance": {"host": "a", "nodes": 4, "seconds": 0.1, "resumed": False},
}


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (5, 1)),
        ({"intercept": False}, (4, 1)),
        ({"loss": "squared", "labels": None}, (5, 1)),
        ({"loss": "softmax", "labels": {3.0: 0.0, 5.0: 1.0, 9.0: 2.0}}, (5, 3)),
        ({"job": "a = 1\n" * 20_000, "index_base": 0}, (5, 1)),
        ({"labels": {2.0: 1.0, 1.0: -1.0}, "class_weights": {2.0: 0.5, 1.0: 3.0}}, (5, 1)),
        ({"loss": "squared-hinge", "labels": {9.0: 0.0, 3.0: 1.0, 5.0: 2.0}}, (5, 3)),
        ({"validation": {"l2": [0.1, 1.0], "loss": [0.5, None], "folds": 3}}, (5, 1)),
        ({"names": ("a b", "", "ü\n", "a b"), "words": ("no\0", 'y"es', "")}, (5, 1)),
        ({"loss": "squared", "labels": None, "names": ("a", "b", "c", "d"), "words": None}, (5, 1)),
    ],
)
def test_what_was_saved_is_loaded(tmp_path, changes, shape):
    told = GIVEN | changes
    weights = np.random.default_rng(1).normal(size=shape)
    digest = save_model(tmp_path / "model.h5", weights.ravel(), **told)
    model = load_model(tmp_path / "model.h5")
    np.testing.assert_array_equal(model.weights, weights.ravel())
    np.testing.assert_array_equal(model.matrix, weights)
    assert {name: getattr(model, name) for name in told} == told
    assert {type(model.intercept), type(model.features), type(model.l2)} == {bool, int, float}
    assert model.classes == len(told["labels"] or ())
    assert model.sha256 == digest
    assert model.preparation == Preparation()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.h5"]
    with pytest.raises(ValueError, match="read-only"):
        model.weights[0] = 0.0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9), st.floats(0, 1e300))
def test_any_finite_numbers_survive(tmp_path_factory, weights, l2):
    path = tmp_path_factory.mktemp("m") / "model.h5"
    vector = np.array(weights)
    save_model(path, vector, **GIVEN | {"features": len(weights), "intercept": False, "l2": l2})
    model = load_model(path)
    assert model.weights.tobytes() == vector.tobytes()
    assert model.l2 == l2


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file["weights"].__setitem__(0, 5.0),
        lambda file: file["weights"].__setitem__(0, -0.0),
        lambda file: file.attrs.__setitem__("l2", 0.5),
        lambda file: file.attrs.__setitem__("labels", "[[0.0, 1.0], [1.0, -1.0]]"),
        lambda file: file.attrs.__setitem__("extra", 1),
        lambda file: file.attrs.__delitem__("job"),
        lambda file: file.attrs.__delitem__("sha256"),
        lambda file: file.__delitem__("weights"),
    ],
)
def test_any_change_is_noticed(tmp_path, change):
    path = tmp_path / "model.h5"
    save_model(path, np.zeros(5), **GIVEN)
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(DataError, match=r"model\.h5: damaged"):
        load_model(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model.h5"
    with pytest.raises(DataError, match="no such file"):
        load_model(path)
    path.write_text("no model")
    with pytest.raises(DataError, match="cannot be opened as HDF5"):
        load_model(path)
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "mpi_opt metrics"
    with pytest.raises(DataError, match="expected 'mpi_opt model'"):
        load_model(path)
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "mpi_opt model"
        file.attrs["format_version"] = 5
    with pytest.raises(DataError, match="model version 5"):
        load_model(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": 5}, r"weights of shape \(5,\), but 5 features, intercept = True and 1 column"),
        ({"loss": "softmax", "labels": {3.0: 0.0, 4.0: 1.0}}, "2 column"),
        ({"loss": "softmax"}, "needed are 0, 1"),
        ({"labels": {3.0: 0.0, 4.0: 1.0}}, "needed are -1 and"),
        ({"labels": {3.0: 1.0}}, "needed are -1 and"),
        ({"labels": {3.0: 0.0, 4.0: 1.0, 5.0: 2.0}}, "3 column"),
        ({"labels": {3.0: 0.0, 4.0: 1.0, 5.0: 1.0}}, "needed are 0, 1"),
        ({"labels": {3.0: -1.0, float("inf"): 1.0}}, "different finite"),
        ({"labels": None}, "a logistic model needs its labels"),
        ({"loss": "huber"}, "has no labels"),
        ({"loss": "hinge"}, "allowed are logistic, squared"),
        ({"features": -1, "intercept": True}, "features = -1"),
        ({"class_weights": {7.0: 1.0}}, "class_weights"),
        ({"class_weights": {1.0: -1.0}}, "class_weights"),
        ({"preparation": Preparation("max-abs", None, np.ones(3))}, "preparation.factor: needed are 4"),
        ({"preparation": Preparation("sideways")}, "preparation.columns = 'sideways'"),
        ({"loss": "softmax", "labels": None}, "needs its labels"),
        ({"index_base": 2}, "index_base = 2"),
        ({"l2": -1.0}, "l2 = -1.0"),
        ({"l2": float("nan")}, "l2 = nan"),
        ({"names": ("a", "b", "c")}, "3 names of features: needed are 4"),
        ({"names": ("a", "b", "c", 4)}, "names of features: needed is a list of texts"),
        ({"names": ("a", "b", "c", "\ud800")}, "names of features: one cannot be written in UTF-8"),
        ({"names": ("a", "b", "c", "d" * (1 << 24))}, "names of features: more than 16777216 bytes"),
        ({"words": ("a",)}, "1 words for labels: the labels must be numbers from 0 to 0"),
        ({"words": ("a", "a")}, "different ones"),
        ({"words": ("a", "b"), "labels": {0.5: -1.0, 1.0: 1.0}}, "the labels must be numbers"),
        ({"words": ("a", "b"), "labels": {-1.0: -1.0, 1.0: 1.0}}, "the labels must be numbers"),
        ({"words": ("a", "b"), "loss": "squared", "labels": None}, "a model of numbers has none"),
    ],
)
def test_what_does_not_fit_is_not_saved(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        save_model(tmp_path / "model.h5", np.zeros(5), **GIVEN | changes)
    assert not list(tmp_path.iterdir())


def test_as_many_names_as_there_is_room_for(tmp_path):
    names = ("ü" * (1 << 22), "b" * (1 << 23), "", "")
    save_model(tmp_path / "model.h5", np.zeros(5), **GIVEN, names=names)
    assert load_model(tmp_path / "model.h5").names == names


def test_labels_are_called_by_their_words(tmp_path):
    facts = GIVEN | {"loss": "softmax", "labels": {0.0: 0.0, 2.0: 1.0}, "words": ["new york", "b", "é"]}
    save_model(tmp_path / "model.h5", np.zeros(10), **facts)
    model = load_model(tmp_path / "model.h5")
    called = {0.0: '"new york"', 1.0: "b", 2.0: "é", 3.0: "3", -1.0: "-1", 0.5: "0.5"}
    assert {label: model.called(label) for label in called} == called


def test_a_diverged_model_is_not_saved_and_the_old_one_stays(tmp_path):
    path = tmp_path / "model.h5"
    save_model(path, np.ones(5), **GIVEN)
    with pytest.raises(DivergedError, match="1 of 5 weights"):
        save_model(path, np.array([1, np.nan, 1, 1, 1]), **GIVEN)
    assert load_model(path).weights.tolist() == [1.0] * 5
    save_model(path, np.full(5, 2.0), **GIVEN)
    assert load_model(path).weights.tolist() == [2.0] * 5


def test_the_preparation_is_kept(tmp_path):
    shift, factor = np.random.default_rng(2).normal(size=(2, 4))
    save_model(tmp_path / "model.h5", np.ones(5), **GIVEN, preparation=Preparation("standard", shift, factor, "l2"))
    kept = load_model(tmp_path / "model.h5").preparation
    assert (kept.columns, kept.rows) == ("standard", "l2")
    np.testing.assert_array_equal([kept.shift, kept.factor], [shift, factor])


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, (1.0, 0.0)),
        ({"labels": {1.0: 1.0, 2.0: -1.0}}, (1.0, 2.0)),
        ({"loss": "softmax", "labels": {9.0: 0.0, 3.0: 1.0, 5.0: 2.0}}, (9.0, 3.0, 5.0)),
        ({"loss": "softmax", "labels": {3.0: 0.0, 5.0: 1.0}}, (3.0, 5.0)),
        ({"loss": "huber", "labels": None}, ()),
    ],
)
def test_labels_stand_in_the_order_of_columns(tmp_path, changes, order):
    columns = len(order) if changes.get("loss") == "softmax" else 1
    save_model(tmp_path / "model.h5", np.ones(5 * columns), **GIVEN | changes)
    model = load_model(tmp_path / "model.h5")
    assert (model.order, model.columns) == (order, columns)


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(DataError, match="is a folder; name the model file$"):
        load_model(tmp_path)
    save_model(tmp_path / "model.h5", np.ones(5), **GIVEN)
    with pytest.raises(DataError, match=r"is a folder; name the model file, .*model\.h5$"):
        load_model(tmp_path)
