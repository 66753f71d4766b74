"""Explicit randomness: every draw is a pure function of (seed, node, purpose, step).

Nothing keeps a generator between steps, so a run is resumed by its step number alone, and node ``i`` draws the same
numbers over MPI and in lockstep.
"""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mpi_opt.types import Indices


class Purpose(enum.IntEnum):
    """What a draw is for; part of its key, so that two uses never share numbers. Values are stable across releases."""

    BATCH = 1
    COMPRESSION = 2
    PARTITION = 3
    GRAPH = 4
    GOSSIP = 5
    EVALUATION = 6
    DATA = 7
    SYNTHETIC = 8
    VALIDATION = 9
    SPEED = 10
    STRAGGLER = 11
    MODULE = 12
    INITIAL = 13
    CALIBRATION = 14


class Key(NamedTuple):
    """The name of one stream of random numbers."""

    seed: int
    node: int
    purpose: Purpose
    step: int

    def generator(self) -> np.random.Generator:
        """Return the stream's generator, at its beginning."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(int(self.purpose), self.node, self.step))
        return np.random.Generator(np.random.PCG64(sequence))

    def number(self) -> int:
        """Return one number of 64 bits for the key, to seed a generator of another library."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(int(self.purpose), self.node, self.step))
        return int(sequence.generate_state(1, np.uint64)[0])


@dataclass(slots=True)
class Batches:
    """The mini-batches of one node: a fresh permutation of the shard each epoch, cut into consecutive slices.

    The short last slice of an epoch is kept. The permutation of the current epoch is a memo, not state: it follows
    from the step number.

    Parameters
    ----------
    seed, node : int
        Key of the draws.
    rows : int
        Rows of the shard, ``N_i >= 0``.
    size : int or None
        Rows a batch; ``None`` takes the whole shard at every step.
    """

    seed: int
    node: int
    rows: int
    size: int | None
    _epoch: int = field(default=-1, repr=False)
    _order: Indices | None = field(default=None, repr=False)

    def at(self, step: int) -> Indices | None:
        """Return the rows of the batch of ``step``, int64 shape ``(batch,)``; ``None`` means the whole shard."""
        if self.size is None or self.size >= self.rows:
            return None
        per_epoch = -(-self.rows // self.size)
        epoch, part = divmod(step, per_epoch)
        if epoch != self._epoch or self._order is None:
            self._order = Key(self.seed, self.node, Purpose.BATCH, epoch).generator().permutation(self.rows)
            self._epoch = epoch
        return self._order[part * self.size : (part + 1) * self.size]
