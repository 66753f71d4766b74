"""The module's part of a model file: which tensors are read, and which fit what the file says of them."""

import io
import json

import h5py
import numpy as np
import pytest

from mpi_opt.errors import DataError
from mpi_opt.model import Model, load_model, save_model
from mpi_opt.modelstate import hash_state, misfit_module, read_state, write_state
from mpi_opt.predicting import reading_of

STATE = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones(2, dtype=np.float16),
    "seen": np.array(3),
    "mask": np.array([True, False]),
}
MODULE = {"name": "mlp", "options": {}, "shape": [3], "dtype": "float32", "parameters": ["weight"]}


def written(state):
    file = h5py.File(io.BytesIO(), "w")
    write_state(file, state)
    return file["state"]


def test_numbers_of_the_other_byte_order_are_the_same():
    """As a host of the other order would write them; PyTorch takes the host's own alone."""

    class Bytes:
        def __init__(self):
            self.all = b""

        def update(self, data):
            self.all += bytes(data)

    swapped = {n: a.astype(a.dtype.newbyteorder(">")) for n, a in STATE.items()}
    found, digests = read_state(written(swapped), 1000), (Bytes(), Bytes())
    for name, values in STATE.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype
        assert found[name].dtype.isnative
    for digest, state in zip(digests, (STATE, found), strict=True):
        hash_state(digest, state)
    assert digests[0].all == digests[1].all


@pytest.mark.parametrize("kind", [np.longdouble, np.complex64, "S3"])
def test_numbers_that_pytorch_has_not_are_refused(kind):
    if np.dtype(kind) == np.float64:
        pytest.skip("long double is double here")
    with pytest.raises(ValueError, match="/state/w is "):
        read_state(written({"w": np.zeros(2, dtype=kind)}), 1000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameters": ["seen"]}, "seen is int64; needed is float32, as module.dtype says"),
        ({"parameters": ["half"]}, "half is float16; needed is float32"),
        ({"dtype": "float64"}, "weight is float32; needed is float64"),
        ({"parameters": ["weight", "weight"]}, "needed are different texts"),
        ({"parameters": [["weight"]]}, "needed are different texts"),
        ({"parameters": []}, "none: needed are tensors of the state"),
        ({}, ""),
    ],
)
def test_parameters_are_of_the_type_that_is_computed_in(change, said):
    found = misfit_module(json.dumps(MODULE | change), STATE, 3)
    assert said in found
    assert bool(said) == bool(found)


def saved(path, job, module=None, state=None) -> Model:
    save_model(
        path,
        np.zeros(6),
        loss="softmax",
        labels={0.0: 0.0, 1.0: 1.0},
        features=3,
        intercept=False,
        index_base=0,
        l2=0.0,
        job=job,
        provenance={},
        module=module,
        state=state,
    )
    return load_model(path)


def test_a_job_whose_data_are_no_table_names_the_file(tmp_path):
    model = saved(tmp_path / "model.h5", "data = 3")
    with pytest.raises(DataError, match=r"model\.h5: the job in it has data = 3; allowed is a table"):
        reading_of(model, name="model.h5")


@pytest.mark.torch
@pytest.mark.parametrize("seed", ["-4", '"x"', "true"])
def test_a_job_whose_seed_is_none_names_the_file(tmp_path, seed):
    pytest.importorskip("torch")
    from mpi_opt.restoring import restore

    model = saved(tmp_path / "model.h5", f"seed = {seed}", MODULE, STATE)
    with pytest.raises(DataError, match=r"model\.h5: the job in it has seed = .*; allowed are integers from 0"):
        restore(model, name="model.h5")
