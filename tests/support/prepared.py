"""Shards made by hand, for tests of what is done to them after reading."""

import numpy as np

from mpi_opt.datasets.load import Loaded
from mpi_opt.datasets.shard import DataInfo, Shard


def loaded_of(parts, labels, *, mapping=None, test=None, weights=None):
    """Return the set whose nodes hold ``parts`` (features) and ``labels``, one of each a node."""
    sparse = not isinstance(parts[0], np.ndarray)
    ends = np.cumsum([0, *(part.shape[0] for part in parts)])
    rows = [np.arange(begin, end) for begin, end in zip(ends[:-1], ends[1:], strict=True)]
    omegas = [None] * len(parts) if weights is None else [weights[own] for own in rows]
    shards = tuple(Shard(*each) for each in zip(parts, labels, rows, omegas, strict=True))
    info = DataInfo("made", int(ends[-1]), parts[0].shape[1], 0, mapping, 1, sparse)
    tests = (
        None if test is None else tuple(Shard(part, np.ones(part.shape[0]), np.arange(part.shape[0])) for part in test)
    )
    return Loaded(shards, tests, info, None if test is None else info, ())
