"""SPARQ-SGD: Singh, Data, George, Diggavi 2019, arXiv 1910.14280, Algorithm 1, seen from node i.

| paper             | here             | shape | meaning                                                      |
|-------------------|------------------|-------|--------------------------------------------------------------|
| x_i               | ``x``            | (d,)  | iterate                                                      |
| xhat_i            | ``x_hat``        | (d,)  | what the neighbours believe x_i to be; starts at 0           |
| sum_j w_ij xhat_j | ``mix``          | (d,)  | all that is kept of the neighbours (and i itself)            |
| eta_t             | ``step_size``    |       | step size schedule                                           |
| c_t               | ``trigger``      |       | threshold schedule or controller, longest silence; by tensor |
| H                 | ``sync_every``   |       | t + 1 in I_T when ``(t + 1) % H == 0``                       |
| gamma             | ``consensus_rate`` |     | consensus step size in (0, 1]                                |
| C                 | ``compressor``   |       | compression operator                                         |
| v, beta           | ``momentum``     | (d,)  | Nesterov momentum of SQuARM-SGD, arXiv 2005.07041            |

Deviations: one running sum ``mix`` instead of a copy xhat_j for each neighbour (the same sequence, since W is fixed);
xhat starts at x0 where the problem has a start of its own (a module's initial parameters), which nobody need be told;
a bound on silence; on wish a trigger for each tensor, with c_t shared out by length; the overlapped form, in which a
round's messages are applied one synchronisation later, own and neighbours' alike, so that the network mean is kept.

Presets of this engine: CHOCO-SGD (H = 1, c = 0), D-PSGD (C = identity, c = 0, gamma = 1), SQuARM-SGD (momentum).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from mpi_opt.algorithms.base import Info, Node, check_counts, check_range
from mpi_opt.algorithms.parts.descent import descend, local_gradient
from mpi_opt.algorithms.parts.gossip import absorb, pull
from mpi_opt.algorithms.parts.replicas import Replicas
from mpi_opt.algorithms.parts.tensor_trigger import TensorMemory, TensorTrigger
from mpi_opt.algorithms.parts.trigger import Trigger, TriggerMemory
from mpi_opt.algorithms.parts.weighted_mean import WeightedMean
from mpi_opt.compression.base import Compressor, Message
from mpi_opt.draws import Key, Purpose
from mpi_opt.errors import DivergedError
from mpi_opt.problems.base import Problem
from mpi_opt.requests import Collect, Exchange, Inbox, Post, Steps
from mpi_opt.types import Vector

Memory: TypeAlias = TriggerMemory | TensorMemory


@dataclass(frozen=True, slots=True)
class State:
    """Exactly what step t needs. Arrays are owned by the step and updated in place."""

    t: int
    x: Vector
    x_hat: Vector
    mix: Vector
    momentum: Vector | None
    trigger: Memory
    weighted: WeightedMean | None
    pending: Message | None = None
    """Own message in flight (overlapped form)."""
    replicas: Replicas | None = None
    """One copy of xhat_j a neighbour, kept only in check mode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SparqSGD:
    """Decentralized SGD with local steps, an event trigger and compressed differences.

    Parameters
    ----------
    step_size : callable
        eta_t by step number.
    trigger : Trigger or TensorTrigger
        When a node speaks, or each tensor of its model for itself.
    compressor : Compressor
        C.
    consensus_rate : float
        gamma in (0, 1].
    sync_every : int
        H >= 1.
    batch : int or None
        Rows a step; ``None`` takes the whole shard.
    beta : float
        Nesterov momentum in [0, 1); 0 is plain SGD.
    overlap : bool
        Complete an exchange one synchronisation later, behind the local steps.
    weighted_offset : float or None
        ``a`` of the (a + t)^2 average of the iterates, which then is the model; ``None`` keeps the last iterate.
    check : bool
        Keep the neighbours' estimates one by one, for comparison with their owners.
    """

    step_size: Callable[[int], float]
    trigger: Trigger | TensorTrigger
    compressor: Compressor
    consensus_rate: float
    sync_every: int = 1
    batch: int | None = None
    beta: float = 0.0
    overlap: bool = False
    weighted_offset: float | None = None
    check: bool = False

    needs: ClassVar[tuple[str, ...]] = ("sampled_gradient",)

    def __post_init__(self) -> None:
        check_counts(sync_every=self.sync_every, batch=self.batch)
        gamma = self.consensus_rate
        check_range("consensus_rate", gamma, "above 0 and at most 1", 0 < gamma <= 1)
        if isinstance(self.trigger, TensorTrigger):
            self.trigger.check(self.compressor)
        check_range("beta", self.beta, "at least 0 and below 1", 0 <= self.beta < 1)
        offset = self.weighted_offset
        check_range("weighted_offset", offset or 0.0, "at least 0, or None", (offset or 0.0) >= 0)

    def init(self, problem: Problem, x0: Vector) -> State:
        """Return the state before step 0: x = x0, and xhat = 0, or x0 for a `problems.base.Started`."""
        d, started = problem.dim, hasattr(problem, "start")
        x_hat = x0.copy() if started else np.zeros(d)
        return State(
            t=0,
            x=x0.copy(),
            x_hat=x_hat,
            mix=x_hat.copy(),
            momentum=np.zeros(d) if self.beta else None,
            trigger=self.trigger.memory(),
            weighted=None if self.weighted_offset is None else WeightedMean(self.weighted_offset, np.zeros(d)),
            replicas=Replicas({}, x0.copy() if started else None) if self.check else None,
        )

    def step(self, state: State, problem: Problem, node: Node) -> Steps:
        """Take step t: a local SGD step, and a synchronisation when t + 1 is a sync index."""
        t, x, eta, H = state.t, state.x, self.step_size(state.t), self.sync_every
        if state.weighted is not None:
            state.weighted.add(x, t, node.scratch[0])
        descend(x, local_gradient(x, t, problem, node), eta, state.momentum, self.beta, node.scratch[1])
        if (t + 1) % H:
            return replace(state, t=t + 1), Info()
        r = (t + 1) // H - 1
        if self.overlap and r > 0:
            self._agree(state, state.pending, (yield Collect(r - 1)), node)
        q, memory, info = self._speak(state, eta, node, r)
        if self.overlap:
            yield Post(q, r)
            return replace(state, t=t + 1, trigger=memory, pending=q), info
        self._agree(state, q, (yield Exchange(q, r)), node)
        return replace(state, t=t + 1, trigger=memory), info

    def _agree(self, state: State, q: Message | None, inbox: Inbox, node: Node) -> None:
        """Complete a round: own and neighbours' messages together, then the consensus step."""
        gamma = self.consensus_rate
        absorb(state.x_hat, state.mix, q, inbox, node)
        if state.replicas is not None:
            state.replicas.absorb(inbox)
        pull(state.x, state.x_hat, state.mix, gamma, node.scratch[0])

    def _speak(self, state: State, eta: float, node: Node, r: int) -> tuple[Message | None, Memory, Info]:
        """Compare x with xhat; return q_i (or None for silence), the trigger's memory, and what happened."""
        C, difference, trigger = self.compressor, node.scratch[0], cast(Any, self.trigger)
        np.subtract(state.x, state.x_hat, out=difference)
        drifts = trigger.drift(difference)  # of the model, or of each tensor
        drift = float(np.sum(drifts))
        if not math.isfinite(drift):
            return None, state.trigger, Info(synced=True, drift=drift, diverged=True)
        fired, bound, memory = trigger.decide(drifts, state.t, eta, state.trigger)
        if not np.any(fired):
            return None, memory, Info(synced=True, drift=drift, threshold=bound)
        try:
            q = trigger.say(C, difference, Key(node.seed, node.index, Purpose.COMPRESSION, r), fired)
        except DivergedError:
            return None, state.trigger, Info(synced=True, drift=drift, threshold=bound, diverged=True)
        return q, memory, Info(synced=True, fired=True, blocks=trigger.share(fired), drift=drift, threshold=bound)

    def settle(self, state: State, problem: Problem, node: Node) -> Steps:
        """Complete the exchange in flight, if there is one."""
        rounds = state.t // self.sync_every
        if self.overlap and rounds:
            self._agree(state, state.pending, (yield Collect(rounds - 1)), node)
            state = replace(state, pending=None)
        return state, Info()

    def rejoin(self, state: State, t: int) -> State:
        """Return the state with which the node goes on at step ``t`` among other neighbours.

        What a node knows alone stays: x, momentum, the weighted mean, the trigger's memory. What neighbours know of
        each other begins anew, xhat = 0 on all nodes, so that ``mix`` is again the sum it stands for.
        """
        nothing = np.zeros_like(state.x)
        replicas = Replicas({}) if self.check else None
        return replace(state, t=t, x_hat=nothing, mix=nothing.copy(), pending=None, replicas=replicas)

    def model(self, state: State) -> Vector:
        """Return x, or the weighted mean of the iterates where that is the output."""
        return state.x if state.weighted is None or not state.weighted.total else state.weighted.mean

    def iterate(self, state: State) -> Vector:
        """Return x, whatever the output is."""
        return state.x
