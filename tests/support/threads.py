"""Processes played by threads: ``Collectives`` for tests of what many processes do together, in one process."""

import ast
import threading
from dataclasses import dataclass, field

import numpy as np

_ONE_AT_A_TIME = threading.Lock()
_literal_eval = ast.literal_eval


def _literal_eval_alone(*arguments):
    """Keep threads out of each other's way: Python 3.11 counts the depth of all threads' trees in one place.

    NumPy reads the headers of .npy files by it; processes, which these threads stand for, have no such trouble.
    """
    with _ONE_AT_A_TIME:
        return _literal_eval(*arguments)


ast.literal_eval = _literal_eval_alone


@dataclass
class Board:
    """What the threads of one run share."""

    size: int
    barrier: threading.Barrier = field(init=False)
    slots: list = field(init=False)

    def __post_init__(self):
        self.barrier = threading.Barrier(self.size, timeout=60)
        self.slots = [None] * self.size


@dataclass
class Threaded:
    """``Collectives`` among threads."""

    rank: int
    board: Board

    @property
    def size(self):
        return self.board.size

    def gather(self, item):
        self.board.slots[self.rank] = item
        self.board.barrier.wait()
        seen = list(self.board.slots)
        self.board.barrier.wait()
        return seen

    def broadcast(self, item, root=0):
        return self.gather(item)[root]

    def max(self, values):
        return np.max(self.gather(np.array(values, dtype=float)), axis=0)

    def sum(self, values):
        return np.sum(self.gather(values), axis=0)

    def all_to_all(self, arrays):
        assert len(arrays) == self.size
        assert all(array.ndim == 1 for array in arrays)
        came = [sent[self.rank].copy() for sent in self.gather(arrays)]
        assert len({array.dtype for array in came}) == 1
        return came

    def check(self, error):
        for other in self.gather(error):
            if other is not None:
                raise other


def on_threads(size, task):
    """Run ``task(collectives)`` on ``size`` threads; return the results or errors in rank order."""
    board, results = Board(size), [None] * size

    def work(rank):
        try:
            results[rank] = task(Threaded(rank, board))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results
