"""Proxies that time the phases which algorithms, knowing no clock, cannot: compute (problem) and compress."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from mpi_opt.compression.base import Codec, Compressor, Message, Partial
from mpi_opt.draws import Key
from mpi_opt.problems.base import Problem
from mpi_opt.types import Indices, Mask, Vector

P = TypeVar("P", bound=Problem)


@dataclass(slots=True)
class Phases:
    """Seconds of one node in each phase; ``wait`` and ``communicate`` are counted by the network."""

    compute: float = 0.0
    compress: float = 0.0
    evaluate: float = 0.0
    write: float = 0.0


_CALLS = ("value", "hessian", "hessian_diagonal", "shared_curvature")
_MAKERS = ("hvp_at", "value_along")
"""Methods that return a function to be called, and timed, many times."""


def timed(problem: P, phases: Phases) -> P:
    """Return ``problem`` with the time of its calls added to ``phases.compute``; what evaluation calls is not timed."""
    return cast("P", _TimedProblem(problem, phases))


class _TimedProblem:
    """Stands for a problem; whatever is not clocked is the problem's own."""

    def __init__(self, problem: Problem, phases: Phases) -> None:
        self._problem = problem
        self._gradient = _clocked(problem.gradient, phases)
        self._sampled_gradient = _clocked(problem.sampled_gradient, phases)
        for name in _CALLS:
            if hasattr(problem, name):
                setattr(self, name, _clocked(getattr(problem, name), phases))
        for name in _MAKERS:
            if hasattr(problem, name):
                setattr(self, name, _clocked_maker(getattr(problem, name), phases))

    def gradient(self, x: Vector, out: Vector | None = None) -> Any:
        return self._gradient(x, out)

    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Any:
        return self._sampled_gradient(x, rows, out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)


def _clocked(call: Callable[..., Any], phases: Phases) -> Callable[..., Any]:
    def clocked(*arguments: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            phases.compute += time.perf_counter() - began

    return clocked


def _clocked_maker(make: Callable[..., Callable[..., Any]], phases: Phases) -> Callable[..., Callable[..., Any]]:
    clocked = _clocked(make, phases)
    return lambda *arguments: _clocked(clocked(*arguments), phases)


@dataclass(frozen=True, slots=True)
class TimedCompressor:
    """A compressor that adds the time of its calls to the sending node's phases, found by the key's node."""

    inner: Compressor
    phases: dict[int, Phases]

    def compress(self, v: Vector, key: Key) -> Message:
        """Return C(v)."""
        began = time.perf_counter()
        message = self.inner.compress(v, key)
        self.phases[key.node].compress += time.perf_counter() - began
        return message

    def compress_some(self, v: Vector, key: Key, speak: Mask) -> Message:
        """Return the message of some blocks, where the inner operator is block-wise."""
        began = time.perf_counter()
        message = cast(Partial, self.inner).compress_some(v, key, speak)
        self.phases[key.node].compress += time.perf_counter() - began
        return message

    @property
    def sizes(self) -> Sequence[int] | None:
        """Lengths of the inner operator's blocks; ``None`` where it has none."""
        return getattr(self.inner, "sizes", None)

    def omega(self, dim: int) -> float:
        """Return omega of the inner operator."""
        return self.inner.omega(dim)

    def codec(self, dim: int, seed: int) -> Codec:
        """Return the codec of the inner operator; the network times it as communication."""
        return self.inner.codec(dim, seed)
