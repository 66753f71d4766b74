"""When a run ends. Every rule is one collective decision: all ranks read the same numbers.

Three kinds of rules. Planned ones (steps, rounds, epochs) follow from the step number alone. Evaluated ones (objective,
gradient norm, patience) read figures that carry the same bits on every rank. The rest (seconds, megabytes, divergence)
differs between ranks, so it travels in a control reduction and is acted on when that is read.
"""

import signal
import time
from dataclasses import dataclass, field

import numpy as np

from mpi_opt.run.signals import Signals
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRules:
    """Bounds of a run, whichever comes first; ``None`` is no bound.

    Attributes
    ----------
    steps, rounds : int
        Steps taken, communication rounds completed.
    epochs : float
        Passes over the training set.
    seconds : float
        Run clock of the slowest rank, s; it stands still during evaluation.
    megabytes : float
        1e6 bytes handed to MPI by the busiest node, payload and headers.
    gradient_norm, objective : float
        |grad F| and F at the averaged model, at an evaluation.
    patience : int
        Evaluations in a row without a new least objective at the averaged model.
    """

    steps: int | None = None
    rounds: int | None = None
    epochs: float | None = None
    seconds: float | None = None
    megabytes: float | None = None
    gradient_norm: float | None = None
    objective: float | None = None
    patience: int | None = None

    def planned(self, step: int, rounds: int, epoch: float) -> str | None:
        """Return why the run ends here, or ``None``."""
        if self.steps is not None and step >= self.steps:
            return f"{step} steps"
        if self.rounds is not None and rounds >= self.rounds:
            return f"{rounds} rounds"
        if self.epochs is not None and epoch >= self.epochs:
            return f"{epoch:g} epochs"
        return None


@dataclass(slots=True)
class Watch:
    """The evaluated rules, with the memory that patience needs."""

    rules: StopRules
    least: float = np.inf
    waited: int = 0

    def evaluated(self, objective: float, gradient_norm: float) -> str | None:
        """Return why the run ends after this evaluation, or ``None``."""
        rules = self.rules
        if rules.gradient_norm is not None and gradient_norm <= rules.gradient_norm:
            return f"converged: gradient norm {gradient_norm:.3g} <= {rules.gradient_norm:g}"
        if rules.objective is not None and objective <= rules.objective:
            return f"objective {objective:.10g} <= {rules.objective:g}"
        self.waited = 0 if objective < self.least else self.waited + 1
        self.least = min(self.least, objective)
        if rules.patience is not None and self.waited >= rules.patience:
            return f"no better objective in {self.waited} evaluations"
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a control reduction says."""

    reason: str
    diverged: bool


OVER = 1000
"""Flag of a run whose time is over; above every signal's number."""


def wish(signals: Signals | None, deadline: float | None) -> int:
    """Return this process's own wish to pause, as a flag."""
    if signals is not None and signals.came:
        return signals.came
    return OVER if deadline is not None and time.time() >= deadline else 0


def asked_by(flag: float) -> str:
    """Return who asks the run to pause, by the reduced flag; empty where nobody does."""
    if not flag:
        return ""
    return "its time is over" if flag >= OVER else signal.Signals(int(flag)).name


@dataclass(slots=True)
class Control:
    """One process's part of the control reduction: flags of which the largest wins.

    ``flags`` holds: seconds, megabytes, the first divergence as ``-(step * nodes + node)`` (-inf: none), so that the
    earliest step, and on it the lowest node, is the one named; the number of a signal that came, or `OVER` where the
    time given is over (0: neither); seconds since the last checkpoint.
    """

    rules: StopRules
    nodes: int
    flags: Vector = field(default_factory=lambda: np.array([0.0, 0.0, -np.inf, 0.0, 0.0]))

    def report(self, seconds: float, megabytes: float, asked: int = 0, since: float = 0.0) -> Vector:
        """Return the flags to be reduced."""
        self.flags[0], self.flags[1], self.flags[3], self.flags[4] = seconds, megabytes, asked, since
        return self.flags

    def diverged(self, node: int, step: int) -> None:
        """Remember that a local node's vectors are not finite after ``step`` steps."""
        self.flags[2] = max(self.flags[2], -float(step * self.nodes + node))

    def read(self, agreed: Vector) -> Verdict | None:
        """Return what all ranks agreed on, or ``None`` to go on."""
        if np.isfinite(agreed[2]):
            step, node = divmod(int(-agreed[2]), self.nodes)
            return Verdict(
                f"node {node} is not finite at step {step}: "
                "lower algorithm.step_size, or algorithm.consensus_rate where there is one",
                diverged=True,
            )
        if self.rules.seconds is not None and agreed[0] >= self.rules.seconds:
            return Verdict(f"{agreed[0]:.1f} seconds", diverged=False)
        if self.rules.megabytes is not None and agreed[1] >= self.rules.megabytes:
            return Verdict(f"{agreed[1]:.3f} megabytes by the busiest node", diverged=False)
        return None
