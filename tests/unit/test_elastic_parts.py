"""What elastic runs are made of, without MPI: the key, why it is off, the graph that is left, the records."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.jobs import JOB, write_job

from mpi_opt.build import build
from mpi_opt.elasticity import rebuild
from mpi_opt.errors import DataError, GarbledError, JobError, RankFailedError
from mpi_opt.job import load_job, to_toml
from mpi_opt.launch import without_ulfm
from mpi_opt.metrics.joined import join, read_joined
from mpi_opt.metrics.lost import Lost, read_lost, told, write_lost
from mpi_opt.network.collectives import Solo
from mpi_opt.network.elastic import wait_each
from mpi_opt.network.processes import Processes
from mpi_opt.run.loop import Run
from mpi_opt.run.plan import Plan
from mpi_opt.run.regroup import Position, position, regroup
from mpi_opt.run.stop import StopRules

OMPI = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution"


def test_key_is_taken_by_the_methods_of_neighbours_alone():
    assert load_job(JOB, ["network.elastic=true"]).network.elastic
    assert load_job(to_toml(load_job(JOB, ["network.elastic=true"]))).network.elastic
    assert not load_job(JOB).network.elastic
    words = ["algorithm.name=local-sgd", "network.elastic=true"]
    gone = [f"algorithm.{key}=" for key in ("threshold", "compressor", "consensus_rate")]
    with pytest.raises(JobError, match=r"network.elastic = true: .* local-sgd; taken by sparq-sgd, choco-sgd, d-psgd,"):
        load_job(JOB, [*words, *gone])
    load_job(JOB, [*words[:1], *gone, "network.elastic=false"])


@pytest.mark.parametrize(
    ("library", "environment", "why"),
    [
        ("MPICH Version: 5.0.2", {}, "it needs Open MPI 5 or newer, this is MPICH Version: 5.0.2"),
        ("Open MPI v4.1.4, package", {"OMPI_MCA_mpi_ft_enable": "1"}, "it needs Open MPI 5 or newer"),
        (OMPI, {}, "mpiexec --with-ft ulfm"),
        (OMPI, {"OMPI_MCA_mpi_ft_enable": "0"}, "mpiexec --with-ft ulfm"),
        (OMPI, {"OMPI_MCA_mpi_ft_enable": "1"}, ""),
        ("Open MPI v12.0.0", {"OMPI_MCA_mpi_ft_enable": "true"}, ""),
    ],
)
def test_why_it_is_off(library, environment, why):
    found = without_ulfm(library, environment)
    assert why in found
    assert bool(found) == bool(why)


class Among(Solo):
    """This process among survivors that all hold as many rows."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def sum(self, values):
        return values * self.size


def built_of(tmp_path, n, node, *words):
    """Return what the process of one node has, over MPI."""
    whole = build(load_job(write_job(tmp_path), words), Solo(), n, range(n))
    mine = {name: [getattr(whole, name)[node]] for name in ("nodes", "problems", "timed", "phases")}
    return replace(whole, **mine, loaded=replace(whole.loaded, train=(whole.loaded.train[node],)))


def test_objects_of_the_survivors(tmp_path):
    before = built_of(tmp_path, 4, 2)
    after, notes = rebuild(before, [0, 2, 3], Among(1, 3), auto=False)
    node, problem = after.nodes[0], after.problems[0]
    assert (node.index, node.count) == (1, 3)
    assert node.weights == {0: 1 / 3, 1: pytest.approx(1 / 3), 2: 1 / 3}
    assert node.batches is before.nodes[0].batches
    assert after.loaded.info.rows == 30
    assert after.l2 == before.l2 == 1 / 40
    assert after.mixing.graph.name == "ring"
    assert any("30 rows of these nodes from here on, 10 fewer" in note for note in notes)
    x = np.linspace(-1, 1, 6)
    data = before.problems[0].value(x) - before.problems[0].penalty(x)
    assert problem.value(x) == pytest.approx(data * (3 / 30) / (4 / 40) + problem.penalty(x))
    assert before.loaded.info.rows == 40


def test_rate_is_searched_anew_where_it_was_left_to_us(tmp_path):
    before = built_of(tmp_path, 6, 1, "algorithm.consensus_rate=auto")
    after, notes = rebuild(before, [1, 2, 4], Among(0, 3), auto=True)
    assert after.job.algorithm.consensus_rate != before.job.algorithm.consensus_rate
    assert after.algorithm.consensus_rate == after.job.algorithm.consensus_rate
    assert any(note.startswith("consensus_rate = ") for note in notes)
    kept, _ = rebuild(before, [1, 2, 4], Among(0, 3), auto=False)
    assert kept.algorithm.consensus_rate == before.algorithm.consensus_rate


@pytest.mark.parametrize(
    ("words", "survivors", "edges", "name"),
    [
        (['graph.name="hypercube"'], [0, 1, 2], {(0, 1), (0, 2)}, "what is left of hypercube"),
        (['graph.name="hypercube"'], [1, 3], {(0, 1)}, "hypercube"),
        (['graph.name="star"'], [1, 2, 3], {(0, 1), (0, 2)}, "star"),
        (["graph.name=", "graph.weights=", "graph.edges=[[0,1],[1,2],[2,3]]"], [1, 2, 3], {(0, 1), (1, 2)}, "what is"),
        (['graph.name="ring"'], [3], set(), "ring"),
    ],
)
def test_graph_that_is_left(words, survivors, edges, name, tmp_path):
    before = built_of(tmp_path, 4, survivors[0], *words)
    after, _ = rebuild(before, survivors, Among(0, len(survivors)), auto=False)
    assert set(after.mixing.graph.edges) == edges
    assert after.mixing.graph.name.startswith(name)


def test_weights_of_an_edge_list_stay(tmp_path):
    words = ["graph.name=", "graph.weights=", "graph.edges=[[0,1,0.2],[1,2,0.3],[0,2,0.4],[2,3,0.1]]"]
    after, _ = rebuild(built_of(tmp_path, 4, 2, *words), [0, 2, 3], Among(1, 3), auto=False)
    assert after.nodes[0].weights == {0: 0.4, 1: pytest.approx(0.5), 2: 0.1}


def test_nodes_left_alone_are_refused_on_all(tmp_path):
    words = ["graph.name=", "graph.weights=", "graph.edges=[[0,1],[1,2],[2,3]]"]
    with pytest.raises(RankFailedError, match=r"those left cannot go on: .*disconnected: 2 components") as caught:
        rebuild(built_of(tmp_path, 4, 0, *words), [0, 2, 3], Among(0, 3), auto=False)
    assert caught.value.everywhere
    alone = built_of(tmp_path, 2, 0, "stop.steps=", "stop.megabytes=1")
    with pytest.raises(RankFailedError, match=r"stop\.megabytes"):
        rebuild(alone, [0], Among(0, 1), auto=False)


class Request:
    def __init__(self, log, name, error=None):
        self.log, self.name, self.error = log, name, error

    def Wait(self, status=None):
        self.log.append((self.name, status))
        if self.error:
            raise self.error


def test_all_requests_are_waited_for_and_the_first_error_is_raised():
    log = []
    requests = [
        Request(log, 0),
        Request(log, 1, RuntimeError("a")),
        Request(log, 2, RuntimeError("b")),
        Request(log, 3),
    ]
    with pytest.raises(RuntimeError, match="a"):
        wait_each(requests, list("stuv"), lambda: log.append("revoked"))
    assert log == [(0, "s"), (1, "t"), "revoked", (2, "u"), (3, "v")]


class Recorder:
    def __init__(self, rows=0):
        self.rows, self.syncs, self.held, self.seconds = [], [], rows, 0.0

    def position(self):
        return self.held + len(self.rows), len(self.syncs)

    def row(self, values):
        self.rows.append(dict(values))

    def sync(self, *values):
        self.syncs.append(values)


def test_who_is_behind_is_aligned(tmp_path):
    """A node in the exchange of step 29, one that had gone on to step 33, and one that lacks the evaluation at 30."""
    before = built_of(tmp_path, 4, 2)
    from mpi_opt.network.lockstep import Lockstep

    network = SimpleNamespace(nodes=4, traffic=Lockstep([()], None).traffic, where=SimpleNamespace(step=0), clock=None)
    rules, recorder = StopRules(steps=60), Recorder(rows=2)
    plan = Plan(
        network=network,
        algorithm=before.algorithm,
        nodes=before.nodes,
        problems=before.timed,
        x0=np.ones(6),
        rules=rules,
        recorders=[recorder],
        steps_per_epoch=2.0,
    )
    run = Run(plan)
    run.t, run.moving, run.syncs, run.rows = 29, True, [9], [{"step": 20}]
    network.traffic[0].payload_bytes, network.traffic[0].rounds = 77, 10
    run.states[0].x[:], run.states[0].x_hat[:], run.states[0].mix[:] = 5.0, 4.0, 3.0
    assert position(run) == Position(30, 2, 20)
    after, _ = rebuild(before, [0, 2, 3], Among(1, 3), auto=False)
    fresh = SimpleNamespace(nodes=3, traffic=Lockstep([()], None).traffic, where=SimpleNamespace(step=0), clock=None)
    plan_after = Plan(
        network=fresh,
        algorithm=after.algorithm,
        nodes=after.nodes,
        problems=after.timed,
        x0=np.ones(6),
        rules=rules,
        recorders=[recorder],
        steps_per_epoch=3.0,
    )
    regroup(run, plan_after, [Position(30, 2, 20), Position(33, 3, 30), Position(33, 2, 20)])
    assert (run.t, run.moving, run.syncs, run.rounds, fresh.where.step) == (33, False, [11], 11, 33)
    assert [row["step"] for row in recorder.rows] == [30]
    assert [sync[0] for sync in recorder.syncs] == [29, 32]
    assert all(not sync[1] and sync[4] == 0 for sync in recorder.syncs)
    state = run.states[0]
    assert (state.t, set(state.x), set(state.x_hat), set(state.mix)) == (33, {5.0}, {0.0}, {0.0})
    assert state.x_hat is not state.mix
    assert fresh.traffic[0].payload_bytes == 77
    assert run.epoch == 16.5
    run.t = 36
    assert run.epoch == 17.5


def test_records_of_the_lost(tmp_path):
    (tmp_path / "metrics").mkdir()
    assert read_lost(tmp_path) == ()
    lost = [Lost(3, 60, "b", "2030-01-01T00:00:00.000+00:00"), Lost(1, -1, "a", "2030-01-01T00:00:01.000+00:00")]
    write_lost(tmp_path, lost)
    assert read_lost(tmp_path) == tuple(reversed(lost))
    assert told(lost) == "node 3 lost at step 60; node 1 lost after training"
    (tmp_path / "metrics" / "lost.json").write_text('[{"node": 1}]')
    with pytest.raises(DataError, match=r"lost\.json: damaged"):
        read_lost(tmp_path)
    write_lost(tmp_path, ())
    assert read_lost(tmp_path) == ()


def test_joined_metrics_of_a_run_that_lost_a_node(tmp_path):
    from mpi_opt.metrics import schema
    from mpi_opt.metrics.attributes import run_attributes
    from mpi_opt.metrics.recorder import Recorder as Real

    for node, rows in enumerate([4, 2, 4]):
        facts = run_attributes(
            job="", name="x", seed=0, node=node, nodes=3, mpi_library="m", threads=1, command=[], started="s",
            graph="ring", spectral_gap=1.0, consensus_rate=0.5,
        )  # fmt: skip
        with Real(tmp_path / "metrics" / f"rank_{node:05d}.h5", attributes=facts, dim=2) as recorder:
            for step in range(rows):
                counts = dict.fromkeys((c.name for c in schema.SERIES if c.kind == "i8"), 10 * step + node)
                common = {"step": step, "round": step, "nodes_alive": 3 - (step > 1), "objective_mean": 9.0 - step}
                recorder.row({**counts, **common, "objective_local": 1.0 * step})
                recorder.sync(step, True, 1.0, 2.0, 100)
    write_lost(tmp_path, [Lost(1, 2, "h", "t")])
    joined = read_joined(join(tmp_path))
    assert joined.attributes["lost"] == "node 1 lost at step 2"
    assert joined.attributes["cut"] == ""
    assert joined.series["step"].tolist() == [[0, 1, 2, 3]] * 3
    assert joined.series["nodes_alive"][1].tolist() == [3, 3, 2, 2]
    assert joined.series["objective_mean"][1].tolist() == [9.0, 8.0, 7.0, 6.0]
    assert joined.series["payload_bytes"][1].tolist() == [1, 11, 11, 11]
    np.testing.assert_array_equal(joined.series["objective_local"][1], [0.0, 1.0, np.nan, np.nan])
    assert joined.syncs["payload_bytes"][1].tolist() == [100, 100, 0, 0]
    write_lost(tmp_path, ())
    assert "series cut to 2" in read_joined(join(tmp_path)).attributes["cut"]


class Torn:
    """A communicator whose collectives end well, but leave nonsense: a rank died in them."""

    rank, size = 0, 2

    def allgather(self, item):
        return pickle.loads(b"\xc0" + pickle.dumps(item)[1:])

    def bcast(self, item, root):
        raise EOFError("Ran out of input")


@pytest.mark.parametrize("call", ["gather", "broadcast"])
def test_objects_that_a_death_left_unfilled_are_told_apart(call):
    everyone = Processes(Torn(), SimpleNamespace(Exception=OSError))
    with pytest.raises(GarbledError, match="cannot be read .* one may have died"):
        getattr(everyone, call)(("some", "thing"))


def test_errors_of_mpi_stay_what_they_are():
    everyone = Processes(Torn(), SimpleNamespace(Exception=EOFError))
    with pytest.raises(EOFError):
        everyone.broadcast(1)
