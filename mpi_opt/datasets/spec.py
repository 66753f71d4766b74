"""What a job says about its data, validated."""

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mpi_opt.errors import JobError
from mpi_opt.types import LabelKind

PartitionName: TypeAlias = Literal["contiguous", "shuffled", "by-label", "dirichlet"]
NanRule: TypeAlias = Literal["refuse", "drop-row", "zero"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: one decision for all files of a job.

    Attributes
    ----------
    index_base : {1, 0} or None
        What columns of text are counted from; ``None`` takes 0 if index 0 occurs anywhere in the set, else 1.
    nan : {"refuse", "drop-row", "zero"}
        What to do with values that are not finite: refuse the set, leave the row out, take 0 for the value.
    label, weight : str, int or None
        Column of a table (CSV, array) that holds the label, or the weights of the rows: its name, or its number
        from 0 (negative: from the end). ``None`` leaves the choice to the reader, and has no weights.
    labels : tuple of str or None
        Labels that are words: the k-th stands for the number k, counted from 0. ``None`` where labels are numbers.
    labelled : bool
        Whether a table has labels; where it has none, all its columns are features, and labels read are 0.

    Raises
    ------
    JobError
        A value is not allowed.
    """

    index_base: int | None = 1
    nan: NanRule = "refuse"
    label: str | int | None = None
    weight: str | int | None = None
    labels: tuple[str, ...] | None = None
    labelled: bool = True

    def __post_init__(self) -> None:
        if self.index_base not in (0, 1, None):
            raise JobError(f"data.index_base = {self.index_base}: allowed are 0 and 1, or 'auto'")
        if self.nan not in get_args(NanRule):
            raise JobError(f"data.nan = {self.nan!r}: allowed are {', '.join(get_args(NanRule))}")
        if self.labels is not None and (len(self.labels) < 2 or len(set(self.labels)) < len(self.labels)):
            raise JobError(f"data.labels = {list(self.labels)}: allowed are two or more words, each of them once")


@dataclass(frozen=True, slots=True)
class DataSpec:
    """What to read and how to split it.

    Attributes
    ----------
    train : str or tuple of str
        The job's word or words (see ``source.resolve``).
    test : str, tuple of str or None
        Another set, or none.
    holdout : float or None
        Share of the train set's rows, in (0, 1), chosen by the seed and kept as the test set; not with ``test``.
    rows : int or None
        How many rows are trained on, chosen by the seed of those that are not held out; ``None``: all.
    partition : {"contiguous", "shuffled", "by-label", "dirichlet"}
        How train rows go to nodes.
    alpha : float or None
        Concentration, > 0, of ``"dirichlet"`` and of nothing else.
    label_kind : {"binary", "classes", "real"}
        What the loss takes.
    features : int or None
        Columns of the shards; ``None`` takes as many as the train set has.
    reading : Reading
        How the files are read.
    seed : int
        Of the shuffle, the hold-out, the choice of rows and the Dirichlet draws.
    search : tuple of Path
        Folders for relative words.
    weights : str or None
        A file of weights of the train rows (see ``weights.read_weights``).

    Raises
    ------
    JobError
        A value is not allowed.
    """

    train: str | tuple[str, ...]
    test: str | tuple[str, ...] | None = None
    holdout: float | None = None
    rows: int | None = None
    partition: PartitionName = "contiguous"
    alpha: float | None = None
    label_kind: LabelKind = "binary"
    features: int | None = None
    reading: Reading = Reading()
    seed: int = 0
    search: tuple[Path, ...] = ()
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.holdout is not None and not 0.0 < self.holdout < 1.0:
            raise JobError(f"data.holdout = {self.holdout}: allowed is a number between 0 and 1, both excluded")
        if self.holdout is not None and self.test is not None:
            raise JobError(f"data.holdout = {self.holdout} beside data.test = {self.test!r}: allowed is one of them")
        if self.rows is not None and self.rows < 1:
            raise JobError(f"data.rows = {self.rows}: allowed is a number of at least 1")
        if self.partition not in get_args(PartitionName):
            raise JobError(f"data.partition = {self.partition!r}: allowed are {', '.join(get_args(PartitionName))}")
        if (self.partition == "dirichlet") != (self.alpha is not None):
            raise JobError(f"data.partition = {self.partition!r} with alpha = {self.alpha}: alpha belongs to dirichlet")
        if self.alpha is not None and not 0.0 < self.alpha < inf:
            raise JobError(f"data.partition: alpha = {self.alpha}: allowed is a positive number")
        if self.partition == "dirichlet" and self.label_kind == "real":
            raise JobError(
                "data.partition = 'dirichlet' splits classes, and this loss has none; take another partition"
            )
        if self.label_kind not in get_args(LabelKind):
            raise JobError(f"label kind {self.label_kind!r}: allowed are {', '.join(get_args(LabelKind))}")
        if self.features is not None and self.features < 1:
            raise JobError(f"data.features = {self.features}: allowed is a number of at least 1")
