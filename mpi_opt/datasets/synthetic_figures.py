"""What a generated set turned out to be: counted over all rows, measured on a sample of them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpi_opt.datasets.synthetic import Block
from mpi_opt.datasets.synthetic_text import entries
from mpi_opt.types import Features, Vector

SAMPLE_ENTRIES = 8_000_000
"""Entries of the sampled rows, about: 100 MB."""

_WHOLE_SPECTRUM = 600
"""Columns up to which all eigenvalues are computed."""

_MOST_LABELS = 100


@dataclass
class Figures:
    """Counts of the rows seen, and a sample: every ``stride``-th row.

    Parameters
    ----------
    stride : int
        1 takes all rows.
    classes : bool
        Whether labels are classes.
    """

    stride: int
    classes: bool
    rows: int = 0
    nonzeros: int = 0
    labels: Counter[float] = field(default_factory=Counter)
    _features: list[Features] = field(default_factory=list, repr=False)
    _labels: list[Vector] = field(default_factory=list, repr=False)

    def add(self, block: Block) -> None:
        """Count a block."""
        taken = slice(-self.rows % self.stride, None, self.stride)
        self._features.append(block.features[taken])
        self._labels.append(block.labels[taken])
        self.rows += block.labels.size
        self.nonzeros += entries(block.features)[1].size
        if self.classes:
            for label, count in zip(*np.unique(block.labels, return_counts=True), strict=True):
                self.labels[float(label)] += int(count)

    def lines(self) -> list[str]:
        """Return the figures as lines of text."""
        text = [f"rows {self.rows}, stored entries {self.nonzeros}, {self.nonzeros / self.rows:.4g} a row"]
        if self.classes and len(self.labels) <= _MOST_LABELS:
            shares = ", ".join(f"{label:g}: {n} ({n / self.rows:.2%})" for label, n in sorted(self.labels.items()))
            text.append(f"labels {shares}")
        features, labels = self.sample()
        which = "all rows" if labels.size == self.rows else f"{labels.size} rows, every {self.stride}th"
        values = spectrum(features)
        told = f"largest eigenvalue of X'X/n {values[-1]:.4g}"
        if values.size > 1:
            positive = values[values > 1e-12 * values[-1]]
            told += f", condition {values[-1] / positive[0]:.4g}, rank {positive.size} of {values.size}"
        text.append(f"{told} ({which})")
        half = labels.size // 2
        if half >= 10 and np.unique(labels[:half]).size > 1:
            what = "accuracy" if self.classes else "R^2"
            score = linear_score(features, labels, half, classes=self.classes)
            text.append(f"{what} {score:.4f} of a linear model of {half} rows on the other {labels.size - half}")
        return text

    def sample(self) -> tuple[Features, Vector]:
        """Return the sampled rows, in an order that mixes shards."""
        labels = np.concatenate(self._labels)
        if isinstance(self._features[0], np.ndarray):
            features: Any = np.concatenate(self._features)
        else:
            from scipy.sparse import vstack

            features = vstack(self._features, format="csr")
        order = np.concatenate([np.arange(0, labels.size, 2), np.arange(1, labels.size, 2)])
        return features[order], labels[order]


def spectrum(features: Features) -> Vector:
    """Return the eigenvalues of X'X/n ascending, shape (features,); of many columns only the largest, shape (1,)."""
    rows, columns = features.shape
    if columns <= _WHOLE_SPECTRUM:
        gram = features.T @ features
        gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
        return np.maximum(np.linalg.eigvalsh(gram / rows), 0.0)
    from scipy.sparse.linalg import svds

    if min(rows, columns) < 3:
        square = features @ features.T
        square = square if isinstance(square, np.ndarray) else square.toarray()
        return np.asarray(np.linalg.eigvalsh(square / rows)[-1:])
    start = np.sin(1.0 + np.arange(min(rows, columns)))
    largest = svds(features, k=1, v0=start, return_singular_vectors=False)
    return np.asarray(largest**2 / rows)


def linear_score(features: Features, labels: Vector, half: int, *, classes: bool) -> float:
    """Return the accuracy (R^2 for regression) on the rows from ``half`` on of a linear model of those before."""
    from sklearn.linear_model import LogisticRegression, Ridge

    model: Any = LogisticRegression(C=100.0, tol=1e-3, max_iter=300) if classes else Ridge(alpha=1e-3, solver="lsqr")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit cut short is good enough for a figure
        model.fit(features[:half], labels[:half])
    return float(model.score(features[half:], labels[half:]))


def stride(rows: int, first: Block) -> int:
    """Return the stride that samples about `SAMPLE_ENTRIES` entries of a set that begins with ``first``."""
    a_row = entries(first.features)[1].size / first.labels.size
    return max(1, -int(-rows * a_row // SAMPLE_ENTRIES))
