"""The outer loop in lockstep: every way to end, what is evaluated when, what is told to whom, what comes out."""

from types import SimpleNamespace

import numpy as np
import pytest
from support import cases, second_order

from mpi_opt.network.lockstep import Lockstep
from mpi_opt.run import loop
from mpi_opt.run.loop import run
from mpi_opt.run.plan import Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.run.timing import Phases


class Script:
    """An evaluator with given figures; it keeps step and models of each call."""

    def __init__(self, n, objectives=(), norms=()):
        self.n, self.objectives, self.norms = n, list(objectives), list(norms)
        self.steps, self.models = [], []

    def evaluate(self, models, step):
        at = len(self.steps)
        self.steps.append(step)
        self.models.append([model.copy() for model in models])
        objective = self.objectives[at] if at < len(self.objectives) else 1.0 / (1 + at)
        norm = self.norms[at] if at < len(self.norms) else 1.0
        return [{"objective_average": objective, "gradient_norm": norm, "node": i} for i in range(self.n)]


class Recording:
    """A recorder that keeps what it is handed."""

    seconds = 0.25

    def __init__(self):
        self.rows, self.syncs = [], []

    def row(self, values):
        self.rows.append(dict(values))

    def sync(self, step, fired, drift, threshold, payload_bytes):
        self.syncs.append((step, fired, drift, threshold, payload_bytes))


class Shown:
    def __init__(self):
        self.rows, self.closed = [], 0

    def show(self, row):
        assert not self.closed
        self.rows.append(row)

    def say(self, text):
        raise AssertionError("the loop says nothing by itself")

    def close(self):
        self.closed += 1


class Strict(Lockstep):
    """Lockstep that keeps the control reductions, and refuses two at once or an answer that nobody asked for."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.open, self.events, self.done = False, [], 0

    def advance(self, steps):
        self.done += 1
        return super().advance(steps)

    def control_start(self, flags):
        assert not self.open, "two control reductions at once"
        self.open = True
        self.events.append(("start", self.done))
        super().control_start(flags)

    def control_finish(self):
        assert self.open, "there is nothing to finish"
        self.open = False
        self.events.append(("finish", self.done))
        return super().control_finish()


class Breaks:
    """A problem whose sampled gradient is not a number from the given step on."""

    def __init__(self, problem, step):
        self._problem, self._step, self._calls = problem, step, 0

    def __getattr__(self, name):
        return getattr(self._problem, name)

    def sampled_gradient(self, x, rows, out=None):
        g = self._problem.sampled_gradient(x, rows, out)
        if self._calls >= self._step:
            g[3] = np.nan
        self._calls += 1
        return g


def plan_of(made, rules, *, network=None, breaks=None, **more):
    problems = [
        Breaks(problem, breaks[i]) if breaks and i in breaks else problem for i, problem in enumerate(made.problems)
    ]
    return Plan(
        network=network or Strict(made.neighbours, made.codec),
        algorithm=made.algorithm,
        nodes=made.nodes,
        problems=problems,
        x0=made.x0,
        rules=StopRules(**rules),
        **more,
    )


def ended(name="base", n=4, rules=None, changes=None, **more):
    made = cases.make(name, n, **(changes or {}))
    plan = plan_of(made, rules or {}, **more)
    outcome = run(plan)
    assert not getattr(plan.network, "open", False), "a control reduction was left open"
    return outcome, plan, made


def driven(name, n, steps, **changes):
    """Return models, iterates and network of the same steps without the loop."""
    made = cases.make(name, n, **changes)
    network = Lockstep(made.neighbours, made.codec)
    _, _, final, states = cases.drive(made, network, steps)
    return final, np.array([state.x for state in states]), network


# --- how a run ends ---


@pytest.mark.parametrize("steps", [1, 7, 30])
def test_steps(steps):
    outcome, _, _ = ended(rules={"steps": steps})
    assert (outcome.steps, outcome.reason, outcome.diverged) == (steps, f"{steps} steps", False)


def test_rounds_do_not_count_the_outputs_average():
    outcome, plan, _ = ended(rules={"rounds": 4})
    assert (outcome.steps, outcome.rounds, outcome.reason) == (12, 4, "4 rounds")
    assert [traffic.rounds for traffic in plan.network.traffic] == [5] * 4


def test_epochs():
    outcome, _, _ = ended(rules={"epochs": 2.5}, steps_per_epoch=4.0)
    assert (outcome.steps, outcome.reason) == (10, "2.5 epochs")


def test_the_first_of_several_rules_ends_the_run():
    outcome, _, _ = ended(rules={"steps": 30, "rounds": 20, "epochs": 2.0}, steps_per_epoch=5.0)
    assert (outcome.steps, outcome.reason) == (10, "2 epochs")


def test_gradient_norm():
    outcome, plan, _ = ended(
        rules={"gradient_norm": 0.1, "steps": 90}, evaluator=Script(4, norms=[1.0, 0.5, 0.2, 0.1]), evaluate_every=5
    )
    assert (outcome.steps, outcome.reason) == (15, "converged: gradient norm 0.1 <= 0.1")
    assert not outcome.diverged


def test_objective():
    outcome, _, _ = ended(
        rules={"objective": 0.3, "steps": 90}, evaluator=Script(4, objectives=[1.0, 0.5, 0.29]), evaluate_every=7
    )
    assert (outcome.steps, outcome.reason) == (14, "objective 0.29 <= 0.3")


def test_objective_of_the_start():
    outcome, _, _ = ended(rules={"objective": 2.0, "steps": 9}, evaluator=Script(4, objectives=[1.0, 1.0]))
    assert (outcome.steps, outcome.reason) == (0, "objective 1 <= 2")


def test_patience():
    course = [5.0, 4.0, 4.5, 4.0, 3.0, 3.0, 3.1]
    outcome, _, _ = ended(rules={"patience": 2, "steps": 90}, evaluator=Script(4, objectives=course), evaluate_every=4)
    assert (outcome.steps, outcome.reason) == (12, "no better objective in 2 evaluations")


def ticking(monkeypatch, tick):
    """Each look at the loop's clock shows ``tick`` more."""
    now = [0.0]

    def perf_counter():
        now[0] += tick
        return now[0]

    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=perf_counter))
    return now


@pytest.mark.parametrize(("evaluate_every", "steps"), [(1000, 12), (10, 10), (8, 8)])
def test_seconds_are_agreed_on_at_control_points(monkeypatch, evaluate_every, steps):
    """A step takes 1/8 s: the second is over at step 8, reported at 9 and acted on at 12, or at an evaluation."""
    ticking(monkeypatch, 0.125)
    outcome, _, _ = ended(
        rules={"seconds": 1.0, "steps": 90}, control_every=3, evaluate_every=evaluate_every, evaluator=Script(4)
    )
    assert outcome.steps == steps
    assert outcome.reason == ("1.1 seconds" if steps == 12 else f"{steps / 8:.1f} seconds")
    assert outcome.seconds == steps / 8


def test_the_clock_stands_still_during_evaluation(monkeypatch):
    now = ticking(monkeypatch, 0.125)

    class Slow(Script):
        def evaluate(self, models, step):
            now[0] += 100.0
            return super().evaluate(models, step)

    phases, recorders = [Phases() for _ in range(4)], [Recording() for _ in range(4)]
    outcome, _, _ = ended(
        rules={"steps": 20, "seconds": 50.0}, evaluate_every=5, evaluator=Slow(4), phases=phases, recorders=recorders
    )
    assert (outcome.steps, outcome.seconds) == (20, 2.5)
    assert [row["seconds"] for row in recorders[0].rows] == [0.0, 0.625, 1.25, 1.875, 2.5]
    assert recorders[0].rows[-1]["wall_seconds"] > 500
    assert all(500 < phase.evaluate < 510 for phase in phases)
    assert recorders[0].rows[-1]["evaluate_seconds"] == phases[0].evaluate
    assert recorders[0].rows[-1]["write_seconds"] == Recording.seconds


def test_megabytes_of_the_busiest_node():
    """The master hands 2 x 96 bytes a step to the others: 2 kB are passed at step 11, reported at 12, read at 16."""
    outcome, plan, _ = ended("allreduce", 3, {"megabytes": 0.002, "steps": 90}, control_every=4, average_output=False)
    assert (outcome.steps, outcome.reason) == (16, "0.002 megabytes by the busiest node")
    assert max(traffic.payload_bytes for traffic in plan.network.traffic) == 16 * 192


def test_a_method_that_ends_by_itself():
    made = second_order.make("newton", 3)
    plan = Plan(
        network=Strict([()] * 3, None), algorithm=made.algorithm, nodes=made.nodes, problems=made.problems, x0=made.x0,
        rules=StopRules(steps=40), average_output=False,
    )  # fmt: skip
    outcome = run(plan)
    assert outcome.reason.startswith("converged")
    assert outcome.steps < 12
    assert not outcome.diverged


def test_evaluated_stops_are_the_first_processs_word():
    """The others hear the reason; nobody trusts figures of his own that may differ in the last bit."""

    class Told:
        rank, size = 1, 2
        heard = []

        def broadcast(self, item, root=0):
            assert root == 0
            self.heard.append(item)
            return "objective 0.5 <= 0.5" if len(self.heard) == 3 else None

    made = cases.make("base", 4)
    network = Strict(made.neighbours, made.codec)
    network.collectives = Told()
    # By its own figures this process would have ended at the second evaluation.
    rules = {"objective": 0.5, "steps": 50}
    outcome = run(plan_of(made, rules, network=network, evaluator=Script(4, [1.0, 0.4, 0.6]), evaluate_every=5))
    assert (outcome.steps, outcome.reason) == (10, "objective 0.5 <= 0.5")
    assert Told.heard[:2] == [None, "objective 0.4 <= 0.5"]


# --- control ---


def test_control_goes_at_its_own_pace_and_is_read_at_the_next():
    _, plan, _ = ended(rules={"steps": 30}, control_every=5, evaluate_every=20, average_output=False)
    starts = [step for word, step in plan.network.events if word == "start"]
    finishes = [step for word, step in plan.network.events if word == "finish"]
    # 31: the end's own, behind settle
    assert starts == [0, 5, 10, 15, 20, 25, 31]
    assert finishes == [0, 10, 15, 20, 20, 30 + 1, 31]


def test_no_control_between_its_points():
    _, plan, _ = ended(rules={"steps": 30}, control_every=1000, evaluate_every=1000, average_output=False)
    assert plan.network.events == [("start", 0), ("finish", 0), ("start", 31), ("finish", 31)]


# --- divergence ---


def test_a_single_node_that_diverges_is_named_with_its_step():
    """From step 7 on node 2 is not finite, which its synchronisation at step 9 tells; acted on at the next control."""
    outcome, plan, _ = ended(
        rules={"steps": 60}, breaks={2: 7}, control_every=5, evaluate_every=1000, evaluator=Script(4)
    )
    assert outcome.diverged
    assert outcome.reason == (
        "node 2 is not finite at step 9: lower algorithm.step_size, or algorithm.consensus_rate where there is one"
    )
    assert outcome.steps == 15, "reported at step 10, acted on at step 15"
    assert [bool(np.isfinite(model).all()) for model in outcome.models] == [True, True, False, True]
    assert not np.isfinite(outcome.average).all()


@pytest.mark.parametrize(("breaks", "node", "step"), [({3: 1, 1: 4}, 3, 3), ({1: 4, 3: 4}, 1, 6), ({0: 9, 2: 8}, 2, 9)])
def test_the_earliest_divergence_is_named(breaks, node, step):
    outcome, _, _ = ended(rules={"steps": 40}, breaks=breaks, evaluate_every=1000)
    assert outcome.diverged
    assert outcome.reason.startswith(f"node {node} is not finite at step {step}: ")


@pytest.mark.parametrize("name", ["base", "overlap", "local"])
def test_divergence_after_the_last_synchronisation_is_found(name):
    outcome, _, _ = ended(name, rules={"steps": 11}, breaks={2: 9}, evaluate_every=100)
    assert (outcome.steps, outcome.diverged) == (11, True)
    assert outcome.reason.startswith("node 2 is not finite at step 11: ")


def test_divergence_between_synchronisations_is_found_at_an_evaluation():
    outcome, _, _ = ended("local", rules={"steps": 100}, breaks={2: 9}, evaluate_every=10)
    assert (outcome.steps, outcome.diverged) == (10, True)
    assert outcome.reason.startswith("node 2 is not finite at step 10: ")


def test_divergence_on_the_very_last_step_of_a_rule_is_told_instead_of_the_rule():
    outcome, _, _ = ended(rules={"steps": 9}, breaks={1: 8}, evaluator=Script(4), evaluate_every=9)
    assert outcome.diverged
    assert outcome.reason.startswith("node 1 is not finite at step 9: ")


def test_divergence_is_evaluated_last_too():
    recorders = [Recording() for _ in range(4)]
    outcome, _, _ = ended(
        rules={"steps": 60}, breaks={2: 7}, control_every=5, evaluate_every=1000, evaluator=Script(4),
        recorders=recorders,
    )  # fmt: skip
    assert [row["step"] for row in recorders[0].rows] == [0, 15]
    assert outcome.rows[0]["step"] == 15


# --- evaluation and records ---


@pytest.mark.parametrize(("steps", "at"), [(25, [0, 10, 20, 25]), (20, [0, 10, 20]), (4, [0, 4])])
def test_rows_are_taken_at_start_every_so_often_and_once_at_the_end(steps, at):
    recorders, shown = [Recording() for _ in range(4)], Shown()
    outcome, _, _ = ended(rules={"steps": steps}, evaluator=Script(4), recorders=recorders, progress=shown)
    for i, recorder in enumerate(recorders):
        assert [row["step"] for row in recorder.rows] == at
        assert {row["node"] for row in recorder.rows} == {i}
    assert [row["step"] for row in shown.rows] == at
    assert shown.closed == 1
    assert outcome.rows == [recorder.rows[-1] for recorder in recorders]


@pytest.mark.parametrize("rules", [{"objective": 0.3, "steps": 50}, {"steps": 20}])
def test_no_step_has_two_rows_and_the_last_is_taken_behind_the_outputs_average(rules):
    """Also where an evaluation ends the run."""
    made = cases.make("overlap", 4)
    network, recorders = Strict(made.neighbours, made.codec), [Recording() for _ in range(4)]
    script = Script(4, objectives=[1.0, 0.5, 0.2, 0.2])
    outcome = run(
        plan_of(
            made, rules, network=network, evaluator=script, recorders=recorders,
            values=lambda k: {"payload_bytes": network.traffic[k].payload_bytes},
        )
    )  # fmt: skip
    assert [row["step"] for row in recorders[1].rows] == [0, 10, 20]
    assert [row["payload_bytes"] for row in outcome.rows] == [traffic.payload_bytes for traffic in network.traffic]
    np.testing.assert_array_equal(script.models[-1], outcome.models)
    assert outcome.rows[0]["round"] == outcome.rounds == 6


def test_counts_in_rows():
    recorders = [Recording() for _ in range(4)]
    outcome, plan, made = ended(
        rules={"steps": 25}, evaluator=Script(4), recorders=recorders, steps_per_epoch=5.0, evaluate_every=10
    )
    _, fired, _, _ = cases.drive(cases.make("base", 4), Lockstep(made.neighbours, made.codec), 25)
    for i, recorder in enumerate(recorders):
        assert [row["round"] for row in recorder.rows] == [0, 3, 6, 8]
        assert [row["epoch"] for row in recorder.rows] == [0.0, 2.0, 4.0, 5.0]
        assert [row["syncs"] for row in recorder.rows] == [0, 3, 6, 8]
        assert [row["fired"] for row in recorder.rows] == [int(fired[:k, i].sum()) for k in (0, 3, 6, 8)]
        assert [step for step, *_ in recorder.syncs] == [2, 5, 8, 11, 14, 17, 20, 23]
        assert [spoke for _, spoke, *_ in recorder.syncs] == fired[:, i].tolist()
        for _, spoke, drift, threshold, sent in recorder.syncs:
            assert spoke == (drift > threshold) == (sent > 0)
            assert threshold == 3.0 * 0.2**2
    assert (outcome.syncs, outcome.fired) == (32, int(fired.sum()))


def test_bytes_of_synchronisations_add_up():
    recorders = [Recording() for _ in range(4)]
    _, plan, _ = ended(rules={"steps": 30}, recorders=recorders, average_output=False)
    for recorder, traffic in zip(recorders, plan.network.traffic, strict=True):
        assert sum(sent for *_, sent in recorder.syncs) == traffic.payload_bytes > 0


def test_inspect_sees_states_at_evaluations():
    seen = []
    ended(rules={"steps": 25}, inspect=lambda t, states: seen.append((t, [state.t for state in states])))
    assert seen == [(t, [t] * 4) for t in (0, 10, 20, 25)]


def test_without_an_evaluator_there_are_no_rows():
    outcome, _, _ = ended(rules={"steps": 5})
    assert outcome.rows == []


# --- what comes out ---


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("base", {}),
        ("overlap", {}),
        ("overlap, momentum, rate", {}),
        ("momentum", {}),
        ("base", {"weighted_offset": 50.0}),
        ("overlap", {"weighted_offset": 1.0}),
        ("local, momentum", {}),
    ],
)
@pytest.mark.parametrize("steps", [1, 2, 30, 31])
@pytest.mark.parametrize("average", [True, False])
def test_outputs(name, changes, steps, average):
    outcome, plan, made = ended(
        name, rules={"steps": steps}, changes=changes, evaluator=(script := Script(4)), average_output=average
    )
    models, iterates, network = driven(name, 4, steps, **changes)
    np.testing.assert_array_equal(outcome.models, models)
    np.testing.assert_array_equal(outcome.iterates, iterates)
    np.testing.assert_array_equal(script.models[-1], models)
    sent = [traffic.payload_bytes for traffic in plan.network.traffic]
    before = [traffic.payload_bytes for traffic in network.traffic]
    assert outcome.rounds == network.traffic[0].rounds
    if average:
        np.testing.assert_allclose(outcome.average, models.mean(axis=0), rtol=1e-14, atol=1e-16)
        # To the master a vector and a weight; from it a vector to each.
        up, down = 8 * cases.DIM + 8, 3 * 8 * cases.DIM
        assert [a - b for a, b in zip(sent, before, strict=True)] == [down, up, up, up]
    else:
        assert outcome.average is None
        assert sent == before
    if "weighted_offset" in changes and steps > 1:
        assert np.abs(np.array(outcome.models) - outcome.iterates).max() > 1e-4


def test_outputs_are_copies():
    outcome, plan, made = ended(rules={"steps": 6}, evaluator=(script := Script(4)))
    kept = [model.copy() for model in outcome.models]
    for model in outcome.iterates:
        model[:] = 0.0
    np.testing.assert_array_equal(outcome.models, kept)
    np.testing.assert_array_equal(script.models[-1], kept)
    np.testing.assert_array_equal(made.x0, cases.make("base", 4).x0)


def test_evaluation_and_control_do_not_change_the_course():
    quiet, _, _ = ended("overlap", rules={"steps": 40}, evaluate_every=1000, control_every=1000)
    busy, _, _ = ended("overlap", rules={"steps": 40}, evaluate_every=1, control_every=1, evaluator=Script(4))
    np.testing.assert_array_equal(quiet.models, busy.models)
