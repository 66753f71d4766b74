"""Proxies that time the phases which algorithms, knowing no clock, cannot: compute (problem) and compress."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mpi_opt.compression.base import Codec, Compressor, Message
from mpi_opt.draws import Key
from mpi_opt.problems.base import Figures, Problem
from mpi_opt.types import Indices, Vector


@dataclass(slots=True)
class Phases:
    """Seconds of one node in each phase; ``wait`` and ``communicate`` are counted by the network."""

    compute: float = 0.0
    compress: float = 0.0
    evaluate: float = 0.0
    write: float = 0.0


class TimedProblem:
    """A problem that adds the time of its calls to ``phases.compute``."""

    def __init__(self, problem: Problem, phases: Phases) -> None:
        self._problem, self._phases = problem, phases
        self.dim, self.rows = problem.dim, problem.rows

    def value(self, x: Vector) -> float:
        """Return f(x)."""
        began = time.perf_counter()
        value = self._problem.value(x)
        self._phases.compute += time.perf_counter() - began
        return value

    def gradient(self, x: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at x."""
        began = time.perf_counter()
        g = self._problem.gradient(x, out)
        self._phases.compute += time.perf_counter() - began
        return g

    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Vector:
        """Return the sampled gradient of f at x."""
        began = time.perf_counter()
        g = self._problem.sampled_gradient(x, rows, out)
        self._phases.compute += time.perf_counter() - began
        return g

    def hvp_at(self, x: Vector) -> Callable[[Vector], Vector]:
        """Return the Hessian-vector product at x, timed as well."""
        began = time.perf_counter()
        product = self._problem.hvp_at(x)
        self._phases.compute += time.perf_counter() - began

        def timed(v: Vector) -> Vector:
            began = time.perf_counter()
            result = product(v)
            self._phases.compute += time.perf_counter() - began
            return result

        return timed

    def figures(self, x: Vector) -> Figures:
        """Return the figures of evaluation, untimed."""
        return self._problem.figures(x)

    def penalty(self, x: Vector) -> float:
        """Return the penalty, untimed."""
        return self._problem.penalty(x)


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

    def omega(self, dim: int) -> float:
        """Return omega of the inner operator."""
        return self.inner.omega(dim)

    def codec(self, dim: int, seed: int) -> Codec:
        """Return the codec of the inner operator; the network times it as communication."""
        return self.inner.codec(dim, seed)
