"""The closing words: counts of all nodes, and how they are told."""

from dataclasses import astuple

import numpy as np
import pytest
from support import cases

from mpi_opt.network.base import Traffic
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Outcome, Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.run.summary import Totals, lines, totals

ROW = {
    "objective_average": 0.123456789012345,
    "objective_mean": 0.125,
    "objective_worst": 0.25,
    "test_error_average": 0.125,
    "test_error_mean": 0.13,
    "test_error_worst": 0.5,
    "consensus_distance": 0.00123456,
    "gradient_norm": 0.02,
}
TRAFFIC = Traffic(
    rounds=8, messages=96, payload_bytes=4000, header_bytes=500, floor_bits=24_000, control_bytes=1500,
    evaluation_bytes=2_000_000,
)  # fmt: skip


def outcome(**changes):
    given = {
        "models": [], "iterates": [], "average": None, "rows": [ROW], "steps": 60, "rounds": 20, "reason": "60 steps",
        "diverged": False, "paused": False, "seconds": 1.234, "syncs": 40, "fired": 30,
    }  # fmt: skip
    return Outcome(**{**given, **changes})


def test_lines():
    assert list(lines(outcome(), Totals(TRAFFIC, 160, 120), 4)) == [
        "done: 60 steps (60 steps, 20 rounds, 1.23 s)",
        "  objective    averaged model 0.123456789012, nodes' own: mean 0.125, worst 0.25",
        "  test error   averaged model 12.50%, nodes' own: mean 13.00%, worst 50.00%",
        "  consensus    mean |x_i - average|^2 = 0.00123, |gradient| at the average = 0.02",
        "  fired        120 of 160 node-syncs (75.0%)",
        "  sent         4.5 kB by all 4 nodes, 1.12 kB a node in the mean, in 96 messages",
        "               payload 4000 B, headers 500 B, floor for random supports 3000 B; "
        "apart: evaluation 2 MB, control 1.5 kB",
    ]


@pytest.mark.parametrize(("sampled", "own"), [(1, "own of 1 of 4 nodes, drawn"), (4, "nodes' own"), (9, "nodes' own")])
def test_a_sample_of_the_nodes_is_not_called_all(sampled, own):
    text = list(lines(outcome(), Totals(TRAFFIC, 160, 120), 4, sampled=sampled))
    assert text[1:3] == [
        f"  objective    averaged model 0.123456789012, {own}: mean 0.125, worst 0.25",
        f"  test error   averaged model 12.50%, {own}: mean 13.00%, worst 50.00%",
    ]


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({"rows": [ROW | {"test_error_average": np.nan}]}, ["test error"]),
        ({"rows": []}, ["test error", "objective", "consensus"]),
    ],
)
def test_what_is_unknown_is_left_out(changes, gone):
    full = list(lines(outcome(), Totals(TRAFFIC, 160, 120), 4))
    left = [line for line in full if not line.startswith(tuple(f"  {word}" for word in gone))]
    assert len(left) == len(full) - len(gone)
    assert list(lines(outcome(**changes), Totals(TRAFFIC, 160, 120), 4)) == left


def test_methods_that_reduce_fire_nothing():
    text = lines(outcome(), Totals(Traffic(messages=6, payload_bytes=600), 60, 60), 3)
    assert not any("fired" in line for line in text)


def test_divergence():
    said = "node 2 is not finite at step 9: lower algorithm.step_size"
    first = lines(outcome(diverged=True, reason=said, steps=15, rounds=5), Totals(TRAFFIC, 1, 1), 4)[0]
    assert first == f"diverged: {said} (15 steps, 5 rounds, 1.23 s)"


def test_one_node_sends_nothing():
    text = lines(outcome(rows=[]), Totals(Traffic(rounds=20), 20, 0), 1)
    assert text[1] == "  sent         0 B by all 1 nodes, 0 B a node in the mean, in 0 messages"


@pytest.mark.parametrize("name", ["base", "local"])
def test_totals_are_sums_over_nodes(name):
    made = cases.make(name, 5)
    network = Lockstep(made.neighbours, made.codec)
    ended = run(
        Plan(
            network=network, algorithm=made.algorithm, nodes=made.nodes, problems=made.problems, x0=made.x0,
            rules=StopRules(steps=30),
        )
    )  # fmt: skip
    all_nodes = totals(network, ended)
    expected = [sum(values) for values in zip(*map(astuple, network.traffic), strict=True)]
    assert list(astuple(all_nodes.traffic)) == expected
    assert [type(value) for value in astuple(all_nodes.traffic)] == [type(value) for value in astuple(Traffic())]
    assert (all_nodes.syncs, all_nodes.fired) == (ended.syncs, ended.fired)
    assert all_nodes.syncs == 5 * 10


def test_totals_over_several_processes():
    """Each process carries one node; the others' counts come by a sum."""

    class Twice:
        def sum(self, values):
            return 2 * values

    network = Lockstep([()], None)
    network.collectives = Twice()
    network.traffic[0].payload_bytes = 21
    network.traffic[0].wait_seconds = 0.25
    both = totals(network, outcome(syncs=10, fired=4))
    assert (both.traffic.payload_bytes, both.traffic.wait_seconds, both.syncs, both.fired) == (42, 0.5, 20, 8)
