"""Rank script: estimators fitted together, and errors of one rank. ``sklearn_ranks.py OUT``.

Every rank keeps what it fitted; the test compares with fits of one process.
"""

import re
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from mpi_opt import Constant, SparqSGD, Trigger
from mpi_opt.compression.top_k import TopK
from mpi_opt.errors import JobError
from mpi_opt.sklearn import (
    DistributedHuber,
    DistributedLinearSVC,
    DistributedLogisticRegression,
    DistributedRidge,
    DistributedSoftmaxRegression,
)

TIGHT = {"tol": 1e-11, "max_iter": 2000}
SPARQ = SparqSGD(
    step_size=Constant(0.05),
    trigger=Trigger(Constant(0.0), None),
    compressor=TopK(3),
    consensus_rate=0.4,
    sync_every=1,
    batch=8,
)


def rows(classes=2):
    X, y = make_classification(203, 7, n_informative=5, n_redundant=0, n_classes=classes, flip_y=0.2, random_state=4)
    X[np.abs(X) < 0.3] = 0.0
    by_label = np.argsort(y, kind="stable")  # the first ranks hold one class
    X, y = X[by_label], y[by_label]
    weight = np.random.default_rng(0).integers(0, 4, y.size).astype(float)
    return X, y, weight


def fits():
    """Yield name, estimator, features, labels, weights (or None) of all rows; the same in every process."""
    X, y, weight = rows()
    X3, y3, weight3 = rows(3)
    names = np.array(["no", "perhaps", "yes indeed"])
    for solver in ("local-newton", "newton", "newton-cg", "giant", "lbfgs", "admm"):
        yield solver, DistributedLogisticRegression(C=0.3, solver=solver, **TIGHT), X, y, None
    balanced = DistributedLogisticRegression(class_weight="balanced", **TIGHT)
    yield "balanced, weights, text", balanced, X, names[y], weight
    yield "softmax, sparse", DistributedSoftmaxRegression(C=0.5, **TIGHT), scipy.sparse.csr_array(X3), y3, weight3
    yield "three classes", DistributedLogisticRegression(fit_intercept=False, **TIGHT), X3, names[y3], None
    yield "svc", DistributedLinearSVC(C=0.2, **TIGHT), X, 3 * y, weight
    yield "svc, three classes", DistributedLinearSVC(C=0.2, class_weight="balanced", **TIGHT), X3, y3, None
    yield "ridge", DistributedRidge(alpha=4.0, **TIGHT), X, X3[:, 0] + y, weight
    yield "huber", DistributedHuber(alpha=4.0, **TIGHT), X, 3 * X3[:, 0] + y, None


def mine(comm, X, y, weight):
    """Return this rank's rows; of three ranks and more, the last has none."""
    holders = comm.size if comm.size < 3 else comm.size - 1
    bounds = [len(y) * k // holders for k in range(holders + 1)]
    here = slice(bounds[comm.rank], bounds[comm.rank + 1]) if comm.rank < holders else slice(0, 0)
    return X[here], y[here], None if weight is None else weight[here]


def fitted(comm, out):
    for number, (_, model, *arrays) in enumerate(fits()):
        X, y, weight = mine(comm, *arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            together = clone(model).set_params(comm=comm).fit(X, y, weight)
        keep(f"{out}/{number}_{comm.rank}", together, arrays[0])
        if comm.rank == comm.size - 1:
            together.save(f"{out}/{number}.h5")


def keep(path, model, X):
    classes = getattr(model, "classes_", np.zeros(0))
    np.savez(
        path,
        coef=model.coef_,
        intercept=model.intercept_,
        classes=classes,
        predicted=model.predict(X),
        facts=[model.n_rows_, model.n_ranks_, model.l2_, model.n_iter_, model.n_rounds_, model.gradient_norm_],
    )


def gossip(comm, out):
    """An SGD method with mini-batches and compression: the seed is the first rank's, the model everybody's."""
    X, y, _ = rows()
    X, y, _ = mine(comm, X, y, None)
    model = DistributedLogisticRegression(solver=SPARQ, comm=comm, random_state=comm.rank, max_iter=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        keep(f"{out}/gossip_{comm.rank}", model.fit(X, y), rows()[0])
        keep(f"{out}/short_{comm.rank}", model.set_params(solver="lbfgs", max_iter=3).fit(X, y), rows()[0])


def errors(comm):
    """What is wrong on one rank is raised on all, and a fit after it works."""
    X, y, _ = mine(comm, *rows())
    odd = comm.rank == 1
    half = X[:, :5] if odd else X
    holed = X.copy()
    if odd:
        holed[0, 0] = np.nan
    base = DistributedLogisticRegression(comm=comm)
    told = y.astype(str) if odd else y
    cases = [
        (ValueError, "rank 1: Input X contains NaN", lambda: base.fit(holed, y)),
        (ValueError, "the number of features differs between ranks 0 (7) and 1 (5)", lambda: base.fit(half, y)),
        (ValueError, "parameter C differs between ranks 0", lambda: clone(base).set_params(C=1.0 + odd).fit(X, y)),
        (ValueError, "rank 1: C = -1", lambda: clone(base).set_params(C=-1 if odd else 1.0).fit(X, y)),
        (ValueError, "numbers on some ranks and not on others", lambda: base.fit(X, told)),
        (ValueError, "only one class", lambda: base.fit(X, np.ones(len(y)))),
        (ValueError, "weights are all zero", lambda: base.fit(X, y, 0 * y)),
        (ValueError, "no rank has rows", lambda: base.fit(X[:0], y[:0])),
        (ValueError, "no rank has rows", lambda: DistributedRidge(comm=comm).fit(X[:0], y[:0])),
        (TypeError, "rank 1: ", lambda: base.fit(X, y.astype(bytes) if odd else y)),
    ]
    for kind, words, call in cases:
        with pytest.raises(kind, match=re.escape(words)):
            call()
    again = base.fit(X, y)
    changed = clone(again).set_params(warm_start=True).fit(X, y)
    if odd:
        changed.coef_ = changed.coef_ + 1
    with pytest.raises(JobError, match="x0 differs between ranks 0 and 1"):
        changed.fit(X, y)


if __name__ == "__main__":
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()  # no predefined one, which alone could be copied
    fitted(comm, sys.argv[1])
    gossip(comm, sys.argv[1])
    if comm.size > 1:
        errors(comm)
    comm.Free()
