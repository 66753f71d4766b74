"""Interrupted and uninterrupted runs are the same to the last bit, for every method, wherever they were interrupted."""

import dataclasses
import json

import numpy as np
import pytest
from support import methods

from mpi_opt.network.collectives import Solo
from mpi_opt.network.lockstep import Lockstep
from mpi_opt.run.checkpoint import Checkpoints, found, read_manifest, read_node
from mpi_opt.run.freezing import Frozen, freeze, thaw
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules

STEPS = 9
NAMES = [*methods.NAMES, methods.OVERLAPPED]


class AskAt:
    """Stands for signals: asks once the run has called so often for it, at every step once."""

    def __init__(self, calls):
        self.calls = calls

    @property
    def came(self):
        self.calls -= 1
        return 15 if self.calls < 0 else 0


class Rows:
    """Stands for a recorder."""

    seconds = 0.0

    def __init__(self, rows=(), syncs=()):
        self.rows, self.syncs = list(rows), list(syncs)

    def position(self):
        return len(self.rows), len(self.syncs)

    def row(self, values):
        self.rows.append({name: value for name, value in values.items() if "seconds" not in name})

    def sync(self, *values):
        self.syncs.append(values)


class Evaluate:
    """The plainest evaluation: of the mean of the models."""

    def __init__(self, made):
        self.made = made

    def evaluate(self, models_, step):
        mean = np.mean(models_, axis=0)
        value = float(np.mean([problem.value(mean) for problem in self.made.problems]))
        return [{"objective_average": value, "gradient_norm": 1.0, "at": float(step)} for _ in models_]


def go(name, n, tmp_path, *, recorders=None, resumed=None, ask=10**9, every=None, steps=STEPS):
    made = methods.make(name, n)
    network = Lockstep(made.neighbours, made.codec)
    recorders = recorders or [Rows() for _ in range(n)]
    plan = Plan(
        network=network,
        algorithm=made.algorithm,
        nodes=made.nodes,
        problems=made.problems,
        x0=made.x0,
        rules=StopRules(steps=steps),
        evaluator=Evaluate(made),
        recorders=recorders,
        evaluate_every=4,
        control_every=1,
        checkpoints=Checkpoints(folder=tmp_path / "checkpoints", collectives=Solo(), nodes=n, every=every),
        resumed=resumed,
        signals=AskAt(ask),
        values=lambda index: {"sent": network.traffic[index].payload_bytes},
    )
    return run(plan), recorders, network, plan


def counts(network):
    plain = [dataclasses.asdict(traffic) for traffic in network.traffic]
    return [{name: value for name, value in each.items() if "seconds" not in name} for each in plain]


def pieces_of(tmp_path, n):
    manifest = read_manifest(found(tmp_path / "checkpoints")[0])
    return [read_node(manifest, node) for node in range(n)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 3])
def test_interrupted_anywhere_it_ends_as_if_it_was_not(name, n, tmp_path):
    whole, rows, network, _ = go(name, n, tmp_path)
    paused = 0
    for ask in range(STEPS + 2):
        folder = tmp_path / str(ask)
        outcome, earlier, *_ = go(name, n, folder, ask=ask)
        if not outcome.paused:
            continue
        paused += 1
        pieces = pieces_of(folder, n)
        assert pieces[0]["t"] == outcome.steps
        # A killed process would have written on: what came after the checkpoint is cut off.
        kept = [
            Rows(r.rows[: p["recorded"][0]], r.syncs[: p["recorded"][1]]) for r, p in zip(earlier, pieces, strict=True)
        ]
        outcome, again, other, plan = go(name, n, folder, recorders=kept, resumed=pieces)
        assert not outcome.paused
        assert outcome.steps == whole.steps
        for a, b in zip(whole.models + whole.iterates, outcome.models + outcome.iterates, strict=True):
            assert a.tobytes() == b.tobytes()
        if whole.average is not None:
            assert whole.average.tobytes() == outcome.average.tobytes()
        assert (outcome.reason, outcome.rounds, outcome.syncs, outcome.fired) == (
            whole.reason, whole.rounds, whole.syncs, whole.fired
        )  # fmt: skip
        for a, b in zip(rows, again, strict=True):
            assert a.rows == b.rows
            assert a.syncs == b.syncs
        assert counts(network) == counts(other)
    assert paused >= 3


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_on_the_way_change_nothing(name, tmp_path):
    """Also from each of them: an overlapped exchange is completed for one, and answered for later."""
    whole, rows, network, _ = go(name, 3, tmp_path / "a")
    outcome, others, other, _ = go(name, 3, tmp_path / "b", every=2)
    assert [r.rows for r in rows] == [r.rows for r in others]
    assert counts(network) == counts(other)
    for a, b in zip(whole.models, outcome.models, strict=True):
        assert a.tobytes() == b.tobytes()
    kept = found(tmp_path / "b" / "checkpoints")
    assert len(kept) == min(2, (outcome.steps - 1) // 2)


@pytest.mark.parametrize("name", NAMES)
def test_states_are_thawed_as_they_were(name):
    made = methods.make(name, 3)
    network = Lockstep(made.neighbours, made.codec)
    states, _ = methods.drive(made, network, methods.begin(made, network), 4)
    for state in states:
        frozen = Frozen()
        text = json.loads(json.dumps(freeze(state, frozen)))
        back = thaw(text, [array.copy() for array in frozen.arrays])
        again = Frozen()
        assert json.loads(json.dumps(freeze(back, again))) == text
        for a, b in zip(frozen.arrays, again.arrays, strict=True):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.parametrize("begin", [1, 2, 3, 4, 7])
def test_a_run_begun_at_a_later_step_expects_only_what_is_in_flight(begin, tmp_path):
    """The first Collect after a late beginning answers with nothing, and every later one with what was posted."""
    made = methods.make(methods.OVERLAPPED, 3)
    network, given = Lockstep(made.neighbours, made.codec), []
    give = network.give

    def noted(inboxes):
        given.append(list(inboxes))
        give(inboxes)

    network.give = noted
    plan = Plan(
        network=network,
        algorithm=made.algorithm,
        nodes=made.nodes,
        problems=made.problems,
        x0=made.x0,
        rules=StopRules(steps=begin + 7),
        begin=begin,
    )
    outcome = run(plan)
    assert outcome.steps == begin + 7
    assert np.isfinite(outcome.models).all()
    assert given == ([[(), (), ()]] if begin >= made.algorithm.sync_every else [])
