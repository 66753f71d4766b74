"""The LIBSVM parser against scikit-learn's, one process, text in memory."""

import bz2
import io
import time
from pathlib import Path

import numpy as np
import pytest

from mpi_opt.datasets.libsvm import parse


def drawn_text(rows: int, columns: int, entries: int, form: str) -> bytes:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(rows):
        index = np.sort(rng.choice(columns, entries, replace=False)) + 1
        values = np.exp(rng.normal(size=entries) - 3)
        lines.append("1 " + " ".join(f"{i}:{form % v}" for i, v in zip(index.tolist(), values.tolist(), strict=True)))
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="module", params=["a9a", "news20", "rcv1-like, 6 digits", "rcv1-like, 17 digits"])
def text(request: pytest.FixtureRequest) -> bytes:
    name, _, form = request.param.partition(", ")
    if form:
        return drawn_text(4000, 47_236, 74, "%.6g" if form == "6 digits" else "%.17g")
    folder: Path = request.getfixturevalue("datasets")
    return bz2.decompress((folder / name / f"{name}.bz2").read_bytes())


def note_speed(benchmark, text: bytes, entries: int) -> None:
    if benchmark.stats is not None:  # --benchmark-disable measures nothing
        benchmark.extra_info["ns per entry"] = round(1e9 * benchmark.stats["min"] / entries)
        benchmark.extra_info["MB/s"] = round(len(text) / benchmark.stats["min"] / 1e6)


def scikit_learn(text: bytes):
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(io.BytesIO(text), zero_based=False)[0]


def test_parse_ours_at_least_as_fast_as_scikit_learn(benchmark, text: bytes):
    """The fastest rounds of both, taken in turns."""
    theirs = []

    def in_turn():
        began = time.perf_counter()
        scikit_learn(text)
        theirs.append(time.perf_counter() - began)
        return (text,), {}

    rows = benchmark.pedantic(parse, setup=in_turn, rounds=5, warmup_rounds=1)
    note_speed(benchmark, text, rows.values.size)
    if benchmark.stats is not None:
        benchmark.extra_info["x scikit-learn"] = round(min(theirs) / benchmark.stats["min"], 2)
        assert benchmark.stats["min"] <= min(theirs)


def test_parse_scikit_learn(benchmark, text: bytes):
    matrix = benchmark.pedantic(scikit_learn, args=(text,), rounds=3, warmup_rounds=1)
    note_speed(benchmark, text, matrix.nnz)
