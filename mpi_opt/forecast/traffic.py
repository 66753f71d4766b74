"""Bytes on the way: of each message, of a round, of the busiest node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mpi_opt.algorithms.local_newton import LocalNewton
from mpi_opt.algorithms.parts.finish import FromKnown
from mpi_opt.algorithms.parts.preconditioner import Shared
from mpi_opt.build import Built
from mpi_opt.draws import Key, Purpose
from mpi_opt.forecast.spread import Spread
from mpi_opt.run.progress import size


@dataclass(frozen=True, slots=True)
class Reduction:
    """A sum or mean over all nodes.

    Attributes
    ----------
    what : str
    up, down : int
        Bytes from each worker to the master, node 0, and back to each.
    per_step : float or None
        How many a step takes; ``None``: as many as are needed.
    short : bool
        A few numbers: no round.
    first : int
        Further bytes up and down, once in the run.
    """

    what: str
    up: int
    down: int
    per_step: float | None = 1.0
    short: bool = False
    first: int = 0


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One message to a neighbour: an encoded one of a normal random vector.

    ``message``, ``floor`` and ``dense`` are bytes: of the message with its header, of the information-theoretic floor,
    of the vector in fp32. ``degrees``: neighbours a node.
    """

    message: int
    floor: float
    dense: int
    degrees: Spread


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a method sends.

    Attributes
    ----------
    sync_every : int
        Steps from one round to the next.
    exchanged : Exchanged or None
        Of gossip methods.
    reductions : sequence of Reduction
        Of the other ones.
    output : int
        Bytes that the busiest node hands over for the averaged model at the end.
    nodes : int
    """

    sync_every: int
    exchanged: Exchanged | None
    reductions: Sequence[Reduction]
    output: int
    nodes: int

    @property
    def round_bytes(self) -> int:
        """Bytes that the busiest node hands over in a round at most: those of the largest reduction."""
        if self.exchanged is not None:
            return int(self.exchanged.message * self.exchanged.degrees.most)
        return max(self.busiest(each) for each in self.reductions)

    @property
    def rounds_per_step(self) -> float | None:
        """Rounds of a step; ``None`` where they depend on how it goes."""
        if self.exchanged is not None:
            return 1.0 / self.sync_every
        rounds = [each.per_step for each in self.reductions if not each.short]
        known = [number for number in rounds if number is not None]
        return sum(known) if len(known) == len(rounds) else None

    def busiest(self, each: Reduction) -> int:
        """Return the bytes that the busiest node, the master or a worker, hands over for a reduction."""
        return max(each.up, (self.nodes - 1) * each.down) if self.nodes > 1 else 0

    def run_bytes(self, steps: int) -> int | None:
        """Return what the busiest node hands over in so many steps; ``None`` where it depends on how it goes."""
        if self.exchanged is not None:
            return self.round_bytes * (steps // self.sync_every) + self.output
        if any(each.per_step is None and not each.short for each in self.reductions) or self.nodes == 1:
            return None if self.nodes > 1 else 0
        up = down = 0
        for each in self.reductions:
            if each.per_step is not None:
                count = int(steps * each.per_step)
                up += count * each.up + each.first
                down += count * each.down + each.first
        return max(up, (self.nodes - 1) * down) + self.output


def traffic(built: Built) -> Traffic:
    """Return what the job's method sends."""
    nodes, dim = built.nodes[0].count, built.problems[0].dim
    output = 8 * dim * (nodes - 1) if built.averages and nodes > 1 else 0
    sync = built.job.algorithm.sync_every
    return Traffic(sync, _exchanged(built), [] if built.codec is not None else _reductions(built), output, nodes)


def _exchanged(built: Built) -> Exchanged | None:
    if built.codec is None or built.compressor is None:
        return None
    dim, buffer = built.problems[0].dim, np.empty(built.codec.max_bytes, dtype=np.uint8)
    drawn = Key(built.job.seed, 0, Purpose.GOSSIP, 0).generator().normal(size=dim)
    message = built.compressor.compress(drawn, Key(built.job.seed, 0, Purpose.COMPRESSION, 0))
    one = sum(built.codec.encode(message, buffer))
    return Exchanged(one, message.floor_bits() / 8, 4 * dim, Spread.of([len(around) for around in built.neighbours()]))


def _reductions(built: Built) -> list[Reduction]:
    """Return the reductions of a method, as its file yields them."""
    table, problem, algorithm = built.job.algorithm, built.timed[0], cast(Any, built.algorithm)
    return _of(table.name, algorithm, problem.dim, table.averaging == "support", Shared().numbers(problem), built)


def _of(name: str, algorithm: Any, dim: int, by_support: bool, conditioner: int, built: Built) -> list[Reduction]:
    triangle = dim * (dim + 1) // 2
    search = _sum("losses of a line search, short", _lengths(algorithm), short=True)
    mean = _sum("direction", dim + 1, first=dim) if by_support else _mean("direction", dim)
    match name:
        case "allreduce-sgd":
            return [_mean("the gradient and its weight", dim)]
        case "local-sgd":
            return [_mean("the model and its weight", dim, per_step=1 / built.job.algorithm.sync_every)]
        case "newton":
            whole = _sum("gradient, loss and the Hessian's upper triangle", dim + 2 + triangle)
            every = algorithm.hessian_every
            if every == 1:
                return [whole]
            rest = _sum("gradient and loss", dim + 2, per_step=1 - 1 / every)
            return [_sum(whole.what, dim + 2 + triangle, per_step=1 / every), rest]
        case "giant":
            return [_sum("gradient and loss", dim + 2), mean, search]
        case "newton-cg":
            return [
                _sum("gradient, loss and preconditioner", dim + 2 + conditioner),
                _sum("each product of the inner iteration", dim, per_step=None),
            ]
        case "lbfgs":
            return [_sum("gradient and loss", dim + 2)]
        case "admm":
            gradient = dim if algorithm.tolerance.gradient_norm > 0 else 0
            first = 2  # the mean of the Hessian's diagonal, in a short sum of its own
            return [_sum("the model and its residuals", dim + 3 + gradient, first=first)]
        case "local-newton":
            return _local_newton(algorithm, dim, by_support, conditioner, built)
    raise ValueError(f"no reductions are known of {name}")


def _local_newton(
    algorithm: LocalNewton, dim: int, by_support: bool, conditioner: int, built: Built
) -> list[Reduction]:
    known = algorithm.adaptive and isinstance(algorithm.finish, FromKnown)
    numbers, what = 1 + known * dim, "loss and gradient" if known else "loss"
    told = f"the model and its {what}"
    per_step = 1.0 if algorithm.finish is None else None
    local = (
        _sum(told, dim + numbers + 1, per_step=per_step, first=dim)
        if by_support
        else _mean(told, dim + numbers, per_step=per_step)
    )
    if algorithm.finish is None:
        return [local]
    finish = built.job.algorithm.finish
    after = _of(finish, algorithm.finish, dim, by_support, conditioner, built)
    return [
        local,
        *(Reduction(f"then {finish}: {each.what}", each.up, each.down, None, each.short, each.first) for each in after),
    ]


def _lengths(algorithm: Any) -> int:
    """Return the numbers of a global line search: a loss for each candidate, and the rows."""
    return len(algorithm.search.lengths) + 1 if hasattr(algorithm, "search") else 0


def _sum(what: str, numbers: int, *, per_step: float | None = 1.0, short: bool = False, first: int = 0) -> Reduction:
    return Reduction(what, 8 * numbers, 8 * numbers, per_step, short, 8 * first)


def _mean(what: str, numbers: int, *, per_step: float | None = 1.0) -> Reduction:
    """Up travels the weight too."""
    return Reduction(what, 8 * (numbers + 1), 8 * numbers, per_step)


def lines(built: Built, found: Traffic) -> list[str]:
    """Return the forecast's lines on graph and traffic."""
    if found.exchanged is not None and built.mixing is not None:
        one, graph = found.exchanged, built.mixing.graph
        return [
            f"graph        {graph.name}, weights {built.mixing.weights}: {len(graph.edges)} edges, "
            f"neighbours {one.degrees.told()}, spectral gap {built.mixing.spectral_gap:.4g}",
            f"traffic      every {found.sync_every} steps at most one message a neighbour, about {one.message} B "
            f"(floor {one.floor:.0f}, dense fp32 {one.dense}), {size(found.round_bytes)} a node and round",
        ]
    text = []
    when = f"every {found.sync_every} steps" if found.sync_every > 1 else "an iteration"
    for each in found.reductions:
        back = "as much" if each.up == each.down else size(each.down)
        text.append(f"traffic      {when}: {size(each.up)} from each worker, {back} back to each ({each.what})")
    if found.nodes > 1:
        text.append(f"             the master hands over {size(found.round_bytes)} a round at most")
    return text
