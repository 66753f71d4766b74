"""From a job's ``[data]`` to the rows that each node holds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mpi_opt.datakeys import Data
from mpi_opt.datasets.load import DataSpec, Loaded, load
from mpi_opt.datasets.shard import DataInfo, Shard
from mpi_opt.datasets.source import search_paths
from mpi_opt.datasets.spec import Reading
from mpi_opt.errors import JobError
from mpi_opt.job import Job
from mpi_opt.network.collectives import Collectives
from mpi_opt.problems.registry import label_kind
from mpi_opt.types import Features


def load_shards(job: Job, collectives: Collectives, nodes: int, local: Sequence[int]) -> Loaded:
    """Read the data and deal them to the nodes; a dedicated master, node 0, holds no rows.

    Parameters
    ----------
    job : Job
    collectives : Collectives
        Among the processes; all call this.
    nodes : int
        n.
    local : sequence of int
        Nodes that this process carries.

    Raises
    ------
    JobError, DataError
        On every process: a dedicated master without workers; see `datasets.load.load`.
    """
    if job.algorithm.master != "dedicated":
        return load(_data_spec(job), collectives, nodes, local)
    if nodes < 2:
        raise JobError('algorithm.master = "dedicated" on 1 node; allowed: 2 nodes or more, or master = "working"')
    loaded = load(_data_spec(job), collectives, nodes - 1, [i - 1 for i in local if i])
    if 0 not in local:
        return loaded
    return replace(
        loaded,
        train=(_no_rows(loaded.info), *loaded.train),
        test=None if loaded.test is None else (_no_rows(loaded.info), *loaded.test),
    )


def _no_rows(info: DataInfo) -> Shard:
    features: Features = np.zeros((0, info.features))
    if info.sparse:
        from scipy.sparse import csr_array

        features = csr_array((0, info.features))
    return Shard(features, np.zeros(0), np.zeros(0, dtype=np.int64))


def _data_spec(job: Job) -> DataSpec:
    data = job.data
    return DataSpec(
        train=_words(data.train),
        test=None if data.test is None else _words(data.test),
        holdout=data.holdout,
        rows=data.rows,
        partition=data.partition.name,
        alpha=data.partition.alpha,
        label_kind=label_kind(job.problem.loss),
        features=data.features,
        reading=_reading(data),
        seed=job.seed,
        search=search_paths(job.folder),
        weights=data.weights,
    )


def _reading(data: Data) -> Reading:
    # Counted from 1 unless told: a stray index 0 is then an error, not a silent shift of all columns.
    base = 1 if data.index_base is None else data.index_base
    return Reading(
        index_base=None if base == "auto" else base,
        nan=data.nan,
        label=data.label,
        weight=data.weight,
        labels=None if data.labels is None else tuple(data.labels),
    )


def _words(files: str | list[str]) -> str | tuple[str, ...]:
    return files if isinstance(files, str) else tuple(files)
