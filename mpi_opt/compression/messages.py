"""What operators produce: immutable messages that hold exactly the numbers that travel.

| message | holds | made by |
|---|---|---|
| ``Dense`` | d values | identity |
| ``Sparse`` | a support and its values | top-k |
| ``Signs`` | a support, its signs, one scale | sign-top-k |
| ``DenseSigns`` | d signs, one scale | sign |
| ``Levels`` | a support, signs, levels 1..s, one norm | qsgd, qsgd-top-k |
| ``SharedSupport`` | values on a support that every node can draw | random-k |
| ``Blocks`` (blocks.py) | one message for each block of coordinates | blockwise |
| ``JointSigns``, ``JointValues`` (joint.py) | one support for all blocks, a scale a block or values | blockwise |

Values, scales and norms are float64 numbers that fit ``value_bits``: with 32 they are fp32 numbers, so that sender and
receivers add the same bits. Supports are int64, strictly ascending. Arrays become read-only with the message.
Two messages are equal when all they hold is equal.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_opt.types import Indices, Mask, Vector


def log2_binomial(n: int, k: int) -> float:
    """Return log2 of n over k, the bits that name one support of size k."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


class Held:
    """Equality by content and read-only arrays."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for value in self._held():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else bool(a == b)
            for a, b in zip(self._held(), other._held(), strict=True)
        )

    def _held(self) -> list[object]:
        # A slotted dataclass lists its fields here; dataclasses.fields takes longer than a small message's arithmetic.
        names: tuple[str, ...] = type(self).__slots__
        return [getattr(self, name) for name in names]


def signed(magnitudes: npt.NDArray[Any] | float, negative: Mask) -> Vector:
    """Return plus or minus ``magnitudes``; a product, as a choice between two arrays costs a branch an entry."""
    return np.asarray(magnitudes * (1 - 2 * negative.view(np.int8)), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Dense(Held):
    """All d values, shape ``(d,)``."""

    values: Vector
    value_bits: int = 32

    @property
    def dim(self) -> int:
        """Return d."""
        return self.values.size

    @property
    def count(self) -> int:
        """Return d: every entry travels."""
        return self.values.size

    def add_to(self, out: Vector, weight: float = 1.0) -> None:
        """Add ``weight * message`` to ``out`` in place."""
        out += self.values if weight == 1.0 else weight * self.values

    def dense(self) -> Vector:
        """Return a copy of the values."""
        return self.values.copy()

    def floor_bits(self) -> float:
        """Return the bits of d values."""
        return float(self.value_bits * self.dim)


class OnSupport(Held):
    """What messages with ``indices`` have in common."""

    __slots__ = ()
    dim: int
    indices: Indices

    def entries(self) -> Vector:
        """Return the values at ``indices``, shape ``(k',)``."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Return k', the entries that travel."""
        return self.indices.size

    def add_to(self, out: Vector, weight: float = 1.0) -> None:
        """Add ``weight * message`` to ``out`` in place; O(k')."""
        values = self.entries()
        if weight != 1.0:
            values = weight * values
        if self.indices.size == out.size:
            out += values
        else:
            # Each index occurs once, so a buffered += is right.
            out[self.indices] += values

    def dense(self) -> Vector:
        """Return the message as a new vector."""
        out = np.zeros(self.dim)
        out[self.indices] = self.entries()
        return out


class OnValues(OnSupport):
    """What messages that hold the values at their ``indices`` have in common."""

    __slots__ = ()
    values: Vector

    def entries(self) -> Vector:
        """Return the values."""
        return self.values


@dataclass(frozen=True, slots=True, eq=False)
class Sparse(OnValues):
    """Values, none of them zero, on a support; both of shape ``(k',)``."""

    dim: int
    indices: Indices
    values: Vector
    value_bits: int = 32

    def floor_bits(self) -> float:
        """Return log2 C(d, k') and the bits of k' values."""
        return log2_binomial(self.dim, self.count) + self.value_bits * self.count


@dataclass(frozen=True, slots=True, eq=False)
class Signs(OnSupport):
    """``scale`` times a sign on a support; ``negative`` has shape ``(k',)``. ``scale`` is 0 exactly when k' is."""

    dim: int
    indices: Indices
    negative: Mask
    scale: float
    value_bits: int = 32

    def entries(self) -> Vector:
        """Return the values at ``indices``."""
        return signed(self.scale, self.negative)

    def floor_bits(self) -> float:
        """Return log2 C(d, k') + k' + 32 bits; 0 for the empty message."""
        return log2_binomial(self.dim, self.count) + self.count + self.value_bits if self.count else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class DenseSigns(Held):
    """``scale`` times a sign for every coordinate; ``negative`` has shape ``(d,)``. ``scale`` 0 is the zero message."""

    negative: Mask
    scale: float
    value_bits: int = 32

    @property
    def dim(self) -> int:
        """Return d."""
        return self.negative.size

    @property
    def count(self) -> int:
        """Return d, or 0 for the zero message."""
        return self.negative.size if self.scale else 0

    def add_to(self, out: Vector, weight: float = 1.0) -> None:
        """Add ``weight * message`` to ``out`` in place."""
        if self.scale:
            out += signed(weight * self.scale, self.negative)

    def dense(self) -> Vector:
        """Return the message as a new vector."""
        return signed(self.scale, self.negative) if self.scale else np.zeros(self.dim)

    def floor_bits(self) -> float:
        """Return d + 32 bits; 0 for the zero message."""
        return float(self.dim + self.value_bits) if self.scale else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Levels(OnSupport):
    """``norm / divisor`` times a signed level on a support.

    ``levels`` (uint16, in 1..``top``) and ``negative`` have shape ``(k',)``; ``norm`` is 0 exactly when k' is. Both
    ends know ``top`` (s) and ``divisor`` (s (1 + beta)) from the operator; neither travels.
    """

    dim: int
    indices: Indices
    negative: Mask
    levels: npt.NDArray[np.uint16]
    norm: float
    top: int
    divisor: float
    value_bits: int = 32

    def entries(self) -> Vector:
        """Return the values at ``indices``."""
        return signed(self.levels * (self.norm / self.divisor), self.negative)

    def floor_bits(self) -> float:
        """Return log2 C(d, k') + k' (1 + log2 s) + 32 bits; 0 for the empty message."""
        if not self.count:
            return 0.0
        return log2_binomial(self.dim, self.count) + self.count * (1 + math.log2(self.top)) + self.value_bits


@dataclass(frozen=True, slots=True, eq=False)
class SharedSupport(OnValues):
    """Values (zeros among them too) on a support that receivers draw themselves; both of shape ``(k,)``."""

    dim: int
    indices: Indices
    values: Vector
    value_bits: int = 32

    def floor_bits(self) -> float:
        """Return the bits of k values: the support costs nothing."""
        return float(self.value_bits * self.count)
