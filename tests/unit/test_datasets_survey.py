"""What nodes hold, counted by brute force, and the remarks that follow; the same for every number of processes."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.threads import on_threads

from mpi_opt.datasets.load import DataSpec, load
from mpi_opt.datasets.shard import Shard
from mpi_opt.datasets.survey import column_largest, remarks, survey
from mpi_opt.network.collectives import Solo


def shards_of(sizes, features, seed=0, *, sparse):
    rng = np.random.default_rng(seed)
    made, at = [], 0
    for size in sizes:
        table = np.where(rng.random((size, features)) < 0.2, rng.normal(size=(size, features)), 0.0)
        labels = rng.integers(0, 3, size).astype(float)
        rows = np.arange(at, at + size, dtype=np.int64)
        made.append(Shard(sp.csr_array(table) if sparse else table, labels, rows))
        at += size
    return made


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("sizes", [[4, 0, 7, 1], [0, 0, 3], [5], [0, 9, 0, 0]])
def test_counts_are_those_of_brute_force(sizes, sparse):
    shards = shards_of(sizes, 12, sum(sizes), sparse=sparse)
    found = survey(shards, range(len(sizes)), 12, Solo())
    tables = [shard.features.toarray() if sparse else shard.features for shard in shards]
    assert found.rows.tolist() == sizes
    assert found.nonzeros.tolist() == [int((table != 0).sum()) for table in tables]
    assert found.held.tolist() == [sum(any(row[j] != 0 for row in table) for j in range(12)) for table in tables]
    assert found.occurring == sum(any(row[j] != 0 for table in tables for row in table) for j in range(12))
    assert found.mixed.tolist() == [len(set(shard.labels)) > 1 for shard in shards]
    y = np.concatenate([shard.labels for shard in shards])
    assert found.changes == sum(y[k] != y[k + 1] for k in range(y.size - 1))
    assert found.rising == all(y[k] <= y[k + 1] for k in range(y.size - 1))
    largest = column_largest(shards, 12)
    assert largest.tolist() == [max(abs(row[j]) for table in tables for row in table) for j in range(12)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_processes_say_the_same(size, tmp_path):
    lines = [f"{1 if k < 20 else 2} {1 + k % 5}:1" for k in range(40)]
    (tmp_path / "x").write_text("\n".join(lines))

    def one(collectives):
        local = range(collectives.rank, 6, collectives.size)
        return load(DataSpec("x", search=(tmp_path,)), collectives, 6, tuple(local)).warnings

    alone = load(DataSpec("x", search=(tmp_path,)), Solo(), 6, range(6)).warnings
    assert on_threads(size, one) == [alone] * size
    assert alone == (
        "6 of 6 nodes hold rows of one class only: 0, 1, 2, 3, 4, 5",
        "the file is sorted by label, and each node holds a part of it as it is; "
        'data.partition = "shuffled" mixes the classes',
    )


def said(labels, cuts, kind="binary", *, order=True):
    labels = np.asarray(labels, dtype=float)
    shards = [Shard(np.ones((part.size, 2)), part, np.arange(part.size)) for part in np.split(labels, cuts)]
    mapping = None if kind == "real" else {float(label): float(label) for label in np.unique(labels)}
    return " | ".join(remarks(survey(shards, range(len(shards)), 2, Solo()), mapping, in_file_order=order))


def test_sorted_files_are_noticed_whatever_the_order_of_classes():
    assert "sorted by label" in said([1] * 9 + [0] * 9, [9])
    assert "sorted by label" in said([2] * 9 + [0] * 9 + [1] * 9, [5, 13])
    assert "sorted by label" not in said([1] * 9 + [0] * 9, [9], order=False)
    assert "sorted by label" not in said([1] * 9 + [0] * 8 + [1], [9])
    assert "sorted by label" not in said([1] * 9 + [0] * 9, []), "a single node"
    assert "sorted by label" not in said([0, 1], [1]), "too few rows to say"
    assert "sorted by label" in said([0.1, 0.2, 0.2, 0.5, 0.9], [2], "real")
    assert "sorted by label" in said([0.9, 0.5, 0.1], [2], "real")
    assert "sorted by label" not in said([0.9, 0.5, 0.6], [2], "real")
    assert "sorted by label" not in said([0.9, 0.9, 0.9], [2], "real")


def test_features_that_a_node_lacks_are_counted():
    tables = [[[1, 0, 0, 0], [0, 1, 0, 0]], [[1, 1, 1, 0]], np.zeros((0, 4))]
    shards = [Shard(np.array(t, dtype=float), np.arange(len(t)) * 1.0, np.arange(len(t))) for t in tables]
    found = survey(shards, range(3), 4, Solo())
    assert remarks(found, None, in_file_order=False) == (
        "1 of 3 nodes hold no rows: 2",
        "1 of 3 nodes lack some of the 3 features that occur: node 0 holds 2, the mean is 2",
    )


def test_fewer_rows_than_nodes():
    assert said([0, 1], [1, 2, 2]).startswith("2 of 4 nodes hold no rows: 2, 3; there are 2 rows | ")
    assert said(np.arange(30) % 2, [3, 3]) == "1 of 3 nodes hold no rows: 1"
