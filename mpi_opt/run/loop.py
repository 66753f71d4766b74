"""The one outer loop: step, stop the clock, evaluate, record, go on.

It serves ``mpi-opt run`` over MPI (one local node), ``simulate`` in lockstep (all nodes local) and
``mpi_opt.minimize`` alike. Algorithms never stop by themselves and never see a clock.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mpi_opt.algorithms.base import Info
from mpi_opt.requests import Average, Steps
from mpi_opt.run.plan import Outcome, Plan
from mpi_opt.run.snapshot import restore, take
from mpi_opt.run.stop import Control, Verdict, Watch, asked_by, wish
from mpi_opt.types import Vector


def run(plan: Plan) -> Outcome:
    """Run ``plan`` to its end on this process's nodes; every process calls it alike."""
    return Run(plan).to_the_end()


class Run:
    """The loop's own state."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.states = [plan.algorithm.init(problem, plan.x0) for problem in plan.problems]
        self.t = plan.begin
        self.syncs = [0] * len(plan.nodes)
        self.fired = [0] * len(plan.nodes)
        self.blocks = [0.0] * len(plan.nodes)
        self.clock = 0.0
        self.began = time.perf_counter()
        self.watch = Watch(plan.rules)
        self.control = Control(plan.rules, plan.network.nodes)
        self.output_rounds = 0
        self.inspected = -1
        self.controlled = False
        self.answer: Vector | None = None
        self.asked = ""
        self.since = self.began
        self.due = 0.0
        self.rows: list[dict[str, float | int]] = []
        self.moving = False
        self.epochs, self.epochs_at = 0.0, 0

    @property
    def epoch(self) -> float:
        """Passes over the training set so far; a step counts for more once nodes are lost."""
        return self.epochs + (self.t - self.epochs_at) / self.plan.steps_per_epoch

    @property
    def rounds(self) -> int:
        """Communication rounds so far, in which all nodes take part; the output's average is none of the method's."""
        return self.plan.network.traffic[0].rounds - self.output_rounds

    def to_the_end(self) -> Outcome:
        """Take steps until a rule, the method or a wish to pause ends the run."""
        plan = self.plan
        # A diverging run overflows on its way; it is found by its numbers, not by warnings.
        with np.errstate(over="ignore", invalid="ignore"):
            if plan.resumed is not None:
                restore(self, plan.resumed)
                return self._steps(self._planned())
            if plan.begin:
                self.states = [replace(state, t=plan.begin) for state in self.states]
                if getattr(plan.algorithm, "overlap", False) and plan.begin >= getattr(plan.algorithm, "sync_every", 1):
                    # The method expects what was in flight before; there is nothing.
                    plan.network.give([()] * len(self.states))
            return self._steps(self._evaluate())

    def go_on(self) -> Outcome:
        """Go on where `regroup.regroup` has left the run."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._steps(self._evaluate() or self._planned())

    def _steps(self, verdict: Verdict | None) -> Outcome:
        plan = self.plan
        while verdict is None:
            ended = self._step()
            if ended:
                verdict = Verdict(ended, diverged=False)
                break
            verdict = self._planned()
            if verdict is not None:
                break
            if self.t % plan.evaluate_every == 0:
                verdict = self._evaluate()
            elif self.t % plan.control_every == 0:
                verdict = self._control()
            if verdict is None and plan.checkpoints is not None:
                if self.asked:
                    return self._pause()
                if plan.checkpoints.due(self.t, self.due):
                    self._checkpoint()
        return self._end(verdict)

    def _planned(self) -> Verdict | None:
        plan = self.plan
        planned = plan.rules.planned(self.t, self.rounds, self.epoch)
        return None if planned is None else Verdict(planned, diverged=False)

    def _step(self) -> str:
        """Take one step on every local node; return why the method itself is at its end, if it is."""
        plan, t, clock = self.plan, self.t, self.plan.network.clock
        if clock is not None:
            clock.begin(t)
        began = time.perf_counter()
        bytes_before = [traffic.payload_bytes for traffic in plan.network.traffic] if plan.recorders else []
        step, states, self.moving = plan.algorithm.step, self.states, True
        results = plan.network.advance([step(*each) for each in zip(states, plan.problems, plan.nodes, strict=True)])
        plan.network.poke()
        self.moving = False
        self.t = plan.network.where.step = t + 1
        self.clock = self.clock + time.perf_counter() - began if clock is None else clock.latest
        for index, (state, info) in enumerate(results):
            states[index] = state
            if info.synced:
                self._count(index, t, info, bytes_before)
        return str(results[0][1].ended)

    def _count(self, index: int, t: int, info: Info, bytes_before: Sequence[int]) -> None:
        plan = self.plan
        self.syncs[index] += 1
        self.fired[index] += info.fired
        self.blocks[index] += info.blocks
        if info.diverged:
            self.control.diverged(plan.nodes[index].index, t + 1)
        if plan.recorders:
            sent = plan.network.traffic[index].payload_bytes - bytes_before[index]
            told = (info.blocks,) if plan.blocks else ()
            plan.recorders[index].sync(t, info.fired, info.drift, info.threshold, sent, *told)

    def _control(self, *, at_once: bool = False) -> Verdict | None:
        """Act on the control reduction under way and start the next; ``at_once`` waits for that one too."""
        network = self.plan.network
        verdict = self._read() if self.controlled else None
        sent = max(traffic.payload_bytes + traffic.header_bytes for traffic in network.traffic)
        network.control_start(
            self.control.report(
                self.clock, sent / 1e6, wish(self.plan.signals, self.plan.deadline), time.perf_counter() - self.since
            )
        )
        self.controlled = True
        if at_once:
            verdict = self._read() or verdict
            self.controlled = False
        return verdict

    def _read(self) -> Verdict | None:
        """Complete the control reduction under way and note what it asks for; return why the run ends, if it does."""
        agreed, self.answer = self.answer, None
        if agreed is None:
            agreed = self.plan.network.control_finish()
        self.asked = self.asked or asked_by(agreed[3])
        self.due = float(agreed[4])
        return self.control.read(agreed)

    def _checkpoint(self) -> None:
        """Write a checkpoint of what all nodes need to go on from here, with the clock stopped."""
        plan = self.plan
        assert plan.checkpoints is not None
        if self.controlled and self.answer is None:
            self.answer = plan.network.control_finish().copy()
        if self.answer is not None:
            self.answer[4] = 0.0  # it was asked before this checkpoint
        plan.checkpoints.write(self.t, {node.index: piece for node, piece in zip(plan.nodes, take(self), strict=True)})
        self.since, self.due = time.perf_counter(), 0.0

    def _pause(self) -> Outcome:
        """Leave the run where it is, to be resumed."""
        self._checkpoint()
        self.plan.progress.close()
        return self._outcome(Verdict(self.asked, diverged=False), paused=True)

    def _evaluate(self) -> Verdict | None:
        """Evaluate with the clock stopped; return why to stop, or record the row and go on."""
        self._notice_divergence()
        verdict = self._control(at_once=True)
        figures = self._figures()
        if verdict is None and figures:
            reason = self.watch.evaluated(figures[0]["objective_average"], figures[0]["gradient_norm"])
            # Equal numbers, but perhaps computed by processors of two kinds: one of them decides.
            reason = self.plan.network.collectives.broadcast(reason)
            verdict = Verdict(reason, diverged=False) if reason else None
        if verdict is None:
            self._record(figures)
        return verdict

    def _notice_divergence(self) -> None:
        """Flag local nodes whose model is not finite, also where no synchronisation has seen it."""
        for node, state in zip(self.plan.nodes, self.states, strict=True):
            model = self.plan.algorithm.model(state)
            if not np.isfinite(model @ model):
                self.control.diverged(node.index, self.t)

    def _figures(self) -> list[dict[str, float]]:
        """Return the evaluation of the nodes' present models; nothing without an evaluator."""
        plan = self.plan
        if plan.inspect is not None and self.inspected != self.t:
            self.inspected = self.t
            plan.inspect(self.t, self.states)
        if plan.evaluator is None:
            return []
        began = time.perf_counter()
        figures = plan.evaluator.evaluate([plan.algorithm.model(state) for state in self.states], self.t)
        for phase in plan.phases:
            phase.evaluate += time.perf_counter() - began
        return figures

    def _record(self, figures: Sequence[Mapping[str, float]]) -> None:
        """Hand the rows of an evaluation to the recorders and show the first."""
        plan = self.plan
        self.rows = [self.row(index, row) for index, row in enumerate(figures)]
        for recorder, row in zip(plan.recorders, self.rows, strict=False):
            recorder.row(row)
        if self.rows:
            plan.progress.show(self.rows[0])

    def row(self, index: int, figures: Mapping[str, float]) -> dict[str, float | int]:
        """Return the row of a local node with these figures."""
        plan = self.plan
        row: dict[str, float | int] = {
            **(plan.values(index) if plan.values is not None else {}),
            **figures,
            "step": self.t,
            "round": self.rounds,
            "epoch": self.epoch,
            "nodes_alive": plan.network.nodes,
            "seconds": self.clock,
            "wall_seconds": time.perf_counter() - self.began,
            "syncs": self.syncs[index],
            "fired": self.fired[index],
        }
        if plan.blocks:
            row["blocks_fired"] = self.blocks[index]
        if plan.phases:
            phases = plan.phases[index]
            row["compute_seconds"] = phases.compute
            row["compress_seconds"] = phases.compress
            row["evaluate_seconds"] = phases.evaluate
            row["write_seconds"] = plan.recorders[index].seconds if plan.recorders else phases.write
        if plan.network.clock is not None:
            row |= plan.network.clock.values(index)
        return row

    def _end(self, verdict: Verdict) -> Outcome:
        """Complete what is in flight, take the models out, and evaluate them last of all."""
        plan = self.plan
        settle = plan.algorithm.settle
        results = plan.network.advance(
            [settle(*each) for each in zip(self.states, plan.problems, plan.nodes, strict=True)]
        )
        self.states = [state for state, _ in results]
        average = None
        if plan.average_output:
            # The averaged model is an output, so its bytes are the method's.
            average = plan.network.advance([_averaged(plan.algorithm.model(state)) for state in self.states])[0][0]
            self.output_rounds = 1
        if plan.network.clock is not None:
            self.clock = plan.network.clock.latest
        self._notice_divergence()
        late = self._control(at_once=True)
        if late is not None and late.diverged:
            verdict = late
        self._record(self._figures())
        plan.progress.close()
        return self._outcome(verdict, average=average)

    def _outcome(self, verdict: Verdict, *, average: Vector | None = None, paused: bool = False) -> Outcome:
        plan, algorithm = self.plan, self.plan.algorithm
        # A weighted mean is a model, but not where the node ended.
        iterate = getattr(algorithm, "iterate", algorithm.model)
        return Outcome(
            models=[algorithm.model(state).copy() for state in self.states],
            iterates=[iterate(state).copy() for state in self.states],
            average=average,
            rows=self.rows,
            steps=self.t,
            rounds=self.rounds,
            reason=verdict.reason,
            diverged=verdict.diverged,
            paused=paused,
            seconds=self.clock,
            syncs=sum(self.syncs),
            fired=sum(self.fired),
            simulated=plan.network.clock is not None,
            blocks=sum(self.blocks) if plan.blocks else None,
        )


def _averaged(model: Vector) -> Steps:
    """Ask for the mean of all nodes' models; the answer is copied, for it is the network's."""
    mean = yield Average(model, 1.0)
    return mean.copy(), Info(synced=True)
