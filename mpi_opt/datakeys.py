"""The keys of ``[data]`` and ``[prepare]``: which rows, how they are read and split, what becomes of their columns."""

from typing import Annotated, Literal, TypeAlias

from mpi_opt import jobtext
from mpi_opt.keytypes import Count, Fraction, Positive, Table, says

_PARTITION = says('contiguous, shuffled, by-label, or { name = "dirichlet", alpha = 0.1 }')
Files: TypeAlias = Annotated[
    str | list[str],
    says("a file, a glob, a list of them, or 'builtin:digits'"),
]
Column: TypeAlias = Annotated[int | str, says("a column's name, or its number from 0 (-1: the last)")]


class Partition(Table, frozen=True, kw_only=True):
    """Which rows a node holds; ``alpha`` belongs to ``dirichlet``."""

    name: Annotated[
        Literal["contiguous", "shuffled", "by-label", "dirichlet"],
        _PARTITION,
    ]
    alpha: Positive | None = None

    def __post_init__(self) -> None:
        if (self.name == "dirichlet") != (self.alpha is not None):
            word = "missing; allowed: a number > 0" if self.alpha is None else "only for the partition 'dirichlet'"
            raise ValueError(f"data.partition.alpha: {word}")


class Data(Table, frozen=True, kw_only=True):
    """``[data]``: what is learned from, and how it is split."""

    train: Files
    test: Files | None = None
    holdout: Fraction | None = None
    rows: Count | None = None
    partition: Annotated[Partition, _PARTITION] = Partition(name="shuffled")
    intercept: Annotated[bool, says("true or false")] = False
    features: Count | None = None
    index_base: Annotated[Literal[0, 1, "auto"], says('0, 1 or "auto"')] | None = None
    nan: Annotated[Literal["refuse", "drop-row", "zero"], says("refuse, drop-row, zero")] = "refuse"
    label: Column | None = None
    weight: Column | None = None
    labels: Annotated[list[str], says("a list of two words or more, each of them once", min_length=2)] | None = None
    weights: Annotated[str, says("a file of one number >= 0 a line, one line a row", min_length=1)] | None = None
    folder: Annotated[str, says("the folder that relative file names start from")] = ""

    def __post_init__(self) -> None:
        if self.test is not None and self.holdout is not None:
            raise ValueError("data.holdout: not together with data.test; give one of the two")
        for key, files in (("train", self.train), ("test", self.test)):
            if files is not None and (not files or (isinstance(files, list) and "" in files)):
                raise ValueError(f"data.{key} = {jobtext.show(files)}: allowed: a file, a glob or a list of them")
        if self.labels is not None and len(set(self.labels)) < len(self.labels):
            raise ValueError(f"data.labels = {jobtext.show(self.labels)}: a word is there twice")


class Prepare(Table, frozen=True, kw_only=True):
    """``[prepare]``: what is done to features before training; kept in the model."""

    columns: Annotated[Literal["none", "standard", "min-max", "max-abs"], says("none, standard, min-max, max-abs")] = (
        "none"
    )
    center: Annotated[Literal["auto"] | bool, says('"auto", true or false')] = "auto"
    rows: Annotated[Literal["none", "l1", "l2", "max"], says("none, l1, l2, max")] = "none"

    def __post_init__(self) -> None:
        if self.center is True and self.columns not in ("standard", "min-max"):
            raise ValueError(
                f'prepare.center = true: has no meaning for columns = "{self.columns}"; taken by standard, min-max'
            )
