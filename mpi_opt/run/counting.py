"""Proxies that count the operations of a problem and a compressor as seconds, by rates: the same on every machine.

They stand where those of `run.timing` stand, and add to the same `Phases`. What is counted are the passes over the
shard's stored entries, dense Hessians and their factors, by the formulas of `scaling.cost`; not counted is arithmetic
on vectors of the model's length. Every dense Hessian is taken to be factored once, wherever that happens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from mpi_opt.compression.base import Codec, Compressor, Message, Partial
from mpi_opt.draws import Key
from mpi_opt.problems.base import Problem
from mpi_opt.run.timing import Phases
from mpi_opt.scaling.cost import (
    USUAL,
    Machine,
    Shard,
    factor_seconds,
    hessian_seconds,
    margin_seconds,
    product_seconds,
)
from mpi_opt.types import Indices, Mask, Vector

P = TypeVar("P", bound=Problem)

_LOSS_OPERATIONS = 10
"""Operations, at the sparse rate, that a loss costs for each row and column once its margin is known."""

_SELECTION_OPERATIONS = 2
"""Operations, at the sparse rate, that a compressor spends on each entry: what finding the k largest takes."""


def counted(problem: P, phases: Phases, machine: Machine = USUAL) -> P:
    """Return ``problem`` with the counted seconds of its calls added to ``phases.compute``."""
    return cast("P", _CountedProblem(problem, phases, machine))


class _CountedProblem:
    """Stands for a problem; whatever is not counted is the problem's own."""

    def __init__(self, problem: Any, phases: Phases, machine: Machine) -> None:
        self._problem, self._phases, self._machine = problem, phases, machine
        self._shard = shard = _shard_of(problem)
        self._batches: dict[int, float] = {}
        self._product = product_seconds(shard, machine)
        margin = margin_seconds(shard, machine)
        trial = machine.call + _LOSS_OPERATIONS * shard.rows * shard.columns / machine.sparse_flops
        calls = {
            "value": margin,
            "hessian": hessian_seconds(shard, machine) + factor_seconds(shard.dim, machine),
            "hessian_diagonal": self._product,
        }
        makers = {"hvp_at": (margin, self._product), "value_along": (2 * margin, trial)}
        for name, seconds in calls.items():
            if hasattr(problem, name):
                setattr(self, name, _charged(getattr(problem, name), phases, seconds))
        for name, (once, each) in makers.items():
            if hasattr(problem, name):
                setattr(self, name, _charged_maker(getattr(problem, name), phases, once, each))

    def gradient(self, x: Vector, out: Vector | None = None) -> Any:
        self._phases.compute += self._product
        return self._problem.gradient(x, out)

    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Any:
        self._phases.compute += self._product if rows is None else self._batch_seconds(len(rows))
        return self._problem.sampled_gradient(x, rows, out)

    def shared_curvature(self, x: Vector, rows: int) -> Any:
        """Count a Gram matrix of the rows looked at, and its factor."""
        shard, machine = self._shard, self._machine
        step = max(1, round(shard.rows / rows))
        seen = Shard(int(shard.features), shard.rows / step, shard.nonzeros / step)
        margin = margin_seconds(Shard(shard.dim, seen.rows, seen.nonzeros, shard.columns), machine)
        self._phases.compute += margin + hessian_seconds(seen, machine) + factor_seconds(seen.dim, machine)
        return self._problem.shared_curvature(x, rows)

    def _batch_seconds(self, rows: int) -> float:
        """Return the seconds of a gradient of ``rows`` rows with the shard's mean of stored entries."""
        if rows not in self._batches:
            shard = self._shard
            part = Shard(shard.dim, rows, shard.nonzeros * rows / max(shard.rows, 1), shard.columns)
            self._batches[rows] = product_seconds(part, self._machine)
        return self._batches[rows]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)


def _shard_of(problem: Any) -> Shard:
    """Return a problem's size; one that is no linear model meets every weight once in a row, as dense layers do."""
    if hasattr(problem, "columns"):
        return Shard(problem.dim, problem.rows, problem.nonzeros, problem.columns)
    return Shard(problem.dim, problem.rows, problem.rows * problem.dim)


def _charged(call: Callable[..., Any], phases: Phases, seconds: float) -> Callable[..., Any]:
    def charged(*arguments: Any) -> Any:
        phases.compute += seconds
        return call(*arguments)

    return charged


def _charged_maker(
    make: Callable[..., Callable[..., Any]], phases: Phases, once: float, each: float
) -> Callable[..., Callable[..., Any]]:
    charged = _charged(make, phases, once)
    return lambda *arguments: _charged(charged(*arguments), phases, each)


@dataclass(frozen=True, slots=True)
class CountedCompressor:
    """A compressor that adds the counted seconds of its calls to the sending node's phases, found by the key's node."""

    inner: Compressor
    phases: dict[int, Phases]
    machine: Machine = USUAL

    def compress(self, v: Vector, key: Key) -> Message:
        """Return C(v)."""
        self._count(v.size, key)
        return self.inner.compress(v, key)

    def compress_some(self, v: Vector, key: Key, speak: Mask) -> Message:
        """Return the message of some blocks, where the inner operator is block-wise; counted are their entries."""
        inner = cast(Partial, self.inner)
        self._count(sum(size for size, speaks in zip(inner.sizes, speak.tolist(), strict=True) if speaks), key)
        return inner.compress_some(v, key, speak)

    @property
    def sizes(self) -> Sequence[int] | None:
        """Lengths of the inner operator's blocks; ``None`` where it has none."""
        return getattr(self.inner, "sizes", None)

    def _count(self, entries: int, key: Key) -> None:
        seconds = self.machine.call + _SELECTION_OPERATIONS * entries / self.machine.sparse_flops
        self.phases[key.node].compress += seconds

    def omega(self, dim: int) -> float:
        """Return omega of the inner operator."""
        return self.inner.omega(dim)

    def codec(self, dim: int, seed: int) -> Codec:
        """Return the codec of the inner operator; what it takes is not counted."""
        return self.inner.codec(dim, seed)
