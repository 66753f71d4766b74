"""Estimators against scikit-learn's own at the same strength, and what they do beside fitting."""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from joblib import Parallel, delayed
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from mpi_opt import Constant, SparqSGD, Trigger
from mpi_opt.compression.identity import Identity
from mpi_opt.errors import DataError
from mpi_opt.estimators.together import feature_names
from mpi_opt.model import load_model, save_model
from mpi_opt.network.collectives import Solo
from mpi_opt.sklearn import (
    DistributedHuber,
    DistributedLinearSVC,
    DistributedLogisticRegression,
    DistributedRidge,
    DistributedSoftmaxRegression,
)

TIGHT = {"tol": 1e-10, "max_iter": 10_000}
CLASSIFIERS = (DistributedLogisticRegression, DistributedSoftmaxRegression, DistributedLinearSVC)


def blobs(classes=2, rows=200, seed=0):
    X, y = make_classification(
        rows,
        8,
        n_informative=5,
        n_classes=classes,
        flip_y=0.15,
        random_state=seed,
        weights=[0.6] if classes == 2 else None,
    )
    return X, y


def line(rows=150, seed=0):
    X, y = make_regression(rows, 6, n_informative=4, noise=5.0, random_state=seed)
    return X, y / y.std()


# --- the optimum ---


@pytest.mark.parametrize("solver", ["local-newton", "newton", "newton-cg", "giant", "lbfgs"])
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_logistic_regression(C, solver):
    X, y = blobs()
    ours = DistributedLogisticRegression(C=C, solver=solver, **TIGHT).fit(X, y)
    theirs = LogisticRegression(C=C, **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)), rtol=1e-10)
    assert ours.l2_ == pytest.approx(1 / (C * 200))
    assert ours.gradient_norm_ <= 1e-10


@pytest.mark.parametrize("kind", [DistributedLogisticRegression, DistributedSoftmaxRegression])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_more_classes(kind, fit_intercept):
    X, y = blobs(classes=4)
    names = np.array(["ant", "bee", "cat", "dodo"])[y]
    ours = kind(C=0.7, fit_intercept=fit_intercept, **TIGHT).fit(X, names)
    theirs = LogisticRegression(C=0.7, fit_intercept=fit_intercept, **TIGHT).fit(X, names)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.coef_.shape == (4, 8)


def test_softmax_of_two_classes_is_logistic_with_half_the_penalty():
    X, y = blobs()
    softmax = DistributedSoftmaxRegression(C=0.5, **TIGHT).fit(X, y)
    logistic = DistributedLogisticRegression(C=1.0, **TIGHT).fit(X, y)
    np.testing.assert_allclose(softmax.coef_, logistic.coef_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(softmax.intercept_, logistic.intercept_, rtol=0, atol=1e-7)
    assert softmax.decision_function(X).shape == (200,)


def test_linear_svc():
    X, y = blobs()
    ours = DistributedLinearSVC(C=0.3, fit_intercept=False, **TIGHT).fit(X, y)
    theirs = LinearSVC(C=0.3, fit_intercept=False, dual=False, tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    assert not ours.intercept_.any()

    ours = DistributedLinearSVC(C=0.3, **TIGHT).fit(X, y)
    signs = 2 * y - 1

    def objective(w):  # the intercept free, which LinearSVC's is not
        gap = np.maximum(1 - signs * (X @ w[:-1] + w[-1]), 0)
        slope = -2 * signs * gap
        return 0.5 * w[:-1] @ w[:-1] + 0.3 * gap @ gap, np.append(w[:-1], 0) + 0.3 * np.append(X.T @ slope, slope.sum())

    found = minimize(objective, np.zeros(9), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 10_000})
    np.testing.assert_allclose(np.append(ours.coef_, ours.intercept_), found.x, rtol=0, atol=1e-6)


def test_svc_of_more_classes_is_one_against_the_rest(tmp_path):
    X, y = blobs(classes=4)
    names = np.array(["ant", "bee", "cat", "dodo"])[y]
    ours = DistributedLinearSVC(C=0.3, fit_intercept=False, **TIGHT).fit(X, names)
    theirs = LinearSVC(C=0.3, fit_intercept=False, dual=False, tol=1e-12, max_iter=100_000).fit(X, names)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    ours = DistributedLinearSVC(C=0.3, warm_start=True).fit(X, names)
    bee = DistributedLinearSVC(C=0.3).fit(X, names == "bee")
    np.testing.assert_array_equal(ours.coef_[1], bee.coef_[0])
    assert ours.n_rounds_ > bee.n_rounds_
    ours.save(tmp_path / "model.h5")
    assert load_model(tmp_path / "model.h5").columns == 4
    np.testing.assert_array_equal(DistributedLinearSVC.load(tmp_path / "model.h5").coef_, ours.coef_)
    assert ours.fit(X, names).n_iter_ == 0


def test_probabilities_of_one_against_the_rest_are_not_taken_for_softmax(tmp_path):
    facts = {"features": 1, "intercept": False, "index_base": 1, "l2": 0.1, "job": "", "provenance": {}}
    labels = {1.0: 0.0, 2.0: 1.0, 3.0: 2.0}
    save_model(tmp_path / "model.h5", np.ones(3), loss="logistic", labels=labels, **facts)
    with pytest.raises(DataError, match="each against the rest; DistributedLogisticRegression reads no such model"):
        DistributedLogisticRegression.load(tmp_path / "model.h5")


@pytest.mark.parametrize("alpha", [0.0, 1.0, 300.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge(alpha, fit_intercept):
    X, y = line()
    y = y + 3
    weight = np.random.default_rng(0).uniform(0, 3, y.size)
    ours = DistributedRidge(alpha=alpha, fit_intercept=fit_intercept, **TIGHT).fit(X, y, weight)
    kind = Ridge(alpha=alpha, fit_intercept=fit_intercept) if alpha else LinearRegression(fit_intercept=fit_intercept)
    theirs = kind.fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-8)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-8)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))


def test_huber():
    X, y = line()
    y[::10] += 40
    ours = DistributedHuber(alpha=2.0, **TIGHT).fit(X, y)

    def objective(w):
        r = X @ w[:-1] + w[-1] - y
        c = np.minimum(np.abs(r), 1)
        slope = np.clip(r, -1, 1)
        return (c * (np.abs(r) - c / 2)).sum() + w[:-1] @ w[:-1], np.append(X.T @ slope + 2 * w[:-1], slope.sum())

    found = minimize(objective, np.zeros(7), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 10_000})
    np.testing.assert_allclose(np.append(ours.coef_, ours.intercept_), found.x, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("size", "l2"), [(100.0, None), (1e4, None), (100.0, 1e-3), (1e4, 0.0)])
def test_huber_from_outliers_only(size, l2):
    """At the start every row is an outlier, where the loss has no curvature: the penalty is all of the Hessian."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = size * (X @ np.arange(4.0) + 3.0) + rng.normal(size=120)
    ours = DistributedHuber(l2=l2).fit(X, y)  # a warning would be an error
    slope = np.clip(X @ ours.coef_ + ours.intercept_ - y, -1.0, 1.0)
    np.testing.assert_allclose(X.T @ slope / 120 + ours.l2_ * ours.coef_, 0.0, atol=1e-6)
    np.testing.assert_allclose(slope.mean(), 0.0, atol=1e-6)


def test_l2_stands_in_for_the_strength():
    X, y = blobs()
    by_l2 = DistributedLogisticRegression(C=123.0, l2=1 / 200, **TIGHT).fit(X, y)
    by_C = DistributedLogisticRegression(C=1.0, **TIGHT).fit(X, y)
    np.testing.assert_array_equal(by_l2.coef_, by_C.coef_)
    assert DistributedRidge(l2=0.25).fit(*line()).l2_ == 0.25


def test_the_published_optimum_of_a9a(datasets):
    X, y = load_svmlight_file(str(datasets / "a9a" / "a9a.bz2"), n_features=123)
    model = DistributedLogisticRegression(fit_intercept=False).fit(X, y)
    w = model.coef_[0]
    objective = np.logaddexp(0, -y * (X @ w)).mean() + w @ w / (2 * y.size)
    assert objective == pytest.approx(0.323379582465, abs=1e-11)
    assert model.n_rounds_ < 10


# --- weights ---


@pytest.mark.parametrize("class_weight", ["balanced", {0: 5.0}, {0: 0.5, 1: 3.0}])
def test_class_weights_and_sample_weights(class_weight):
    X, y = blobs()
    weight = np.random.default_rng(1).integers(0, 4, y.size)
    for kind in (DistributedLogisticRegression, LogisticRegression):
        model = kind(C=0.4, class_weight=class_weight, **TIGHT).fit(X, y, weight)
        if kind is DistributedLogisticRegression:
            ours = model
    np.testing.assert_allclose(ours.coef_, model.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, model.intercept_, rtol=0, atol=1e-6)


def test_bad_weights_are_named():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"sample_weight holds -1; allowed"):
        DistributedLogisticRegression().fit(X, y, -np.ones(200))
    with pytest.raises(ValueError, match=r"shape \(3,\); allowed: \(200,\)"):
        DistributedRidge().fit(X, y, np.ones(3))
    with pytest.raises(ValueError, match="names class 7"):
        DistributedLogisticRegression(class_weight={7: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight = 'even'"):
        DistributedLogisticRegression(class_weight="even").fit(X, y)


def test_sparse_rows_with_repeated_entries():
    X, y = blobs()
    X[np.abs(X) < 0.7] = 0
    rows, columns = np.nonzero(X)
    halves = scipy.sparse.coo_array(
        (np.repeat(X[rows, columns] / 2, 2), (np.repeat(rows, 2), np.repeat(columns, 2))), shape=X.shape
    )
    indptr = np.concatenate([[0], np.cumsum(np.bincount(halves.row, minlength=200))])
    repeated = scipy.sparse.csr_matrix((halves.data, halves.col, indptr), shape=X.shape)
    before = repeated.data.copy()
    sparse = DistributedLogisticRegression(**TIGHT).fit(repeated, y)
    dense = DistributedLogisticRegression(**TIGHT).fit(X, y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(sparse.predict_proba(repeated), dense.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(repeated.data, before)


# --- labels ---


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize(
    "labels",
    [
        np.array([10, 20]),
        np.array([-1.0, 2.0]),
        np.array([False, True]),
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([2**60, 2**60 + 1]),
        np.array([3, 200], dtype=np.uint8),
    ],
    ids=str,
)
def test_labels_of_any_kind_also_through_the_model_file(kind, labels, tmp_path):
    X, y = blobs()
    fitted = kind().fit(X, labels[y])
    assert fitted.classes_.dtype == labels.dtype
    assert fitted.score(X, labels[y]) > 0.75
    fitted.save(tmp_path / "model.h5")
    loaded = kind.load(tmp_path / "model.h5")
    assert loaded.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(loaded.classes_, labels)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_the_model_file_maps_labels(tmp_path):
    X, y = blobs(classes=3)
    numbers, names = np.array([10, 20, 50])[y], np.array(["a", "b", "c"])[y]
    DistributedSoftmaxRegression(class_weight={10: 3.0}).fit(X, numbers).save(tmp_path / "n.h5", index_base=0)
    model = load_model(tmp_path / "n.h5")
    assert dict(model.labels) == {10.0: 0.0, 20.0: 1.0, 50.0: 2.0}
    assert dict(model.class_weights) == {10.0: 3.0, 20.0: 1.0, 50.0: 1.0}
    loaded = DistributedSoftmaxRegression.load(tmp_path / "n.h5")
    assert loaded.class_weight == {10: 3.0, 20: 1.0, 50: 1.0}
    assert loaded.class_weight_.tolist() == [3.0, 1.0, 1.0]
    assert (model.loss, model.features, model.intercept, model.index_base) == ("softmax", 8, True, 0)
    DistributedSoftmaxRegression().fit(X, names).save(tmp_path / "t.h5")
    model = load_model(tmp_path / "t.h5")
    assert dict(model.labels) == {0.0: 0.0, 1.0: 1.0, 2.0: 2.0}
    assert (model.words, "classes" in model.provenance) == (("a", "b", "c"), False)
    binary = np.where(y == 0, 7, 3)
    DistributedLinearSVC(C=0.1).fit(X, binary).save(tmp_path / "b.h5")
    model = load_model(tmp_path / "b.h5")
    assert dict(model.labels) == {3.0: -1.0, 7.0: 1.0}
    assert model.l2 == pytest.approx(1 / (0.1 * 200))


def test_labels_without_order_or_text_are_refused(tmp_path):
    X, y = blobs()
    with pytest.raises(ValueError, match="Unknown label type"):
        DistributedLogisticRegression().fit(X, np.array([1, "one"], dtype=object)[y])
    days = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
    fitted = DistributedLogisticRegression().fit(X, days[y])
    with pytest.raises(ValueError, match="allowed: numbers and text"):
        fitted.save(tmp_path / "model.h5")


# --- the model file ---


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (DistributedLogisticRegression, {"C": 0.3, "tol": 1e-7, "solver": "lbfgs", "max_iter": np.int64(500)}),
        (DistributedSoftmaxRegression, {"l2": 0.1, "fit_intercept": False}),
        (DistributedLinearSVC, {"C": 2.0, "class_weight": "balanced"}),
        (DistributedRidge, {"alpha": 3.0}),
        (DistributedHuber, {"alpha": 3.0}),
    ],
)
def test_saved_and_loaded(kind, parameters, tmp_path):
    X, y = blobs(classes=2)
    fitted = kind(**parameters).fit(X, y)
    fitted.save(tmp_path / "model.h5")
    loaded = kind.load(tmp_path / "model.h5")
    assert loaded.get_params() == fitted.get_params()
    assert type(loaded.max_iter) is int
    np.testing.assert_allclose(loaded.coef_, fitted.coef_, rtol=1e-15)
    np.testing.assert_allclose(loaded.predict(X), fitted.predict(X), rtol=1e-12)
    for name in ("n_iter_", "n_rounds_", "n_rows_", "n_ranks_", "l2_", "gradient_norm_", "stop_reason_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    assert loaded.n_features_in_ == 8
    assert loaded.fit(X, y).score(X, y) == fitted.score(X, y)


def test_a_model_of_a_run_is_loaded(tmp_path):
    from mpi_opt.datasets.preparation import Preparation

    X, y = blobs()
    shift, factor = X.mean(axis=0), 1 / X.std(axis=0)
    reference = DistributedLogisticRegression(**TIGHT).fit((X - shift) * factor, y)
    facts = {
        "loss": "logistic",
        "labels": {1.0: -1.0, 2.0: 1.0},
        "features": 8,
        "intercept": True,
        "index_base": 1,
        "l2": 0.005,
        "job": "",
        "provenance": {},
    }
    weights = np.append(reference.coef_, reference.intercept_)
    save_model(tmp_path / "m.h5", weights, **facts, preparation=Preparation("standard", shift, factor))
    loaded = DistributedLogisticRegression.load(tmp_path / "m.h5")
    np.testing.assert_allclose(
        loaded.decision_function(X), reference.decision_function((X - shift) * factor), atol=1e-12
    )
    assert loaded.classes_.tolist() == [1, 2]
    assert loaded.l2 == 0.005
    save_model(tmp_path / "m.h5", weights, **facts, preparation=Preparation(rows="l2"))
    with pytest.raises(DataError, match="divided by their norm"):
        DistributedLogisticRegression.load(tmp_path / "m.h5")
    save_model(tmp_path / "m.h5", weights, **facts)
    with pytest.raises(DataError, match=r"loss 'logistic'; DistributedRidge reads squared"):
        DistributedRidge.load(tmp_path / "m.h5")


def test_unfitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        DistributedRidge().save(tmp_path / "model.h5")


# --- beside fitting ---


def test_a_warning_tells_where_it_did_not_converge():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match=r"ended after 2 iterations.* more than tol = 1e-06"):
        short = DistributedLogisticRegression(solver="lbfgs", max_iter=2).fit(X, y)
    assert short.n_iter_ == 2
    assert short.gradient_norm_ > 1e-6


def test_warm_start_goes_on():
    X, y = blobs(classes=3)
    model = DistributedLogisticRegression(solver="lbfgs", max_iter=15, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        norms = [model.fit(X, y).gradient_norm_ for _ in range(6)]
    assert norms[-1] < 1e-2 * norms[0]
    done = DistributedRidge(warm_start=True).fit(*line())
    assert done.n_iter_ > 0
    assert done.fit(*line()).n_iter_ == 0
    with_new_classes = model.set_params(max_iter=1000).fit(X, np.array(["a", "b", "c"])[y])
    assert with_new_classes.score(X, np.array(["a", "b", "c"])[y]) > 0.6


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0}, "C = 0; allowed: a number above 0"),
        ({"l2": -1}, "l2 = -1; allowed"),
        ({"tol": -1}, "tol = -1; allowed"),
        ({"max_iter": 0}, "max_iter = 0; allowed"),
        ({"max_iter": 2.5}, "max_iter = 2.5; allowed"),
        ({"solver": "sag"}, "solver = 'sag'; allowed: local-newton"),
        ({"solver": 3}, "solver = 3; allowed"),
    ],
)
def test_bad_parameters_are_named(parameters, words):
    X, y = blobs()
    with pytest.raises(ValueError, match=words):
        DistributedLogisticRegression(**parameters).fit(X, y)


def test_a_communicator_is_recognised():
    with pytest.raises(TypeError, match="intracommunicator of mpi4py"):
        DistributedRidge(comm="world").fit(*line())


def test_an_sgd_method_as_solver():
    X, y = blobs()
    sparq = SparqSGD(
        step_size=Constant(0.2),
        trigger=Trigger(Constant(0.0), None),
        compressor=Identity(),
        consensus_rate=1.0,
        sync_every=1,
        batch=None,
    )
    ours = DistributedLogisticRegression(C=0.1, solver=sparq, tol=1e-7, max_iter=5000).fit(X, y)
    exact = DistributedLogisticRegression(C=0.1, **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=0, atol=1e-5)
    assert 10 < ours.n_iter_ < 5000
    assert ours.n_iter_ % 10 == 0


def test_grid_search_and_threads():
    X, y = blobs()
    pipeline = make_pipeline(StandardScaler(), DistributedLogisticRegression())
    grid = {"distributedlogisticregression__C": [0.01, 1.0]}
    with_threads = Parallel(n_jobs=2, prefer="threads")(
        delayed(lambda c: clone(pipeline).set_params(distributedlogisticregression__C=c).fit(X, y)[-1].coef_)(c)
        for c in (0.01, 1.0)
    )
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    reference = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.01, 1.0]}, cv=3
    )
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], reference.fit(X, y).cv_results_["mean_test_score"], atol=1e-12
    )
    for c, coef in zip((0.01, 1.0), with_threads, strict=True):
        alone = clone(pipeline).set_params(distributedlogisticregression__C=c).fit(X, y)
        np.testing.assert_array_equal(coef, alone[-1].coef_)


class Told(Solo):
    """Collectives of several ranks, of which the first is this one; the others say what is given."""

    def __init__(self, *others):
        self.size = 1 + len(others[0])
        self.answers = [*others]

    def gather(self, item):
        return [item, *self.answers.pop(0)] if self.answers else [item] * self.size


def test_feature_names_agree_or_are_refused():
    names = ["a", "b"]
    assert feature_names(Told([(None, 0), (names, 3)]), names, 2) == names
    assert feature_names(Told([(names, 4)]), None, 0) == names  # this rank has no rows, and no names
    assert feature_names(Told([(None, 4)]), None, 1) is None
    for theirs, rows in ((["b", "a"], 3), (None, 3), (["b", "a"], 0)):
        with pytest.raises(ValueError, match="rank 1: its feature names"):
            feature_names(Told([(theirs, rows)]), names, 2)


class Unpicklable:
    """Stands for a communicator: it can be shared, not copied."""

    def __reduce__(self):
        raise TypeError("cannot pickle")


def test_copies_share_the_communicator_and_pickles_leave_it_out():
    comm = Unpicklable()
    model = DistributedRidge(alpha=2.0, comm=comm)
    assert clone(model).comm is comm
    assert clone(model).alpha == 2.0
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.comm is None
        assert other.alpha == 2.0
    assert model.comm is comm


def test_importing_and_fitting_starts_no_mpi():
    code = (
        "import sys, numpy as np\nfrom mpi_opt.sklearn import DistributedRidge\n"
        "DistributedRidge().fit(np.eye(5), np.arange(5.0))\nassert 'mpi4py' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_verbose_writes_a_line(capsys):
    DistributedRidge(verbose=1).fit(*line())
    assert capsys.readouterr().out.startswith("DistributedRidge: ended after")
