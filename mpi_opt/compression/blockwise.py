"""An operator applied to consecutive blocks of coordinates, each with its own k and scale, in one packed message."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from mpi_opt.compression.base import Codec, Compressor, Message
from mpi_opt.compression.blocks import Blocks, BlocksCodec, Silent
from mpi_opt.compression.counts import check_kept, kept
from mpi_opt.compression.joint import JointCodec, JointSigns, JointValues
from mpi_opt.compression.rounding import round_scale, round_values
from mpi_opt.compression.selection import largest
from mpi_opt.compression.sign import SignTopK
from mpi_opt.compression.top_k import TopK
from mpi_opt.draws import Key
from mpi_opt.errors import JobError
from mpi_opt.types import Indices, Mask, Vector


def _seed(seed: int, block: int) -> int:
    """Return the seed of a block; the first keeps the run's, so that one block is the operator itself."""
    return seed + (block << 64)


@dataclass(frozen=True, slots=True)
class Blockwise:
    """C(v) = (C_inner(block 1), C_inner(block 2), ...), say one block for each layer's weights.

    A heavy-tailed layer then does not set the scale of the others, and each keeps a share of its entries. In a job:
    ``{ name = "blockwise", sizes = [7840, 10], inner = { name = "sign-top-k", k = "1%" } }``.

    Parameters
    ----------
    inner : Compressor
        Operator of each block; a share k counts within the block, and a block shorter than k sends all it has.
    sizes : sequence of int
        Length of each block; their sum is the dimension.
    kept : sequence of int or str, optional
        k of each block, in place of that of ``inner``.
    partial : bool, optional
        Whether blocks may be silent (`compress_some`): messages then begin with a bitmap of those that speak.
    """

    inner: Compressor
    sizes: Sequence[int]
    kept: Sequence[int | str] | None = None
    partial: bool = False
    _operators: tuple[Compressor, ...] = field(init=False, repr=False, compare=False)
    _most: Indices = field(init=False, repr=False, compare=False)
    _lengths: Indices | None = field(init=False, repr=False, compare=False)
    """Of operators whose blocks are written as one (`joint`), else ``None``."""

    def __post_init__(self) -> None:
        if not callable(getattr(self.inner, "compress", None)):
            raise JobError(f"compressor.inner = {self.inner!r}: must be a compressor")
        sizes = self.sizes
        fits = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) > 0
        if not fits or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
            raise JobError(f"compressor.sizes = {sizes!r}: must be a list of integers of at least 1")
        object.__setattr__(self, "sizes", tuple(sizes))
        object.__setattr__(self, "kept", None if self.kept is None else tuple(self.kept))
        object.__setattr__(self, "_operators", self._made())
        joint = type(self.inner) in (SignTopK, TopK)
        most = [kept(each.k, n) for each, n in zip(cast(Any, self._operators), sizes, strict=True)] if joint else []
        object.__setattr__(self, "_most", np.array(most, dtype=np.int64))
        object.__setattr__(self, "_lengths", np.array(sizes, dtype=np.int64) if joint else None)

    def compress(self, v: Vector, key: Key) -> Message:
        """Return a message for each block; each draws from a seed of its own."""
        return self.compress_some(v, key, np.ones(len(self.sizes), dtype=np.bool_))

    def compress_some(self, v: Vector, key: Key, speak: Mask) -> Message:
        """Return a message for each block of those in ``speak``, bool of shape ``(blocks,)``; the others are silent.

        What a block says does not depend on which others speak.
        """
        self._check(v.size)
        if self._lengths is not None:
            return self._joint(v, key, speak)
        parts: list[Message] = []
        start = 0
        for i, (operator, size, speaks) in enumerate(zip(self._operators, self.sizes, speak.tolist(), strict=True)):
            end = start + size
            own = key._replace(seed=_seed(key.seed, i))
            parts.append(operator.compress(v[start:end], own) if speaks else Silent(size))
            start = end
        return Blocks(tuple(parts))

    def omega(self, dim: int) -> float:
        """Return the least omega of the blocks."""
        self._check(dim)
        return min(operator.omega(size) for operator, size in zip(self._operators, self.sizes, strict=True))

    def codec(self, dim: int, seed: int) -> Codec:
        """Return the wire format; raises ``JobError`` where the sizes do not add up to ``dim``."""
        self._check(dim)
        if self._lengths is not None:
            inner = cast(Any, self.inner)
            return JointCodec(self._lengths, self._most, isinstance(inner, SignTopK), inner.value_bits, self.partial)
        both = zip(self._operators, self.sizes, strict=True)
        codecs = (operator.codec(size, _seed(seed, i)) for i, (operator, size) in enumerate(both))
        return BlocksCodec(tuple(self.sizes), tuple(codecs), self.partial)

    def _joint(self, v: Vector, key: Key, speak: Mask) -> JointSigns | JointValues:
        """Return the k largest of each speaking block: their values, or signs and a scale a block."""
        most, lengths, bits = self._most.tolist(), cast(Indices, self._lengths), cast(Any, self.inner).value_bits
        counts, indices = _join(v, self.sizes, speak, lambda block, part: largest(part, most[block]))
        values = v[indices]
        if not isinstance(self.inner, SignTopK):
            values = round_values(values, bits, key)
            kept_ones = values != 0.0
            if not kept_ones.all():  # too small for their bits
                indices, values = indices[kept_ones], values[kept_ones]
                counts = _counted(indices, lengths)
            return JointValues(v.size, lengths, speak.copy(), counts, indices, values, bits)
        scales, magnitudes, at = np.zeros(counts.size), np.abs(values), 0
        for block, count in enumerate(counts.tolist()):
            if count:
                with np.errstate(over="ignore"):
                    mean = float(magnitudes[at : at + count].sum()) / count
                scales[block] = round_scale(mean, bits, key)
                at += count
        if not scales[counts > 0].all():
            kept_ones = np.repeat(scales, counts) != 0.0
            indices, values = indices[kept_ones], values[kept_ones]
            counts = _counted(indices, lengths)
        return JointSigns(v.size, lengths, speak.copy(), counts, indices, values < 0.0, scales, bits)

    def _made(self) -> tuple[Compressor, ...]:
        """Return the operator of each block."""
        k = getattr(self.inner, "k", None)
        if self.kept is None:
            longest = max(self.sizes)
            if isinstance(k, int) and k > longest:
                raise JobError(f"compressor.k = {k}: must be between 1 and the length of the longest block, {longest}")
            return tuple(_with(self.inner, k, size) for size in self.sizes)
        if k is None:
            raise JobError(f"compressor.kept: {type(self.inner).__name__} has no k")
        if len(self.kept) != len(self.sizes):
            raise JobError(f"compressor.kept has {len(self.kept)} entries, must have one a block, {len(self.sizes)}")
        for each in self.kept:
            check_kept(each)
        return tuple(_with(self.inner, each, size) for each, size in zip(self.kept, self.sizes, strict=True))

    def _check(self, dim: int) -> None:
        if sum(self.sizes) != dim:
            raise JobError(f"compressor.sizes add up to {sum(self.sizes)}, must add up to the dimension, {dim}")


def _counted(indices: Indices, lengths: Indices) -> Indices:
    """Return how many of the ascending ``indices`` are in each block."""
    return np.diff(np.searchsorted(indices, np.cumsum(lengths)), prepend=0)


def _with(inner: Compressor, k: int | str | None, size: int) -> Compressor:
    """Return ``inner`` with ``k`` at a block of ``size`` entries, all of them where it has fewer."""
    fitting = min(k, size) if isinstance(k, int) else k
    if fitting == getattr(inner, "k", None):
        return inner
    return cast(Compressor, dataclasses.replace(cast(Any, inner), k=fitting))


def _join(
    v: Vector, sizes: Sequence[int], speak: Mask, pick: Callable[[int, Vector], Indices]
) -> tuple[Indices, Indices]:
    """Return how many entries ``pick(block, part)`` keeps of each block, shape ``(blocks,)``, and their indices."""
    counts = np.zeros(len(sizes), dtype=np.int64)
    kept, start = [], 0
    for i, (size, speaks) in enumerate(zip(sizes, speak.tolist(), strict=True)):
        if speaks:
            own = pick(i, v[start : start + size])
            counts[i] = own.size
            kept.append(own + start)
        start += size
    return counts, np.concatenate(kept)
