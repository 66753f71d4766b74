"""Estimators on several ranks: the model of one process, the same bits on all ranks, and errors that reach all."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from support import sklearn_ranks as ranks

from mpi_opt import make_problem
from mpi_opt.sklearn import DistributedLogisticRegression

SCRIPT = Path(ranks.__file__)


@pytest.fixture(scope="module")
def alone():
    """Fits of this process, by number."""
    return [(name, clone(model).fit(*arrays), arrays[0]) for name, model, *arrays in ranks.fits()]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_model_of_one_process_on_all_ranks(n, mpirun, tmp_path, alone):
    mpirun(n, [SCRIPT, tmp_path], timeout=120).check()
    for number, (name, model, X) in enumerate(alone):
        first = dict(np.load(tmp_path / f"{number}_0.npz"))
        for rank in range(1, n):
            with np.load(tmp_path / f"{number}_{rank}.npz") as other:
                for key, value in first.items():
                    np.testing.assert_array_equal(other[key], value, err_msg=f"{name}, rank {rank}, {key}")
        np.testing.assert_allclose(first["coef"], model.coef_, rtol=0, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(first["intercept"], model.intercept_, rtol=0, atol=1e-10, err_msg=name)
        np.testing.assert_array_equal(first["classes"], getattr(model, "classes_", []), err_msg=name)
        assert first["facts"][:2].tolist() == [model.n_rows_, n]
        assert first["facts"][2] == pytest.approx(model.l2_, rel=1e-14)
        loaded = type(model).load(tmp_path / f"{number}.h5")
        np.testing.assert_array_equal(loaded.predict(X), first["predicted"], err_msg=name)
        assert loaded.comm is None

    X, y, _ = ranks.rows()
    exact = DistributedLogisticRegression().fit(X, y)
    of_all_rows = make_problem("logistic", X, 2.0 * y - 1, classes=2, l2=1 / 203, scale=1 / 203, intercept=True)
    for name in ("gossip", "short"):
        first = dict(np.load(tmp_path / f"{name}_0.npz"))
        for rank in range(1, n):
            np.testing.assert_array_equal(np.load(tmp_path / f"{name}_{rank}.npz")["coef"], first["coef"])
        gradient = of_all_rows.gradient(np.append(first["coef"], first["intercept"]))
        assert first["facts"][-1] == pytest.approx(np.linalg.norm(gradient), rel=1e-9)
        if name == "gossip":
            assert np.mean(first["predicted"] == y) > exact.score(X, y) - 0.05
