"""The figures of a report: axes, labels, scales, and lines that are the numbers on disk, for every odd kind of run."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.stored_runs import store

from mpi_opt.metrics.lost import Lost
from mpi_opt.report.figures.curves import curves
from mpi_opt.report.figures.firing import CELLS, binned, firing, shares
from mpi_opt.report.figures.network import network, places
from mpi_opt.report.figures.spread import apart, spread
from mpi_opt.report.figures.timeline import timeline
from mpi_opt.report.grouping import seed_groups
from mpi_opt.report.measures import Measure
from mpi_opt.report.phases import merged, phase_rows, phases
from mpi_opt.report.reading import read_course
from mpi_opt.report.sameness import same_but_seed
from mpi_opt.report.strands import short, strands
from mpi_opt.topology.registry import make_graph

ERRORS = [0.5, 0.3, 0.2, 0.1, 0.05]
OBJECTIVES = [0.9, 0.5, 0.3, 0.22, 0.21]


def read(folder, *args, **kwargs):
    return read_course(store(folder, *args, **kwargs))


def lines_of(courses):
    return strands(courses, seed_groups(courses, same_but_seed))


def gap(*courses, optimum=0.2):
    return Measure("gap", {course.path: optimum for course in courses})


def points(axes, index=0):
    return axes.get_lines()[index].get_xydata()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [
        read(folder / "slow", OBJECTIVES, settings=["algorithm.sync_every=10"], errors=ERRORS, payload=9000),
        read(folder / "fast", [0.9, 0.3, 0.23, 0.22, 0.19], errors=ERRORS),
    ]


# --- curves -----------------------------------------------------------------------------------------------------------


def test_curves_are_the_numbers_on_disk(runs):
    measure = gap(*runs)
    picture = curves(lines_of(runs), measure, "average", name="gap", title="Gap", target=0.05)
    by_rounds, by_bytes, by_seconds = picture.figure.axes
    for index, run in enumerate(runs):
        expected = run.shared["objective_average"] - 0.2
        xs = (run.shared["round"], run.sent.sum(axis=0), run.own["seconds"].max(axis=0))
        for axes, x in zip((by_rounds, by_bytes, by_seconds), xs, strict=True):
            np.testing.assert_array_equal(points(axes, index), np.column_stack([x, expected]))
            assert axes.get_yscale() == "log"
    assert by_rounds.get_ylabel() == "Objective above the optimum, F − F*"
    labels = [axes.get_xlabel() for axes in picture.figure.axes]
    assert labels == ["Communication rounds", "Sent by all nodes (bytes)", "Run clock (s)"]
    assert by_bytes.get_xscale() == "symlog"
    assert "10 kB" in [by_bytes.xaxis.get_major_formatter()(tick, 0) for tick in by_bytes.get_xticks()]
    assert [text.get_text() for text in picture.figure.legends[0].get_texts()] == ["slow", "fast"]
    colours = {axes.get_lines()[index].get_color() for axes in picture.figure.axes for index in range(2)}
    assert len(colours) == 2
    assert by_rounds.get_lines()[2].get_ydata()[0] == 0.05  # the target
    assert "Evaluations that are not shown: fast: 1 of 5 at or below the reference." in picture.caption
    assert "slow: from 0.7 to 0.01 in 16 rounds, 864 kB" in picture.alt
    assert "include the closing average of all models (slow, fast)" in picture.caption


def test_an_error_stands_on_a_logarithmic_axis_and_an_accuracy_does_not(runs):
    made = lines_of(runs)
    error = curves(made, Measure("error", {}), "worst", name="e", title="E").figure.axes[0]
    np.testing.assert_allclose(points(error)[:, 1], 2 * np.array(ERRORS))
    assert (error.get_yscale(), error.get_ylabel()) == ("log", "Test error (share of rows)")
    accuracy = curves(made, Measure("accuracy", {}), "average", name="e", title="E").figure.axes[0]
    np.testing.assert_allclose(points(accuracy)[:, 1], 1 - np.array(ERRORS))
    assert accuracy.get_yscale() == "linear"


def test_seeds_are_a_median_and_a_shade(tmp_path):
    finals = ([0.9, 0.3, 0.24], [0.9, 0.24, 0.23], [0.9, 0.5, 0.4])
    runs = [read(tmp_path / f"s{seed}", values, settings=[f"seed={seed}"]) for seed, values in enumerate(finals)]
    made = lines_of(runs)
    assert [strand.label for strand in made] == ["s0 (3 seeds)"]
    picture = curves(made, Measure("objective", {}), "average", name="o", title="O")
    axes = picture.figure.axes[0]
    np.testing.assert_allclose(points(axes)[:, 1], np.median(finals, axis=0))
    vertices = axes.collections[0].get_paths()[0].vertices
    for x, low, high in zip(runs[0].shared["round"], np.min(finals, axis=0), np.max(finals, axis=0), strict=True):
        there = vertices[vertices[:, 0] == x, 1]
        assert (there.min(), there.max()) == pytest.approx((low, high))
    assert "medians of both axes" in picture.caption


def test_seeds_of_unequal_length_end_where_the_first_does(tmp_path):
    runs = [
        read(tmp_path / "a", [0.9, 0.3, 0.24]),
        read(tmp_path / "b", [0.9, 0.5], settings=["seed=1"], status="running"),
    ]
    (strand,) = lines_of(runs)
    assert strand.series(lambda course: course.shared["step"]).middle.tolist() == [0, 20]


def test_a_run_that_diverged(tmp_path):
    run = read(tmp_path / "x", [0.9, 5.0, math.inf, math.nan], status="diverged: node 0 at step 60", errors=[0.5] * 4)
    picture = curves(lines_of([run]), gap(run), "average", name="gap", title="Gap")
    shown = points(picture.figure.axes[0])[:, 1]
    np.testing.assert_allclose(shown[:2], [0.7, 4.8])
    assert np.isnan(shown[2:]).all()
    assert "x: 1 of 4 infinite, 1 of 4 not known" in picture.caption
    spread(run, gap(run), "s").figure.draw_without_rendering()


def test_gaps_that_are_all_below_the_reference_are_shown_as_they_are(runs):
    picture = curves(lines_of(runs), gap(*runs, optimum=1.0), "average", name="gap", title="Gap")
    assert picture.figure.axes[0].get_yscale() == "linear"
    assert "not shown" not in picture.caption
    np.testing.assert_allclose(points(picture.figure.axes[0])[:, 1], np.array(OBJECTIVES) - 1.0)


def test_one_evaluation_is_a_mark(tmp_path):
    run = read(tmp_path / "x", [0.9], errors=[0.5], status="running")
    picture = curves(lines_of([run]), gap(run), "average", name="gap", title="Gap")
    assert "One evaluation only: x." in picture.caption
    assert picture.figure.axes[0].get_lines()[0].get_markevery() == 1
    picture.figure.draw_without_rendering()


def test_what_nobody_recorded_is_words(runs):
    run = replace(runs[0], shared={**runs[0].shared, "test_error_average": np.full(5, math.nan)})
    picture = curves(lines_of([run]), Measure("error", {}), "average", name="e", title="E")
    assert picture.figure is None
    assert "No run has recorded its error" in picture.caption


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mpi_library": "lockstep"}, "Run clock (s, nodes in turn)"),
        ({"mpi_library": "lockstep", "clock": "wan: 20 ms"}, "Simulated seconds"),
    ],
)
def test_seconds_say_what_they_are(runs, given, words):
    run = replace(runs[0], path="x", attributes={**runs[0].attributes, **given})
    picture = curves(lines_of([run]), gap(run), "average", name="gap", title="Gap")
    assert picture.figure.axes[2].get_xlabel() == words
    both = curves(lines_of([run, runs[1]]), gap(run, runs[1]), "average", name="gap", title="Gap")
    assert both.figure.axes[2].get_xlabel() == "Run clock (s; not alike, see notes)"


def test_long_names_lose_their_middle():
    assert short("a" * 30 + "b" * 30) == "a" * 21 + "…" + "b" * 21
    assert short("a" * 44) == "a" * 44


# --- spread -----------------------------------------------------------------------------------------------------------


def test_spread_is_the_numbers_on_disk(runs):
    run = runs[0]
    left, right = spread(run, gap(run), "s").figure.axes
    for index, place in enumerate(("average", "mean", "worst")):
        np.testing.assert_array_equal(points(left, index)[:, 1], run.shared[f"objective_{place}"] - 0.2)
    np.testing.assert_array_equal(points(right)[:, 1], run.shared["consensus_distance"])
    vertices = left.collections[0].get_paths()[0].vertices
    own = run.own["objective_local"] - 0.2
    assert vertices[:, 1].max() == pytest.approx(own.max())
    assert vertices[vertices[:, 0] == 0, 1].min() == pytest.approx(own[:, 0].min())
    assert (left.get_xlabel(), right.get_ylabel()) == ("Communication rounds", "Consensus distance (mean square)")
    together = apart(lines_of(runs), gap(*runs), "n")
    worst, distance = together.figure.axes
    assert worst.get_ylabel() == "F − F* at the worst node"
    for index, each in enumerate(runs):
        np.testing.assert_allclose(points(worst, index)[:, 1], each.shared["objective_worst"] - 0.2)
        np.testing.assert_allclose(points(distance, index)[:, 1], each.shared["consensus_distance"])


def test_what_a_spread_cannot_show_is_told(tmp_path):
    # stored: node i at F + i / 100, so the average falls below 0.2 where the worst of four does not
    run = read(tmp_path / "x", [0.9, 0.5, 0.199, 0.198, 0.19])
    worst, average = (gap(run).values(run, place) for place in ("worst", "average"))
    low = [int((each <= 0).sum()) for each in (worst, average)]
    assert low[0] < low[1] == 3
    caption = spread(run, gap(run), "s").caption
    assert "Evaluations that are not shown: averaged model: 3 of 5 at or below the reference." in caption
    assert ("worst node's own:" in caption) == (low[0] > 0)
    below = gap(run, optimum=float(run.shared["objective_worst"][-1]))
    assert "x: 1 of 5 at or below the reference" in apart(lines_of([run]), below, "n").caption


@pytest.mark.parametrize("name", ["gradient-norm", "error", "accuracy", "objective"])
def test_spread_of_every_measure(runs, name):
    spread(runs[0], Measure(name, {}), "s").figure.draw_without_rendering()
    apart(lines_of(runs), Measure(name, {}), "s").figure.draw_without_rendering()


def test_nodes_that_hold_one_model_are_not_apart(runs):
    run = replace(runs[0], shared={**runs[0].shared, "consensus_distance": np.zeros(5)})
    right = spread(run, gap(run), "s").figure.axes[1]
    assert [text.get_text() for text in right.texts] == ["all models are the same at every evaluation"]


def test_one_node_is_words(tmp_path):
    run = read(tmp_path / "x", OBJECTIVES, nodes=1)
    assert spread(run, gap(run), "s").figure is None
    assert apart(lines_of([run]), gap(run), "s").figure is None
    timeline(run, "t").figure.draw_without_rendering()
    network(run, make_graph("ring", 1, {}, 0), "", "g").figure.draw_without_rendering()


# --- firing map -------------------------------------------------------------------------------------------------------


def test_each_node_and_index_has_its_cell(runs):
    picture = firing(runs[1], "f")
    top, below = picture.figure.axes
    np.testing.assert_array_equal(top.get_images()[0].get_array(), runs[1].fired)
    assert top.get_images()[0].get_extent() == [0.5, 16.5, 2.5, -0.5]
    np.testing.assert_allclose(below.patches[0].get_data().values, runs[1].fired.mean(axis=0))
    assert below.get_xlabel() == "Synchronisation index (of step 5 to 80)"
    assert [text.get_text() for text in picture.figure.legends[0].get_texts()] == ["spoke", "silent"]
    assert "Each cell is a node at a synchronisation index." in picture.caption


def test_many_share_a_cell_and_the_label_says_so(runs):
    fired = np.random.default_rng(0).integers(0, 2, (130, 500)).astype(np.uint8)
    run = replace(runs[0], nodes=130, fired=fired, sync_steps=np.arange(500))
    picture = firing(run, "f")
    cells = picture.figure.axes[0].get_images()[0].get_array()
    assert cells.shape == CELLS
    assert cells.mean() == pytest.approx(run.fired.mean(), abs=0.01)
    assert "A cell holds 2 or 3 nodes and 2 or 3 indices: its colour is the share of them" in picture.caption
    assert "Share that spoke" in [axes.get_ylabel() for axes in picture.figure.axes]


def test_binning_keeps_every_index_once():
    map_ = np.arange(7 * 11, dtype=float).reshape(7, 11)
    map_[0, 0] = math.nan
    cells = binned(map_, 3, 4)
    rows, columns = [[0, 1], [2, 3], [4, 5, 6]], [[0, 1], [2, 3, 4], [5, 6, 7], [8, 9, 10]]
    for r, row in enumerate(rows):
        for c, column in enumerate(columns):
            assert cells[r, c] == pytest.approx(np.nanmean(map_[np.ix_(row, column)]))
    assert np.isnan(binned(np.full((2, 2), math.nan), 1, 1)).all()


def test_lost_nodes_are_neither_silent_nor_speaking(runs):
    alive = {**runs[1].shared, "nodes_alive": np.array([3, 3, 3, 2, 2])}
    own = dict(runs[1].own)
    own["objective_local"] = own["objective_local"].copy()
    own["objective_local"][1, 3:] = math.nan
    run = replace(runs[1], label="x", shared=alive, own=own, lost=(Lost(1, 40, "here", "now"),))
    map_ = shares(run)
    assert np.isnan(map_[1, run.sync_steps > 40]).all()
    assert np.isfinite(map_[1, run.sync_steps <= 40]).all()
    assert np.isfinite(map_[[0, 2]]).all()
    picture = firing(run, "f")
    assert "lost" in [text.get_text() for text in picture.figure.legends[0].get_texts()]
    drawn = network(run, make_graph("ring", 3, {}, 0), "", "g")
    assert "Crosses: lost on the way (1)." in drawn.caption
    shown = curves(lines_of([run]), gap(run), "average", name="gap", title="Gap")
    assert np.isnan(points(shown.figure.axes[0])[3:, 1]).all()
    assert "x: 2 of 5 not known" in shown.caption
    spread(run, gap(run), "s").figure.draw_without_rendering()
    timeline(run, "t").figure.draw_without_rendering()


def test_maps_without_anything_to_show_are_words(runs):
    never = replace(runs[0], fired=runs[0].fired[:, :0], sync_steps=runs[0].sync_steps[:0])
    assert "No synchronisation index is on disk" in firing(never, "f").caption
    always = replace(runs[0], fired=np.ones_like(runs[0].fired))
    assert firing(always, "f").caption == "Every node spoke at every one of 16 synchronisation indices."


# --- phases -----------------------------------------------------------------------------------------------------------


def test_phases_add_up_to_the_time_that_passed(runs):
    run = runs[0]
    found = phases(run)
    assert (found.kind, found.names[-1]) == ("wall", "other")
    np.testing.assert_allclose(found.seconds.sum(axis=(0, 2)), run.own["wall_seconds"][:, -1])
    rows = {name: (least, mean, most) for name, least, mean, most, _ in phase_rows(found)}
    # a row: 1 s computing, 0.5 compressing, 0.25 communicating, node / 8 waiting, of 3 s
    assert rows["compute"] == pytest.approx((4.0, 4.0, 4.0))
    assert rows["wait"] == pytest.approx((0.0, 0.5, 1.0))
    assert rows["other"] == pytest.approx((4.0, 4.5, 5.0))
    assert sum(row[-1] for row in phase_rows(found)) == pytest.approx(1.0)


def test_bars_of_the_timeline_are_the_phases(runs):
    figure = timeline(runs[0], "t").figure
    (axes,) = figure.axes
    found = phases(runs[0])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["compute", "compress", "communicate", "wait", "other"]
    drawn = {boxes.get_label(): [path.vertices for path in boxes.get_paths()] for boxes in axes.collections[:5]}
    for name in names:
        phase = found.seconds[found.names.index(name)]
        for rank in range(3):
            widths = [np.ptp(box[:, 0]) for box in drawn[name] if round(box[:, 1].mean()) == rank]
            np.testing.assert_allclose(widths, phase[rank][phase[rank] > 0])
    assert axes.get_xlabel() == "Seconds since the start"
    assert axes.get_ylabel() == "Rank"
    assert max(box[:, 0].max() for boxes in drawn.values() for box in boxes) == pytest.approx(12.0)


def test_time_of_virtual_nodes_is_their_own(runs):
    run = replace(runs[0], attributes={**runs[0].attributes, "mpi_library": "lockstep"})
    found = phases(run)
    assert found.names == ("compute", "compress", "communicate", "wait")
    picture = timeline(run, "t")
    assert picture.figure.axes[0].get_xlabel() == "Seconds of the node's own work"
    assert "took turns in one process" in picture.caption
    passed = sum(run.own[f"{name}_seconds"] for name in found.names) * (1 + 1e-15)
    exact = replace(run, attributes={**run.attributes, "clock": "wan"}, own={**run.own, "seconds": passed})
    assert phases(exact).seconds[-1].sum() == 0.0  # rounding is no phase
    clocked = replace(run, attributes={**run.attributes, "clock": "wan"})
    np.testing.assert_allclose(phases(clocked).seconds.sum(axis=(0, 2)), clocked.own["seconds"][:, -1])
    assert timeline(clocked, "t").figure.axes[0].get_xlabel() == "Simulated seconds since the start"


def test_many_ranks_and_intervals_are_thinned_and_it_is_said(runs):
    own = {name: np.arange(60.0) * np.ones((40, 1)) for name in runs[0].own}
    run = replace(runs[0], nodes=40, own=own, shared={"step": np.arange(60)})
    picture = timeline(run, "t")
    assert "Intervals are joined: 24 of 60." in picture.caption
    assert "24 of 40 nodes are shown." in picture.caption
    joined, starts = merged(phases(run).seconds, 24)
    assert len(starts) == joined.shape[-1] == 24
    np.testing.assert_allclose(joined.sum(axis=-1), phases(run).seconds.sum(axis=-1))


def test_no_time_is_words(runs):
    run = replace(runs[0], own={name: np.zeros((3, 5)) for name in runs[0].own})
    assert timeline(run, "t").figure is None


# --- graph ------------------------------------------------------------------------------------------------------------

GRAPHS = [
    ("ring", 8, {}),
    ("path", 5, {}),
    ("star", 6, {}),
    ("complete", 5, {}),
    ("torus", 12, {}),
    ("hypercube", 8, {}),
    ("exponential", 9, {}),
    ("random-regular", 10, {"degree": 4}),
    ("edges", 4, {"edges": [[0, 1], [1, 2], [2, 3]]}),
    ("ring", 300, {}),
    ("ring", 1, {}),
    ("ring", 2, {}),
]


@pytest.mark.parametrize(("name", "n", "params"), GRAPHS)
def test_nodes_stand_apart(name, n, params):
    at = places(make_graph(name, n, params, 0))
    assert at.shape == (n, 2)
    distances = np.linalg.norm(at[:, None] - at[None], axis=2)[~np.eye(n, dtype=bool)]
    assert n == 1 or distances.min() > 0.01


@pytest.mark.parametrize(("name", "n", "params"), [*GRAPHS[:2], GRAPHS[4]])
def test_every_edge_is_drawn(runs, name, n, params):
    run = replace(runs[0], nodes=n, fired=np.eye(n, 16, dtype=np.uint8))
    graph = make_graph(name, n, params, 0)
    picture = network(run, graph, "", "g")
    axes = picture.figure.axes[0]
    straight = len(axes.collections[0].get_paths())
    round_ = len(axes.get_lines()) // 2
    assert straight + round_ == len(graph.edges)
    assert (round_ > 0) == (name == "torus")
    assert [text.get_text() for text in axes.texts] == [str(node) for node in range(n)]
    assert f"{n} nodes, {len(graph.edges)} edges" in picture.caption
    assert "spectral gap 0.5; consensus rate 0.3." in picture.caption
    np.testing.assert_allclose(axes.collections[1].get_array(), run.fired.mean(axis=1))


def test_very_many_edges_are_dots(runs):
    run = replace(runs[0], nodes=300, fired=np.eye(300, 16, dtype=np.uint8))
    picture = network(run, make_graph("complete", 300, {}, 0), "", "g")
    edges = picture.figure.axes[0].collections[0]
    assert edges.get_rasterized()
    assert len(edges.get_paths()) == 44850 // 3
    assert "One of 3 edges is drawn." in picture.caption


def test_without_a_graph_there_are_words(runs):
    assert network(runs[0], None, "There is none.", "g").caption == "There is none."
