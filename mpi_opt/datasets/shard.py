"""What a reader hands over: one node's rows, and what all nodes know of the whole set."""

from collections.abc import Mapping
from dataclasses import dataclass

from mpi_opt.types import Features, Indices, Vector


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of one node; possibly none.

    Attributes
    ----------
    features : csr_array or ndarray, shape (N_i, features)
        float64; dense ones C-ordered.
    labels : ndarray, shape (N_i,)
        float64: -1/+1 for binary losses, 0..C-1 for softmax, the value itself for regression.
    rows : ndarray, shape (N_i,)
        int64, the rows' numbers in the whole set, in the order of ``features``.
    weights : ndarray, shape (N_i,), or None
        float64, what each row's loss is multiplied by; ``None`` means 1.
    """

    features: Features
    labels: Vector
    rows: Indices
    weights: Vector | None = None


@dataclass(frozen=True, slots=True)
class DataInfo:
    """Facts about a whole data set, the same on every process.

    Attributes
    ----------
    name : str
        The job's word for it.
    rows, features, nonzeros : int
        N, the number of columns, stored entries.
    labels : mapping of float to float, or None
        Label in the file -> label used (-1/+1, or 0..C-1); ``None`` for regression.
    index_base : int
        0 or 1: what the first column is called in the file.
    sparse : bool
        Whether shards are CSR.
    text_base : int or None
        What LIBSVM text of the same columns counts from, 0 or 1, where the file tells: of text and what was made of it.
    names : tuple of str or None
        Of the features; ``None`` where the set does not tell.
    words : tuple of str or None
        What the labels 0, 1, ... in the file stand for; ``None`` for labels that are numbers.
    """

    name: str
    rows: int
    features: int
    nonzeros: int
    labels: Mapping[float, float] | None
    index_base: int
    sparse: bool
    text_base: int | None = None
    names: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None

    @property
    def classes(self) -> int:
        """Number of distinct labels; 0 for regression."""
        return 0 if self.labels is None else len(self.labels)
