"""Mixing matrices: their properties on many graphs, their spectrum against closed forms and dense solvers."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.topology import mixing as mixing_module
from mpi_opt.topology.edges import from_edges
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.topology.registry import make_graph


@st.composite
def any_graph(draw):
    name = draw(
        st.sampled_from(
            ["path", "ring", "star", "complete", "torus", "hypercube", "exponential", "random-regular", "erdos-renyi"]
        )
    )
    n = draw(st.integers(1, 40))
    params = {}
    if name == "hypercube":
        n = 2 ** draw(st.integers(0, 5))
    elif name == "torus":
        params = {"rows": draw(st.sampled_from([r for r in range(1, n + 1) if n % r == 0]))}
    elif name == "random-regular":
        n = max(n, 6)
        params = {"degree": 4}
    elif name == "erdos-renyi":
        params = {"p": draw(st.floats(0.5, 1.0))}
        n = max(n, 8)
    return make_graph(name, n, params, draw(st.integers(0, 3)))


@given(graph=any_graph(), weights=st.sampled_from(["metropolis", "lazy"]))
@settings(max_examples=80, deadline=None)
def test_w_is_symmetric_and_doubly_stochastic_and_mixes(graph, weights):
    made = make_mixing(graph, weights)
    w = made.matrix()
    n = graph.n
    assert w.shape == (n, n)
    assert np.array_equal(w, w.T)
    assert np.abs(w.sum(axis=1) - 1.0).max() <= 1e-12
    assert w.min() >= 0.0
    # The rule itself, entry by entry.
    for i in range(n):
        for j in range(i):
            expected = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j))) if (j, i) in graph.edges else 0.0
            assert w[i, j] == pytest.approx(expected / (2.0 if weights == "lazy" else 1.0), abs=1e-15)
        row = made.row(i)
        assert list(row) == sorted([*graph.neighbours(i), i])
        assert all(row[j] == w[i, j] for j in row)
    assert np.array_equal(made.sparse().toarray(), w)
    spectrum = np.sort(np.linalg.eigvals(w).real)
    if n > 1:
        assert made.spectral_gap == pytest.approx(1.0 - max(abs(spectrum[0]), abs(spectrum[-2])), abs=1e-9)
        assert made.beta == pytest.approx(1.0 - spectrum[0], abs=1e-9)
        assert made.spectral_gap > 0.0


@pytest.mark.parametrize("n", [3, 4, 5, 8, 60, 101])
def test_ring_spectrum(n):
    lambdas = [(1.0 + 2.0 * math.cos(2.0 * math.pi * k / n)) / 3.0 for k in range(1, n)]
    made = make_mixing(make_graph("ring", n, {}, 0))
    assert made.spectral_gap == pytest.approx(1.0 - max(map(abs, lambdas)), abs=1e-12)
    assert made.beta == pytest.approx(1.0 - min(lambdas), abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8, 50])
def test_complete_graph_averages_at_once(n):
    made = make_mixing(make_graph("complete", n, {}, 0))
    assert np.allclose(made.matrix(), 1.0 / n, atol=1e-15)
    assert made.spectral_gap == pytest.approx(1.0, abs=1e-12)
    assert made.beta == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
def test_hypercube_spectrum(bits):
    # Eigenvalues of the k-cube's adjacency are k - 2j.
    lambdas = [(1.0 + bits - 2.0 * j) / (bits + 1.0) for j in range(1, bits + 1)]
    made = make_mixing(make_graph("hypercube", 2**bits, {}, 0), "uniform")
    assert made.spectral_gap == pytest.approx(1.0 - max(map(abs, lambdas)), abs=1e-12)
    assert np.array_equal(made.matrix(), make_mixing(made.graph, "metropolis").matrix())


def test_one_and_two_nodes():
    one = make_mixing(make_graph("ring", 1, {}, 0))
    assert (one.spectral_gap, one.beta, one.row(0)) == (1.0, 0.0, {0: 1.0})
    two = make_mixing(make_graph("ring", 2, {}, 0))
    assert np.array_equal(two.matrix(), [[0.5, 0.5], [0.5, 0.5]])
    assert (two.spectral_gap, two.beta) == (1.0, 1.0)
    lazy = make_mixing(make_graph("ring", 2, {}, 0), "lazy")
    assert (lazy.spectral_gap, lazy.beta) == (0.5, 0.5)


def test_thousand_nodes():
    n = 1000
    made = make_mixing(make_graph("ring", n, {}, 0))
    assert made.spectral_gap == pytest.approx((2.0 - 2.0 * math.cos(2.0 * math.pi / n)) / 3.0, rel=1e-7)


@pytest.mark.parametrize("name", ["ring", "random-regular", "complete", "path", "star"])
def test_sparse_spectrum_agrees_with_the_dense_one(name, monkeypatch):
    graph = make_graph(name, 400, {}, 1)
    dense = make_mixing(graph)
    monkeypatch.setattr(mixing_module, "DENSE_NODES", 10)
    sparse = make_mixing(graph)
    assert sparse.spectral_gap == pytest.approx(dense.spectral_gap, rel=1e-6)
    assert sparse.beta == pytest.approx(dense.beta, rel=1e-9)


def test_weights_of_an_edge_list():
    graph = from_edges([[0, 1, 0.25], [1, 2, 0.5]], 3)
    made = make_mixing(graph)
    assert made.weights == "edges"
    assert np.array_equal(made.matrix(), [[0.75, 0.25, 0.0], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]])


def refused(graph, weights, *words):
    with pytest.raises(JobError) as caught:
        make_mixing(graph, weights)
    for word in words:
        assert word in str(caught.value)


def test_refusals():
    ring = make_graph("ring", 4, {}, 0)
    refused(ring, "metro", "graph.weights = 'metro'", "metropolis", "uniform", "lazy")
    refused(make_graph("star", 4, {}, 0), "uniform", "uniform", "degrees run from 1 to 3", "regular")
    refused(ring, "edges", "no weights")
    refused(from_edges([[0, 1, 0.5]], 2), "metropolis", "brings its own weights")
    refused(from_edges([[0, 1, 0.7], [1, 2, 0.6]], 3), None, "negative weight", "row 1", "at most 1")
    # All the weight on the edge: the two nodes swap for ever.
    refused(from_edges([[0, 1, 1.0]], 2), None, "does not mix")


def test_checks_of_w_are_named():
    graph = make_graph("path", 2, {}, 0)
    starts, columns = np.array([0, 2, 4]), np.array([0, 1, 0, 1])
    with pytest.raises(JobError, match="not symmetric"):
        Mixing(graph, "mine", starts, columns, np.array([0.5, 0.5, 0.4, 0.6]))
    with pytest.raises(JobError, match="not doubly stochastic: row 1"):
        Mixing(graph, "mine", starts, columns, np.array([0.5, 0.5, 0.5, 0.6]))
    with pytest.raises(JobError, match="not doubly stochastic"):
        Mixing(graph, "mine", starts, columns, np.array([np.nan, 0.5, 0.5, 0.5]))


def test_regular_graphs_need_no_heavy_import():
    code = (
        "import sys\n"
        "from mpi_opt.topology.registry import make_graph\n"
        "from mpi_opt.topology.mixing import make_mixing\n"
        "make_mixing(make_graph('torus', 16, {}, 0)).spectral_gap\n"
        "from mpi_opt.topology import consensus_rate\n"
        "sys.exit(any(m in sys.modules for m in ('scipy', 'networkx', 'mpi4py')))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
