"""A job's data set, read by all processes together and dealt to its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpi_opt.datasets.deal import deal
from mpi_opt.datasets.holding import Holding
from mpi_opt.datasets.labels import apply_map, label_map
from mpi_opt.datasets.memory import check_room
from mpi_opt.datasets.naming import check_names, check_words
from mpi_opt.datasets.partition import (
    Partition,
    by_label,
    choose,
    contiguous,
    dirichlet,
    equal_cuts,
    hold_out,
    shuffled,
)
from mpi_opt.datasets.reading import hold
from mpi_opt.datasets.shard import DataInfo, Shard
from mpi_opt.datasets.spec import DataSpec, Reading
from mpi_opt.datasets.survey import remarks, survey
from mpi_opt.datasets.weights import check_weights, read_weights
from mpi_opt.errors import DataError, LaunchError
from mpi_opt.network.collectives import Collectives
from mpi_opt.types import Indices, Vector

__all__ = ["DataSpec", "Loaded", "load"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The shards of this process's nodes, and facts that are the same on every process.

    Attributes
    ----------
    train : tuple of Shard
        One for each local node. ``rows`` are numbers in the file, also where rows are held out.
    test : tuple of Shard or None
        The test set cut evenly over the nodes in the file's order.
    info, test_info : DataInfo
        Of the train and test rows; ``test_info`` is ``None`` without a test set.
    warnings : tuple of str
        What a user should know about the split.
    """

    train: tuple[Shard, ...]
    test: tuple[Shard, ...] | None
    info: DataInfo
    test_info: DataInfo | None
    warnings: tuple[str, ...]


def load(spec: DataSpec, collectives: Collectives, nodes: int, local: Sequence[int]) -> Loaded:
    """Read, split and deal the data of a job; called by all processes together.

    Parameters
    ----------
    spec : DataSpec
    collectives : Collectives
        Among the processes of the run.
    nodes : int
        n, at least 1.
    local : sequence of int
        The nodes this process carries; every node is carried once.

    Returns
    -------
    Loaded
        Shards do not depend on the number of processes.

    Raises
    ------
    DataError
        On every process: a set is missing, malformed, does not fit the loss or is too wide for the machine.
    LaunchError
        The nodes are not each carried by one process.
    """
    owners = _owners(collectives, nodes, local)
    train = hold(spec.train, spec.search, spec.reading, collectives)
    if spec.weights is not None:
        train = replace(train, weights=read_weights(spec.weights, spec.search, train, collectives))
    check_weights(train, collectives)
    mapping = label_map(train.labels, spec.label_kind, train.name, collectives)
    labels = apply_map(train.labels, mapping, train.name)
    columns = _columns(train, spec.features)
    outputs = len(mapping) if mapping is not None and spec.label_kind == "classes" else 1
    check_room(train, columns, outputs, spec.features, collectives)
    kept = held = None
    if spec.holdout is not None:
        kept, held = hold_out(train.rows, spec.holdout, spec.seed)
        if kept.size == 0 or held.size == 0:
            raise DataError(
                f"{train.name}: holdout = {spec.holdout} of {train.rows} rows leaves {kept.size} to train on and "
                f"{held.size} to test on; allowed is at least one each"
            )
    if spec.rows is not None:
        kept = _chosen(spec, train, kept)
    partition = _partition(spec, nodes, kept, train, labels, collectives)
    shards = deal(train, labels, columns, partition, owners, local, collectives)
    count = partition.order.size
    del partition
    info = _info(train, count, columns, _nonzeros(train, shards, count, collectives), mapping)
    test, test_info, other = None, None, None
    if held is not None:
        even = Partition(held, equal_cuts(held.size, nodes))
        test = deal(train, labels, columns, even, owners, local, collectives)
        test_info = _info(train, held.size, columns, _nonzeros(train, test, held.size, collectives), mapping)
    elif spec.test is not None:
        train, labels = train.without_rows(), labels[:0]
        other = hold(spec.test, spec.search, _as_train(spec, train), collectives)
        _check_fits(other, columns, train)
        known = _known_labels(other, mapping, collectives)
        test = deal(other, known, columns, contiguous(other.rows, nodes), owners, local, collectives)
        test_info = _info(other, other.rows, columns, other.nonzeros, mapping)
    notes = (*train.notes, *(() if other is None else other.notes))
    spread = remarks(survey(shards, local, columns, collectives), mapping, in_file_order=spec.partition == "contiguous")
    return Loaded(shards, test, info, test_info, (*notes, *spread))


def _owners(collectives: Collectives, nodes: int, local: Sequence[int]) -> Indices:
    """Return each node's process, int64 shape (nodes,)."""
    carried = collectives.gather([int(node) for node in local])
    flat = sorted(node for group in carried for node in group)
    if flat != list(range(nodes)):
        raise LaunchError(
            f"processes carry nodes {flat}; each of the nodes 0..{nodes - 1} must be carried exactly once"
        )
    owners = np.empty(nodes, dtype=np.int64)
    for process, group in enumerate(carried):
        owners[group] = process
    return owners


def _columns(train: Holding, wanted: int | None) -> int:
    """Return the number of columns of all shards."""
    if wanted is None and train.features == 0:
        raise DataError(f"{train.name}: no row has any feature; say how many there are with data.features")
    if wanted is None or wanted == train.features:
        return train.features
    if train.sparse is None or wanted < train.features:
        allowed = f"at least {train.features}" if train.sparse is not None else f"{train.features}"
        raise DataError(
            f"{train.name}: has {train.features} features, but data.features = {wanted}; allowed is {allowed}"
        )
    return wanted


def _as_train(spec: DataSpec, train: Holding) -> Reading:
    """Return how the test set is read: its columns are counted as in the train set, if that is text."""
    return spec.reading if train.text_base is None else replace(spec.reading, index_base=train.text_base)


def _known_labels(test: Holding, mapping: Mapping[float, float] | None, collectives: Collectives) -> Vector:
    """Return the test labels as the loss wants them; an unknown one on any process is an error on all."""
    labels, error = test.labels, None
    try:
        labels = apply_map(test.labels, mapping, test.name)
    except DataError as caught:
        error = caught
    collectives.check(error)
    return labels


def _check_fits(test: Holding, columns: int, train: Holding) -> None:
    """Refuse a test set whose columns the model does not have, or whose names mean something else."""
    if test.features > columns or (test.sparse is None and test.features != columns):
        raise DataError(
            f"{test.name}: goes up to column {test.features - 1 + test.index_base} ({test.features} features), but the "
            f"train set {train.name} has {columns} features; data.features sets more for sets of text"
        )
    check_names(test.name, test.names, train.names, f"the train set {train.name}")
    check_words(test.name, test.words, train.words, f"the train set {train.name}")


def _chosen(spec: DataSpec, train: Holding, kept: Indices | None) -> Indices:
    """Return the rows to be trained on where only some are, numbers in the file."""
    assert spec.rows is not None
    there = train.rows if kept is None else kept.size
    if spec.rows > there:
        left = "" if kept is None else " that are not held out"
        raise DataError(
            f"{train.name}: data.rows = {spec.rows}, but there are {there} rows{left}; allowed: at most that"
        )
    chosen = choose(there, spec.rows, spec.seed)
    return chosen if kept is None else kept[chosen]


def _partition(
    spec: DataSpec, nodes: int, kept: Indices | None, train: Holding, labels: Vector, collectives: Collectives
) -> Partition:
    """Return the split of the train rows, over row numbers in the file."""
    rows = train.rows if kept is None else kept.size
    if spec.partition == "contiguous":
        split = contiguous(rows, nodes)
    elif spec.partition == "shuffled":
        split = shuffled(rows, nodes, spec.seed)
    else:
        numbers, found = (
            np.concatenate(collectives.all_to_all([mine if served else mine[:0] for served in train.serves]))
            for mine in (train.numbers, labels)
        )
        everyone = np.empty(train.rows)
        everyone[numbers] = found
        mine = everyone if kept is None else everyone[kept]
        split = by_label(mine, nodes) if spec.alpha is None else dirichlet(mine, nodes, spec.seed, spec.alpha)
    return split if kept is None else Partition(kept[split.order], split.offsets)


def _nonzeros(train: Holding, shards: tuple[Shard, ...], count: int, collectives: Collectives) -> int:
    """Return the stored (dense: non-zero) entries of the train rows."""
    if count == train.rows:
        return train.nonzeros
    sparse = train.sparse is not None
    mine = sum(shard.features.nnz if sparse else int(np.count_nonzero(shard.features)) for shard in shards)
    return sum(collectives.gather(mine))


def _info(holding: Holding, rows: int, columns: int, nonzeros: int, mapping: Mapping[float, float] | None) -> DataInfo:
    base, sparse = holding.index_base, holding.sparse is not None
    names = holding.names if columns == holding.features else None  # columns that data.features adds have none
    return DataInfo(
        holding.name, rows, columns, nonzeros, mapping, base, sparse, holding.text_base, names, holding.words
    )
