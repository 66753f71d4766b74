"""Compressed text, which has no byte ranges: unpacked once on a host, parsed and held by all its processes."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from mpi_opt.datasets.libsvm import Rows, join_rows
from mpi_opt.datasets.source import TextFiles
from mpi_opt.datasets.spec import NanRule
from mpi_opt.datasets.textfiles import Text, parse_text, texts
from mpi_opt.errors import DataError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices


def read_spread(
    source: TextFiles, index_base: int, host: list[int], collectives: Collectives, nan: NanRule = "refuse"
) -> tuple[Rows, Indices]:
    """Read the files once on each host and spread their rows; called by all processes together.

    The lowest rank of a host unpacks a piece of text for each of its processes, hands the pieces out, and so on: no
    process ever holds more than its part of the set.

    Parameters
    ----------
    source : TextFiles
    index_base : {1, 0}
        Smallest index allowed.
    host : list of int
        The ranks on this host, ascending.
    collectives : Collectives
    nan : {"refuse", "drop-row", "zero"}
        As for ``libsvm.parse``.

    Returns
    -------
    rows : Rows
        What this process holds.
    numbers : ndarray of int64, shape (held,)
        The rows' numbers in the set, ascending.

    Raises
    ------
    DataError
        On every process: the first error in the files.
    """
    counts: list[int] = []
    rows = join_rows(_rounds(source, index_base, nan, host, collectives, counts))
    seen = collectives.gather(counts)
    sizes = np.zeros((max(len(seen[process]) for process in host), len(host)), dtype=np.int64)
    for k, process in enumerate(host):
        sizes[: len(seen[process]), k] = seen[process]
    firsts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    k = host.index(collectives.rank)
    mine = sizes[:, k]
    return rows, np.repeat(firsts[:, k] - np.cumsum(mine) + mine, mine) + np.arange(rows.labels.size)


def _rounds(
    source: TextFiles, index_base: int, nan: NanRule, host: list[int], collectives: Collectives, counts: list[int]
) -> Iterator[Rows]:
    """Yield what this process parses, and note how many rows that is; every process goes through as many rounds."""
    reader, k = host[0], host.index(collectives.rank)
    unread = texts(source) if collectives.rank == reader else iter(())
    broken = None
    while True:
        taken: list[Text] = []
        try:
            # one by one: what comes before damage is looked at first
            for text in islice(unread, len(host)):
                taken.append(text)  # noqa: PERF402
        except DataError as caught:
            broken = caught
        heads = collectives.gather([(text.file, text.at) for text in taken])
        if not any(heads):
            collectives.check(broken)
            return
        pieces = [np.empty(0, dtype=np.uint8)] * collectives.size
        for process, text in zip(host, taken, strict=False):
            pieces[process] = np.frombuffer(text.data, dtype=np.uint8)
        came = collectives.all_to_all(pieces)[reader]
        rows, error = None, None
        if k < len(heads[reader]):
            try:
                file, at = heads[reader][k]
                rows = parse_text(source, file, at, came, index_base, nan)
            except DataError as caught:
                error = caught
        collectives.check(error)
        if rows is not None:
            counts.append(rows.labels.size)
            yield rows
