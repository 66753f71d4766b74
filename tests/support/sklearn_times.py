"""Seconds of one of scikit-learn's solvers until the objective is within a gap of the optimum; two threads are its lot.

``sklearn_times.py SOLVER SET FOLDER OPTIMUM GAP REPEATS`` prints one JSON line an attempt. The objective is told as
``C = 1 / (l2 N) = 1`` without intercept. The solver stops by a tolerance of its own kind: 0.3, 0.1, 0.03, ... are tried
until the gap is reached. That one counts, the fastest of the repeats. Whoever waits may end the process when it takes
too long, and knows from the lines how far it came.
"""

import json
import sys
import time

STARTED = time.perf_counter()


def read(name, folder):
    import bz2
    import gzip
    from pathlib import Path

    import numpy as np
    from sklearn.datasets import load_svmlight_file

    place = Path(folder, name)
    if name == "mnist":
        parts = ("images-idx3-ubyte", "labels-idx1-ubyte")
        pixels, classes = (gzip.decompress((place / f"train-{part}.gz").read_bytes()) for part in parts)
        X = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 784) / 255.0
        return X, np.frombuffer(classes, np.uint8, offset=8).astype(float)
    with bz2.open(place / f"{name}.bz2") as stream:
        X, y = load_svmlight_file(stream)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, np.where(y > 0, 1.0, -1.0)


def objective(X, y, W):
    import numpy as np

    z, penalty = X @ W.T, 0.5 * np.sum(W * W) / len(y)
    if z.shape[1] == 1:
        return np.logaddexp(0, -y * z[:, 0]).mean() + penalty
    z -= z.max(axis=1, keepdims=True)
    return (np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y.astype(int)]).mean() + penalty


def main(solver, name, folder, optimum, gap, repeats):
    import warnings

    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter() - STARTED
    began = time.perf_counter()
    X, y = read(name, folder)
    told = {"start": start, "read": time.perf_counter() - began}
    warnings.simplefilter("ignore")  # of iterations that ran out, for instance: the gap says it

    def fit(tolerance):
        model = LogisticRegression(C=1.0, fit_intercept=False, solver=solver, tol=tolerance, max_iter=20000)
        start = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - start, model

    for tolerance in (head * 10.0**-k for k in range(1, 11) for head in (3, 1)):
        seconds, model = fit(tolerance)
        left = objective(X, y, model.coef_) - optimum
        if left <= gap:
            seconds = min([seconds, *(fit(tolerance)[0] for _ in range(repeats - 1))])
        reached = {"train": seconds, "gap": left, "rounds": int(max(model.n_iter_)), "tolerance": tolerance}
        print("TIMES " + json.dumps({**told, **reached}), flush=True)
        if left <= gap:
            break


main(*sys.argv[1:4], *map(float, sys.argv[4:6]), int(sys.argv[6]))
