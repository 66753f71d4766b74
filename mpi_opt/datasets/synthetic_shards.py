"""Blocks of rows as a ``.h5`` file that any number of processes reads by row slices."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from mpi_opt.datasets.pieces import Piece
from mpi_opt.datasets.rows import Rows
from mpi_opt.datasets.shardfile_collect import Collector
from mpi_opt.datasets.synthetic import Block, Recipe, mark
from mpi_opt.datasets.synthetic_text import entries
from mpi_opt.types import Features, Vector


def write_shard_file(path: Path, recipe: Recipe, blocks: Iterable[Block], version: str) -> Iterator[Block]:
    """Write a set, dense or CSR as it is drawn, and hand on each block once it is taken.

    The file is there when the last block has been asked for, and whole. It holds no time: the same rows by the same
    ``version`` of the package are the same bytes.

    Raises
    ------
    JobError
        The file cannot be written.
    """
    with closing(Collector(path, recipe.name, None, single=False, divisor=1.0)) as collector:
        for features, labels in blocks:
            collector.add(Piece(_rows(features, labels), labels, None))
            yield Block(features, labels)
        made = {"sources": [], "notes": [mark(recipe)], "recipe": recipe.name, "mpi_opt": version}
        # columns count from 1 in the text of the same set, and so in models trained on either
        collector.finish(0, recipe.features, recipe.features, made, 1)


def _rows(features: Features, labels: Vector) -> Vector | Rows:
    if isinstance(features, np.ndarray):
        return features
    indptr, columns, values = entries(features)
    return Rows(indptr.astype(np.int64), columns.astype(np.int32), values, labels)
