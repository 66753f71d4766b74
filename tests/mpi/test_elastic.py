"""Runs that lose ranks and go on (ULFM): who is killed where, and that the survivors then do what SPARQ-SGD does."""

import json
import random
import re
import signal

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from support.commands import finals, settings, simulate
from support.jobs import write_job
from twins import compressors, setting, sparq_matrix

from mpi_opt.draws import Batches
from mpi_opt.metrics.joined import read_joined
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.model import load_model
from mpi_opt.run.checkpoint import found, read_manifest

ROWS, SYNC, ROUND = 200, 3, 7
ENDED = 1  # what a launcher returns that one of its ranks has ended
SHORT = ("stop.steps=150", "metrics.every=30")
QUIET = ("--progress", "lines")


def begin(ulfm, tmp_path, n, deaths, *words, **options):
    job = write_job(tmp_path, ROWS)
    line = ["run", job, "--out", tmp_path / "out", *QUIET, *settings("network.elastic=true", *SHORT, *words)]
    return ulfm.run(n, line, tmp_path / "records", deaths, **options)


def went_on(run, tmp_path, n, lost, code=0):
    """Check what every run of survivors leaves; return the joined metrics."""
    assert (run.result.code, run.result.timed_out) == (code, False), str(run.result)
    out = tmp_path / "out"
    told = json.loads((out / "metrics" / "lost.json").read_text())
    assert sorted(each["node"] for each in told) == sorted(lost)
    log = (out / "log.txt").read_text()
    for node in lost:
        assert re.search(rf"lost .*node {node} on ", log), log
    joined = read_joined(out / "metrics.h5")
    assert joined.series["nodes_alive"][:, 0].tolist() == [n] * n
    assert joined.series["nodes_alive"][0, -1] == n - len([each for each in told if each["step"] >= 0])
    assert joined.series["step"].shape[0] == n
    living = [node for node in range(n) if node not in lost]
    for node in living:
        own = read_rank(out / "metrics" / f"rank_{node:05d}.h5")
        assert own.status.startswith("done: ")
        for gone in lost:
            assert f"node {gone} lost" in own.status or any(each["step"] < 0 for each in told)
        assert own.syncs["step"].tolist() == list(range(SYNC - 1, own.series["step"][-1], SYNC))
        assert np.isfinite(own.series["objective_average"][-1])
    for node in lost:  # its file is as it was
        left = read_rank(out / "metrics" / f"rank_{node:05d}.h5")
        assert (left.status, left.model) == ("running", None) or any(each["step"] < 0 for each in told)
    assert load_model(out / "model.h5").weights.shape == (6,)
    assert not list(out.glob(".alive*")), sorted(out.iterdir())
    return joined


def twin(tmp_path, kept, n, batch=8, overlap=False, momentum=0.0, seed=3):
    """Return the survivors' models after the cut, (steps, nodes, d), by the matrix form on the rows that are left."""
    A, y = load_svmlight_file(str(tmp_path / "train.txt"), n_features=6)
    shards = setting.contiguous(A.toarray(), y, n)
    nodes, at = [int(each["node"]) for each in kept], int(kept[0]["t"])
    left = [shards[node] for node in nodes]
    batches = [Batches(seed, node, len(shards[node][1]), batch) for node in nodes]
    assert at % SYNC == 0
    return sparq_matrix.sparq(
        setting.gradients("logistic", left, 1 / ROWS),
        setting.metropolis(len(nodes), setting.ring(len(nodes))),
        np.array([each["x"][0] for each in kept]),
        steps=len(kept[0]["x"]) - 1,
        step_size=setting.constant(0.3),
        sync_every=SYNC,
        compress=compressors.always(compressors.sign_top_k, 2),
        consensus_rate=0.3,
        threshold=setting.constant(1.0),
        overlap=overlap,
        rows=lambda node, t: batches[node].at(t + at),
    )


def same_as_twin(run, tmp_path, n, cut=1, **options):
    kept = run.kept(cut)
    assert len({int(each["t"]) for each in kept}) == 1
    expected = twin(tmp_path, kept, n, **options)
    assert len(expected.X) > 30
    assert expected.fired.any()
    assert len(kept) == 1 or not expected.fired.all()
    found = np.stack([each["x"] for each in kept], axis=1)
    np.testing.assert_allclose(found, expected.X, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("step", 25),
        ("exchange", ROUND),
        ("waiting", ROUND),
        ("evaluation", 6),
        ("mean", 4),
        ("control", 3),
    ],
)
@pytest.mark.parametrize("victim", [0, 2])
def test_a_death_is_outlived(place, count, victim, ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 4, {victim: [place, count]})
    joined = went_on(run, tmp_path, 4, [victim])
    same_as_twin(run, tmp_path, 4)
    objective, alive = joined.series["objective_average"][0], joined.series["nodes_alive"][0]
    assert objective[-1] < objective[alive == 3][0]
    print(f"{place}, rank {victim}: {run.pause():.3f} s from death to the next step")
    assert run.pause() < 10


def test_overlapped_and_checked(ulfm, tmp_path):
    words = ("algorithm.overlap=true", "network.check=true")
    run = begin(ulfm, tmp_path, 4, {1: ["waiting", ROUND]}, *words)
    went_on(run, tmp_path, 4, [1])
    same_as_twin(run, tmp_path, 4, overlap=True)


def test_segmentation_fault(ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 3, {1: ["waiting", ROUND, signal.SIGSEGV]})
    went_on(run, tmp_path, 3, [1])
    same_as_twin(run, tmp_path, 3)


@pytest.mark.parametrize("deaths", [{2: ["step", 25, 0]}, {0: ["exchange", ROUND], 2: ["step", 90, 0]}])
def test_a_fault_of_the_program_still_ends_all(deaths, ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 4, deaths)
    assert (run.result.code, run.result.timed_out) == (ENDED, False), str(run.result)
    assert "ArithmeticError: a fault in the program" in run.text
    assert ("3 of 4 nodes go on" in run.text) == (len(deaths) > 1)


def test_a_survivor_that_stops_is_seen_by_the_watchdog(ulfm, tmp_path):
    deaths = {0: ["exchange", ROUND], 2: ["step", 60, signal.SIGSTOP]}
    run = begin(ulfm, tmp_path, 4, deaths, "network.watchdog=4")
    assert (run.result.code, run.result.timed_out) == (ENDED, False), str(run.result)
    assert re.search(r"rank \d of 3 has waited \d+ s for .*; no sign of life of rank 1 ", run.text)


def test_where_nobody_dies_the_bits_are_those_of_lockstep(ulfm, tmp_path):
    words = ("network.reductions=ordered", "algorithm.overlap=true")
    run = begin(ulfm, tmp_path, 3, None, *words)
    run.result.check()
    assert "network.elastic is on" in run.text
    simulate(tmp_path / "job.toml", 3, tmp_path / "lockstep", *SHORT, *words)
    np.testing.assert_array_equal(finals(tmp_path / "out", 3), finals(tmp_path / "lockstep", 3))
    assert not (tmp_path / "out" / "metrics" / "lost.json").exists()


def test_one_after_the_other(ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 4, {0: ["exchange", ROUND], 3: ["exchange", 30]})
    joined = went_on(run, tmp_path, 4, [0, 3])
    same_as_twin(run, tmp_path, 4, cut=2)
    assert list(dict.fromkeys(joined.series["nodes_alive"][1].tolist())) == [4, 3, 2]


@pytest.mark.parametrize("second", [["exchange", ROUND], ["rebuild", 1]])
def test_two_at_once_and_one_in_the_rebuilding(second, ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 5, {0: ["exchange", ROUND], 3: second})
    went_on(run, tmp_path, 5, [0, 3])
    same_as_twin(run, tmp_path, 5, cut=len(list(run.records.glob("kept_2_*"))) and 2 or 1)


def test_of_two_one_goes_on_alone(ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 2, {0: ["exchange", ROUND]})
    went_on(run, tmp_path, 2, [0])
    same_as_twin(run, tmp_path, 2)


@pytest.mark.parametrize("place", ["average", "conclude"])
def test_death_at_the_end(place, ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 3, {0: [place, 1]})
    went_on(run, tmp_path, 3, [0])


def test_a_checkpoint_that_is_cut_off_and_those_behind_it(ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 4, {1: ["checkpoint", 2]}, "checkpoint.every=30")
    went_on(run, tmp_path, 4, [1])
    kept = found(tmp_path / "out" / "checkpoints")
    assert [read_manifest(path).nodes for path in kept] == [3, 3]
    (tmp_path / "out" / "model.h5").unlink()  # as if the job had been ended before its end
    for n in (3, 4):
        refused = ulfm.run(n, ["resume", tmp_path / "out"], tmp_path / "records")
        assert refused.result.code == 4
        assert "began on 4 ranks and lost some; its newest checkpoint is of 3 nodes" in refused.text
    words = ["--allow-repartition", *settings("stop.steps=240")]
    ulfm.run(4, ["resume", tmp_path / "out", *words], tmp_path / "records").result.check()
    assert read_joined(tmp_path / "out-on-4" / "metrics.h5").series["nodes_alive"].min() == 4


def test_graphs_that_do_not_fit_the_rest(ulfm, tmp_path):
    cube = begin(ulfm, tmp_path, 4, {3: ["exchange", ROUND]}, 'graph.name="hypercube"')
    went_on(cube, tmp_path, 4, [3])
    assert "graph what is left of hypercube, 3 nodes, 2 edges" in cube.text


def test_nodes_that_are_not_connected_end_the_run(ulfm, tmp_path):
    edges = "graph.edges=[[0,1],[1,2],[2,3]]"
    run = begin(ulfm, tmp_path, 4, {1: ["exchange", ROUND]}, "graph.name=", "graph.weights=", edges)
    assert (run.result.code, run.result.timed_out) == (6, False), str(run.result)
    assert run.text.count("those left cannot go on: graph what is left of edges on 3 nodes is disconnected") == 1


def test_edges_without_the_lost_node(ulfm, tmp_path):
    edges = "graph.edges=[[0,1],[1,2],[2,3],[0,3],[1,3]]"
    run = begin(ulfm, tmp_path, 4, {0: ["exchange", ROUND]}, "graph.name=", "graph.weights=", edges)
    went_on(run, tmp_path, 4, [0])
    same_as_twin(run, tmp_path, 4)


def test_without_ulfm_it_is_off_and_says_why(ulfm, tmp_path):
    run = begin(ulfm, tmp_path, 2, None, option=False)
    assert run.result.code == 0
    assert "network.elastic is off: Open MPI has to be started for it: mpiexec --with-ft ulfm" in run.text


@pytest.mark.slow
def test_killed_at_random(ulfm, tmp_path):
    """Twelve runs of four or five ranks; one or two are killed at any moment of the first second and a half."""
    table = []
    for seed in range(12):
        rng, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        n = rng.choice([4, 5])
        victims = rng.sample(range(n), rng.choice([1, 1, 2]))
        deaths = {victim: ["time", rng.uniform(0.02, 1.5)] for victim in victims}
        words = ("stop.steps=1000000", "stop.seconds=2.5", "metrics.every=60")
        run = begin(ulfm, folder, n, deaths, *words)
        joined = went_on(run, folder, n, victims)
        cuts = max(int(path.name.split("_")[1]) for path in run.records.glob("kept_*"))
        same_as_twin(run, folder, n, cut=cuts)
        objective = joined.series["objective_average"][0]  # with a constant step it ends in a ball, by 5 % up or down
        assert objective[-1] < objective.min() + 0.25 * (objective[0] - objective.min())
        table.append((seed, n, victims, int(run.kept(cuts)[0]["t"]), run.pause(cuts)))
    for row in table:
        print("seed {}: {} ranks, lost {}, went on at {}, {:.3f} s after the last death".format(*row))
