"""Damaged model files: a load gives exactly what was saved, or an error that names the file; never anything else."""

import hashlib
import json

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from mpi_opt.datasets.preparation import Preparation
from mpi_opt.errors import DataError
from mpi_opt.metrics.files import image
from mpi_opt.metrics.seal import LENGTH, check_seal, sealed
from mpi_opt.model import load_model, save_model

WEIGHTS = np.random.default_rng(5).normal(size=5)
GIVEN = {
    "loss": "logistic",
    "labels": {1.0: -1.0, 2.0: 1.0},
    "features": 4,
    "intercept": True,
    "index_base": 1,
    "l2": 0.25,
    "job": "name = 'a'\n",
    "provenance": {"nodes": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module")
def whole(folder):
    path = folder / "whole.h5"
    named = {"names": ["a", "b", "c", "ü"], "words": ["x", "y", "z"]}
    save_model(path, WEIGHTS, **GIVEN, **named, preparation=Preparation("standard", np.arange(4.0), np.full(4, 0.5)))
    return path.read_bytes()


@pytest.fixture(scope="module")
def first(folder):
    """A file of version 1, made as that version made it."""
    fields = {
        "format": "mpi_opt model",
        "format_version": 1,
        "loss": "logistic",
        "labels": "[[1.0, -1.0], [2.0, 1.0]]",
        "features": 4,
        "intercept": True,
        "index_base": 1,
        "l2": 0.25,
        "job": "name = 'a'\n",
        "provenance": '{"nodes": 4}',
    }
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode() + WEIGHTS.astype("<f8").tobytes())

    def fill(file):
        file.create_dataset("weights", data=WEIGHTS)
        file.attrs.update(fields)
        file.attrs["sha256"] = digest.hexdigest()

    return image(fill)


def loaded(path, data):
    """Return the model in ``data``, or None for an error as it should be."""
    path.write_bytes(data)
    model, error = None, str(path)
    try:
        model = load_model(path)
    except DataError as found:
        error = str(found)
    assert str(path) in error
    return model


def same(model):
    told = {name: getattr(model, name) for name in GIVEN}
    return told == GIVEN and model.weights.tobytes() == WEIGHTS.tobytes()


def test_version_1_loads(folder, first):
    model = loaded(folder / "first.h5", first)
    assert same(model)
    assert (model.preparation, model.class_weights, model.validation) == (Preparation(), None, None)
    assert (model.names, model.words) == (None, None)


def test_version_2_loads(folder, whole):
    """A file of the latest version without what that version added, as the one before had it."""
    path = folder / "second.h5"
    path.write_bytes(whole[LENGTH:])
    with h5py.File(path, "r+") as file:
        del file.attrs["feature_names"], file.attrs["label_words"]
        file.attrs["format_version"] = 2
        _rehash(file)
    model = loaded(folder / "m.h5", sealed(path.read_bytes()))
    assert same(model)
    assert (model.preparation.columns, model.names, model.words) == ("standard", None, None)


def test_every_flipped_byte_of_a_sealed_file_is_refused(folder, whole):
    assert same(loaded(folder / "m.h5", whole))
    for at in [*range(LENGTH), *range(LENGTH, len(whole), 37)]:
        data = bytearray(whole)
        data[at] ^= 0x41
        assert loaded(folder / "m.h5", bytes(data)) is None, at


@given(st.data())
@limits(max_examples=150)
def test_cut_off_and_patched_files_are_refused(folder, whole, data):
    end = data.draw(st.integers(0, len(whole) - 1), label="end")
    assert loaded(folder / "m.h5", whole[:end]) is None
    begin = data.draw(st.integers(1, len(whole)), label="begin")
    assert loaded(folder / "m.h5", whole[begin:]) is None
    assert loaded(folder / "m.h5", whole + data.draw(st.binary(min_size=1, max_size=9))) is None
    assert loaded(folder / "m.h5", data.draw(st.binary(max_size=2000))) is None


@given(st.data())
@limits(max_examples=200)
def test_damage_to_version_1_never_gives_another_model(folder, first, data):
    """It has no seal, so HDF5 sees the damage; the hash over all contents is what catches it."""
    patch = bytearray(first)
    for at in data.draw(st.lists(st.integers(0, len(first) - 1), max_size=3), label="flips"):
        patch[at] ^= data.draw(st.integers(1, 255), label="by")
    end = data.draw(st.sampled_from([len(first), data.draw(st.integers(0, len(first)))]), label="end")
    model = loaded(folder / "m.h5", bytes(patch[:end]))
    assert model is None or same(model)


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
    st.sampled_from(
        [
            "null",
            "[]",
            "{}",
            "[[1, -1]]",
            "[[1, 1, 1]]",
            '[["a", "b"]]',
            '["a", "b", "c", "d"]',
            "[" * 5000,
            "softmax",
            "l1",
        ]
    ),
    st.builds(
        lambda shape, kind: np.zeros(shape, kind), st.lists(st.integers(0, 3), max_size=3), st.sampled_from("fiS")
    ),
    st.just(h5py.Empty("f8")),
)


@given(st.data())
@limits(max_examples=250)
def test_wrong_attributes_and_arrays_are_refused(folder, whole, first, data):
    """A forger seals what he made, and gives it the hash that fits where it can be made."""
    path = folder / "forged.h5"
    latest = data.draw(st.booleans(), label="latest")
    path.write_bytes(whole[LENGTH:] if latest else first)
    with h5py.File(path, "r+") as file:
        names = [*file.attrs]
        for name in data.draw(st.lists(st.sampled_from([*names, "stray"]), min_size=1, max_size=3), label="names"):
            if data.draw(st.booleans(), label="removed"):
                file.attrs.pop(name, None)
            else:
                file.attrs[name] = data.draw(VALUES, label=name)
        _arrays(file, data)
        if data.draw(st.booleans(), label="hashed"):
            _rehash(file)
    made = path.read_bytes()
    model = loaded(folder / "m.h5", sealed(made) if latest else made)
    if model is not None:  # a forgery without a fault: what it says is what is loaded
        with h5py.File(path) as file:
            assert model.weights.tobytes() == file["weights"][:].tobytes()
            assert {name: getattr(model, name) for name in ("loss", "features", "intercept", "l2")} == {
                name: file.attrs[name] for name in ("loss", "features", "intercept", "l2")
            }
            assert model.weights.size == (model.features + model.intercept) * model.columns
        assert model.names is None or len(model.names) == model.features
        assert all(model.called(label) for label in model.order)


def _arrays(file, data):
    for name in data.draw(
        st.lists(st.sampled_from(["weights", "shift", "factor", "other"]), max_size=2), label="arrays"
    ):
        if name in file:
            del file[name]
        how = data.draw(st.sampled_from(["gone", "group", "huge", "chunked", "scalar", "text", "shaped", "nan"]))
        if how == "group":
            file.create_group(name)
        elif how == "huge":
            file.create_dataset(name, shape=(2**50,), dtype="f8", chunks=(2**20,))
        elif how == "chunked":
            file.create_dataset(name, data=np.ones(5), chunks=(2,))
        elif how == "scalar":
            file.create_dataset(name, data=1.0)
        elif how == "text":
            file.create_dataset(name, data="weights")
        elif how != "gone":
            file.create_dataset(name, data=np.ones((5, 1)) if how == "shaped" else np.full(5, np.nan))


def _rehash(file):
    try:
        fields = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in file.attrs.items()
            if name != "sha256"
        }
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
        for name in sorted(file):
            values = file[name][:5].astype("<f8")
            if fields.get("format_version") != 1:
                digest.update(f"{name} {values.size}\n".encode())
            digest.update(values.tobytes())
        file.attrs["sha256"] = digest.hexdigest()
    except (TypeError, ValueError, AttributeError, OverflowError):
        return


def test_huge_arrays_are_refused_without_room_for_them(folder):
    path = folder / "huge.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "mpi_opt model", "format_version": 1})
        file.create_dataset("weights", shape=(2**50,), dtype="f8", chunks=(2**20,))
    assert loaded(folder / "m.h5", path.read_bytes()) is None


def test_a_sealed_file_without_its_seal_is_refused(folder, whole):
    path = folder / "m.h5"
    path.write_bytes(whole[LENGTH:])
    assert check_seal(path) is False
    with pytest.raises(DataError, match=r"m\.h5: damaged: its first bytes"):
        load_model(path)


def test_other_readers_of_hdf5_open_a_sealed_file(folder, whole):
    path = folder / "m.h5"
    path.write_bytes(whole)
    assert check_seal(path) is True
    with h5py.File(path) as file:
        assert file.userblock_size == LENGTH
        np.testing.assert_array_equal(file["weights"][:], WEIGHTS)
