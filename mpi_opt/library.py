"""Library use: minimise a user's own problem from a user's own MPI script."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_opt.algorithms.base import Algorithm, Node, check_needs
from mpi_opt.algorithms.registry import BY_ROWS
from mpi_opt.compression.base import Codec
from mpi_opt.draws import Batches
from mpi_opt.errors import DivergedError, JobError
from mpi_opt.network.base import Network, Traffic
from mpi_opt.network.collectives import Collectives, Solo
from mpi_opt.problems.base import Problem
from mpi_opt.run.gradient import GradientNorm
from mpi_opt.run.loop import run
from mpi_opt.run.plan import CONTROL_SYNCS, Plan
from mpi_opt.run.stop import StopRules
from mpi_opt.topology.mixing import Mixing, make_mixing
from mpi_opt.topology.registry import make_graph
from mpi_opt.types import Vector


@dataclass(frozen=True, slots=True)
class Result:
    """What `minimize` returns on each rank.

    Attributes
    ----------
    x : ndarray, shape (d,)
        This rank's own final model.
    average : ndarray, shape (d,)
        Mean of all ranks' models, the same bits everywhere; its bytes are counted.
    steps, rounds : int
        Steps taken and communication rounds.
    reason : str
        Why the run ended.
    seconds : float
        Run clock.
    traffic : Traffic
        What this rank handed to MPI.
    gradient_norm : float
        |grad F| at the average, the same bits everywhere; NaN unless a bound on it was given.
    """

    x: Vector
    average: Vector
    steps: int
    rounds: int
    reason: str
    seconds: float
    traffic: Traffic
    gradient_norm: float = np.nan


def minimize(
    problem: Problem,
    algorithm: Algorithm,
    *,
    comm: Any = None,
    steps: int,
    graph: str | Sequence[Sequence[int]] = "ring",
    weights: str = "metropolis",
    x0: Vector | None = None,
    seed: int = 0,
    callback: Callable[[int, Vector], None] | None = None,
    every: int = 10,
    gradient_norm: float | None = None,
) -> Result:
    """Minimise ``F = (1/n) sum_i f_i`` where each rank of ``comm`` brings its own ``f_i``.

    Methods of whole passes (LocalNewton, GIANT, Newton, Newton-CG, L-BFGS, ADMM) weight by rows:
    ``F = sum_i N_i f_i / N``, so that ``f_i`` is a mean over the rank's rows. Every rank calls this with its own
    problem and an equal algorithm. If one rank raises, all end with its traceback.

    Parameters
    ----------
    problem : Problem
        This rank's function (see ``mpi_opt.problems.base``): one of the package's, or any object with its methods.
    algorithm : Algorithm
        For example ``mpi_opt.SparqSGD(...)``.
    comm : mpi4py.MPI.Intracomm, optional
        One rank a node; duplicated, so that the caller's own messages are safe. Without it: one node and no MPI.
    steps : int
        Steps to take, at least 1.
    graph : str or sequence of pairs, optional
        A graph's name (see ``mpi_opt.topology.registry.GRAPHS``) or its edges.
    weights : {"metropolis", "uniform", "lazy"}, optional
        Rule of the mixing matrix.
    x0 : ndarray, shape (d,), optional
        Start, the same on all ranks; by default the problem's own where it has one (`problems.base.Started`, as
        modules do), else zeros.
    seed : int, optional
        Seed of batches and random compressors.
    callback : callable, optional
        Called as ``callback(step, x)`` with this rank's own model at the start, every ``every`` steps and at the end;
        ``x`` is only to be read.
    every : int, optional
        Steps between calls of ``callback``.
    gradient_norm : float, optional
        End once |grad F| at the average of all ranks' models is at most this; looked at where ``callback`` is called,
        by two reductions of d numbers counted as evaluation. Methods of whole passes need not be told here: their own
        ``tolerance`` ends them in the middle.

    Returns
    -------
    Result

    Raises
    ------
    DivergedError
        On every rank: a node's model is no longer finite.
    JobError
        An argument does not fit: names it and what is allowed.
    """
    nodes, protected, collectives = (1, nullcontext(), Solo()) if comm is None else _over(comm)
    with protected:
        error, start, mixing, codec = None, np.zeros(0), None, None
        try:
            start = _start(problem, algorithm, steps, every, x0)
            if gradient_norm is not None and not gradient_norm >= 0:
                raise JobError(f"minimize: gradient_norm = {gradient_norm}; allowed: at least 0, or None")
            params = {} if isinstance(graph, str) else {"edges": [list(edge) for edge in graph]}
            mixing = make_mixing(make_graph(graph if isinstance(graph, str) else "edges", nodes, params, seed), weights)
            compressor = getattr(algorithm, "compressor", None)
            codec = None if compressor is None else compressor.codec(problem.dim, seed)
        except JobError as wrong:
            error = wrong
        collectives.check(error)
        assert mixing is not None
        _check_alike(
            collectives,
            dim=problem.dim,
            steps=steps,
            every=every,
            seed=seed,
            x0=start.tobytes(),
            graph=mixing.graph.edges,
            algorithm=type(algorithm).__name__,
            sync_every=getattr(algorithm, "sync_every", 1),
            overlap=getattr(algorithm, "overlap", False),
            compressor=0 if codec is None else codec.max_bytes,
            gradient_norm=gradient_norm,
        )
        network = _connect(comm, mixing, codec)
        (index,) = network.local
        node = Node(
            index=index,
            count=nodes,
            seed=seed,
            weights=mixing.row(index),
            batches=Batches(seed, index, problem.rows, algorithm.batch),
            scratch=(np.empty(problem.dim), np.empty(problem.dim)),
        )

        evaluator = None
        if gradient_norm is not None:
            share = 1.0
            if isinstance(algorithm, BY_ROWS):
                share = nodes * problem.rows / max(float(collectives.sum(np.array([float(problem.rows)]))[0]), 1.0)
            evaluator = GradientNorm(network, [problem], [share])

        def inspect(step: int, states: Sequence[Any]) -> None:
            if callback is not None:
                callback(step, algorithm.model(states[0]))

        plan = Plan(
            network=network,
            algorithm=algorithm,
            nodes=[node],
            problems=[problem],
            x0=start,
            rules=StopRules(steps=steps, gradient_norm=gradient_norm),
            evaluator=evaluator,
            evaluate_every=every,
            control_every=CONTROL_SYNCS * getattr(algorithm, "sync_every", 1),
            inspect=inspect,
        )
        outcome = run(plan)
        network.close()
    if outcome.diverged:
        diverged = DivergedError(outcome.reason)
        diverged.everywhere = True
        raise diverged
    own = outcome.models[0]
    return Result(
        x=own,
        average=own if outcome.average is None else outcome.average,
        steps=outcome.steps,
        rounds=outcome.rounds,
        reason=outcome.reason,
        seconds=outcome.seconds,
        traffic=network.traffic[0],
        gradient_norm=np.nan if gradient_norm is None else float(outcome.rows[0]["gradient_norm"]),
    )


def _start(problem: Problem, algorithm: Algorithm, steps: int, every: int, x0: Vector | None) -> Vector:
    """Check the arguments and return the start."""
    if steps < 1 or every < 1:
        raise JobError(f"minimize: steps = {steps}, every = {every}; allowed: at least 1")
    check_needs(algorithm, problem)
    if x0 is None:
        x0 = getattr(problem, "start", None)  # see `problems.base.Started`
    start = np.zeros(problem.dim) if x0 is None else np.array(x0, dtype=np.float64)
    if start.shape != (problem.dim,):
        raise JobError(f"minimize: x0 has shape {start.shape}; allowed: ({problem.dim},)")
    return start


def _check_alike(collectives: Collectives, **values: Any) -> None:
    """Raise everywhere if ranks were given different arguments: they would wait for each other for ever."""
    for name, theirs in ((name, collectives.gather(value)) for name, value in values.items()):
        odd = next((rank for rank, value in enumerate(theirs) if value != theirs[0]), None)
        if odd is not None:
            shown = "" if name in ("x0", "graph") else f" ({theirs[0]} and {theirs[odd]})"
            error = JobError(
                f"minimize: {name} differs between ranks 0 and {odd}{shown}; allowed: the same on all ranks"
            )
            error.everywhere = True
            raise error


def _over(comm: Any) -> tuple[int, AbstractContextManager[None], Collectives]:
    from mpi_opt.network.mpi import collectives_of, ending_all

    return comm.size, ending_all(comm), collectives_of(comm)


def _connect(comm: Any, mixing: Mixing, codec: Codec | None) -> Network:
    if comm is None:
        from mpi_opt.network.lockstep import Lockstep

        return Lockstep([()], codec)
    from mpi_opt.network.mpi import MpiNetwork

    return MpiNetwork(comm, mixing.graph.neighbours(comm.rank), codec)
