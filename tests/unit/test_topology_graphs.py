"""Graphs by name and from edge lists, against networkx and by what they must refuse."""

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_opt.errors import JobError
from mpi_opt.topology import random_graphs
from mpi_opt.topology.edges import from_edges
from mpi_opt.topology.graphs import Graph
from mpi_opt.topology.registry import GRAPHS, make_graph


def as_networkx(graph):
    made = networkx.Graph()
    made.add_nodes_from(range(graph.n))
    made.add_edges_from(graph.edges)
    return made


def oracle(name, n):
    if name == "path":
        return networkx.path_graph(n)
    if name == "ring":
        return networkx.cycle_graph(n)
    if name == "star":
        return networkx.star_graph(n - 1)
    if name == "complete":
        return networkx.complete_graph(n)
    return networkx.circulant_graph(n, [2**k for k in range(20) if 2**k < n])


@pytest.mark.parametrize("name", ["path", "ring", "star", "complete", "exponential"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 60])
def test_edges_are_those_of_networkx(name, n):
    expected = {(min(e), max(e)) for e in oracle(name, n).edges() if e[0] != e[1]}
    assert set(make_graph(name, n, {}, 0).edges) == expected


@pytest.mark.parametrize("bits", range(7))
def test_hypercube_is_that_of_networkx(bits):
    made = as_networkx(make_graph("hypercube", 2**bits, {}, 0))
    assert networkx.is_isomorphic(made, networkx.hypercube_graph(bits)) if bits else made.number_of_nodes() == 1


@pytest.mark.parametrize(("rows", "cols"), [(2, 2), (2, 3), (3, 3), (3, 4), (4, 4), (5, 2), (1, 7)])
def test_torus_is_the_product_of_two_rings(rows, cols):
    made = as_networkx(make_graph("torus", rows * cols, {"rows": rows, "cols": cols}, 0))
    product = networkx.grid_2d_graph(rows, cols, periodic=True)
    product.remove_edges_from(networkx.selfloop_edges(product))
    expected = {
        (min(a * cols + b, c * cols + d), max(a * cols + b, c * cols + d)) for (a, b), (c, d) in product.edges()
    }
    assert set(map(tuple, map(sorted, made.edges()))) == expected


def test_torus_is_most_square_unless_sides_are_given():
    assert make_graph("torus", 16, {}, 0).name == "torus 4x4"
    assert make_graph("torus", 60, {}, 0).name == "torus 6x10"
    assert make_graph("torus", 12, {"rows": 2}, 0).name == "torus 2x6"
    assert make_graph("torus", 12, {"cols": 2}, 0).name == "torus 6x2"
    assert make_graph("torus", 7, {"rows": 1}, 0).edges == make_graph("ring", 7, {}, 0).edges


def test_smallest_graphs():
    for name in ("path", "ring", "star", "complete", "hypercube", "exponential"):
        assert make_graph(name, 1, {}, 0).edges == ()
        assert make_graph(name, 2, {}, 0).edges == ((0, 1),)
    assert make_graph("torus", 1, {}, 0).edges == ()
    assert make_graph("torus", 4, {}, 0).degrees == (2, 2, 2, 2)
    assert make_graph("random-regular", 2, {"degree": 1}, 0).edges == ((0, 1),)
    assert make_graph("erdos-renyi", 1, {}, 0).edges == ()


@given(n=st.integers(2, 40), p=st.floats(0.3, 1.0), seed=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_neighbours_are_ascending_and_mutual(n, p, seed):
    try:
        graph = random_graphs.erdos_renyi(n, p, seed)
    except JobError:
        return
    reference = as_networkx(graph)
    assert networkx.is_connected(reference)
    for i in range(n):
        assert list(graph.neighbours(i)) == sorted(reference.neighbors(i))
        assert graph.degree(i) == graph.degrees[i] == reference.degree(i)


def test_random_graphs_follow_from_the_seed_alone():
    for name in ("random-regular", "erdos-renyi"):
        first = make_graph(name, 16, {}, 3)
        assert make_graph(name, 16, {}, 3) == first
        assert make_graph(name, 16, {}, 4).edges != first.edges
    assert set(make_graph("random-regular", 16, {"degree": 5}, 0).degrees) == {5}


def test_disconnected_draws_are_passed_over():
    # At the connectivity threshold about a third of the draws are connected: every seed must find one.
    for seed in range(20):
        assert make_graph("erdos-renyi", 20, {"p": 0.15}, seed).component_sizes == (20,)


@pytest.mark.parametrize(
    ("name", "n", "params", "words"),
    [
        ("rng", 4, {}, ["graph.name", "'rng'", "did you mean 'ring'", "hypercube"]),
        ("hypercube", 12, {}, ["12", "power of two", "8", "16"]),
        ("hypercube", 0, {}, ["power of two"]),
        ("torus", 13, {}, ["13", "prime", "ring"]),
        ("torus", 12, {"rows": 5}, ["graph.rows = 5", "12"]),
        ("torus", 12, {"rows": 3, "cols": 5}, ["graph.rows = 3", "graph.cols = 5", "12"]),
        ("torus", 12, {"rows": 0}, ["graph.rows = 0"]),
        ("torus", 12, {"rows": "3"}, ["graph.rows = '3'", "integer"]),
        ("ring", 4, {"degree": 3}, ["graph.degree", "ring", "no further key"]),
        ("random-regular", 8, {"degre": 3}, ["graph.degre", "did you mean 'degree'"]),
        ("random-regular", 5, {"degree": 3}, ["graph.degree = 3", "5 nodes", "even"]),
        ("random-regular", 4, {"degree": 4}, ["graph.degree = 4", "0 to 3"]),
        ("random-regular", 8, {"degree": 1}, ["graph.degree = 1", "connected"]),
        ("erdos-renyi", 8, {"p": 1.5}, ["graph.p = 1.5", "0 to 1"]),
        ("erdos-renyi", 8, {"p": "much"}, ["graph.p = 'much'"]),
        ("erdos-renyi", 50, {"p": 0.01}, ["graph.p = 0.01", "connected", "larger p"]),
        ("ring", 0, {}, ["0 nodes", "at least 1"]),
        ("edges", 4, {}, ["graph.edges = None", "file"]),
        ("edges", 4, {"edges": [1, 2]}, ["graph.edges", "list of"]),
    ],
)
def test_refusals_name_value_key_and_what_is_allowed(name, n, params, words):
    with pytest.raises(JobError) as caught:
        make_graph(name, n, params, 0)
    for word in words:
        assert word in str(caught.value)


def test_disconnected_graph_names_its_components():
    with pytest.raises(JobError, match=r"disconnected: 3 components of 3, 2, 1 nodes"):
        Graph("mine", 6, ((0, 1), (1, 2), (3, 4)))


@pytest.mark.parametrize("edges", [((1, 0),), ((0, 0),), ((0, 2),), ((0, 1), (0, 1))])
def test_graph_refuses_edges_that_are_none(edges):
    with pytest.raises(JobError, match="graph.edges"):
        Graph("mine", 2, edges)


def test_edge_file(tmp_path):
    file = tmp_path / "square.txt"
    file.write_text("# a square\n0 1\n\n2 1   # turned round\n2 3\n3\t0\n")
    graph = from_edges(file, 4)
    assert graph.edges == ((0, 1), (0, 3), (1, 2), (2, 3))
    assert graph.weights is None
    assert make_graph("edges", 4, {"edges": str(file)}, 0) == from_edges(str(file), 4)
    assert from_edges([[0, 1], [2, 1], [2, 3], [3, 0]], 4).edges == graph.edges


def test_edge_file_with_weights():
    graph = from_edges([[2, 1, 0.25], [0, 1, 0.5]], 3)
    assert graph.edges == ((0, 1), (1, 2))
    assert graph.weights == (0.5, 0.25)


@pytest.mark.parametrize(
    ("text", "n", "words"),
    [
        ("0 1\n1 4\n", 4, [":2", "node 4", "0..3"]),
        ("0 1\n-1 2\n", 4, [":2", "node -1", "0..3"]),
        ("0 1\n# note\n2 2\n", 4, [":3", "self-loop"]),
        ("0 1\n1 2\n1 0\n", 3, [":3", ":1", "already"]),
        ("0 1 0.3\n1 2 0.3\n1 0 0.3\n", 3, [":3", ":1", "already"]),
        ("0 1 0.3\n1 2 0.3\n1 0 0.4\n", 3, [":3", ":1", "asymmetric", "0.3", "0.4"]),
        ("0 1\n1 two\n", 3, [":2", "'1 two'"]),
        ("0 1\n1\n", 3, [":2", "1 columns"]),
        ("0 1 2 3\n", 3, [":1", "4 columns"]),
        ("0 1 0.3\n1 2\n", 3, [":2", "every line or on none"]),
        ("0 1 nan\n", 2, [":1", "nan", "0 < w <= 1"]),
        ("0 1 -0.5\n", 2, [":1", "-0.5", "0 < w <= 1"]),
        ("0 1 0\n", 2, [":1", "0 < w <= 1"]),
        ("0 1\n2 3\n", 4, ["disconnected", "2, 2"]),
        ("0 1\n1 2\n", 5, ["0..2", "5 nodes", "n mismatch"]),
        ("", 2, ["n mismatch"]),
    ],
)
def test_edge_file_errors_name_file_and_line(tmp_path, text, n, words):
    file = tmp_path / "graph.txt"
    file.write_text(text)
    with pytest.raises(JobError) as caught:
        from_edges(file, n)
    assert "graph.txt" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_edge_list_errors_name_the_entry():
    with pytest.raises(JobError, match=r"graph\.edges\[1\].*self-loop"):
        from_edges([[0, 1], [1, 1]], 2)


def test_unreadable_edge_file(tmp_path):
    with pytest.raises(JobError, match="cannot be read"):
        from_edges(tmp_path / "none.txt", 2)


def test_registry_describes_every_graph():
    assert set(GRAPHS) >= {
        "path",
        "ring",
        "star",
        "complete",
        "torus",
        "hypercube",
        "exponential",
        "random-regular",
        "erdos-renyi",
        "edges",
    }
