"""The set ``linear``: normal features of a stated spectrum, labels by a linear model, noise and unlike shards as told.

Symbols: z a row before scaling, N(0, 1) each; s_j column scales, s_j^2 evenly spaced in logarithm from 1 to 1/K; Q two
reflections; g the true direction, |g| = 1; H heterogeneity; p density; P label noise; node k holds rows
``N k // n`` to ``N (k + 1) // n``.

- dense (p = 1): ``x = Q S (z + H u_k)``, so that X'X/N tends to a matrix of condition K with no axis of its own;
- sparse: each entry is stored with probability p and is ``s_j (z_j + H u_kj)`` then; X'X/N tends to ``p S^2``;
- score ``m = g_k . (z + H u_k)``, over the stored entries and divided by sqrt(p) where sparse: all directions count
  alike, so the smallest eigenvalues matter to the model; the variance of m is 1 where H = 0;
- logistic: y = sign(m), turned with probability P, so that no model is right more often than 1 - P;
  softmax: the largest of C scores, replaced by another class with probability P;
  regression: ``y = m + sqrt(P / (1 - P)) e``, so that noise is the share P of the variance of y;
- shards: u_k and h_k are N(0, 1) draws of node k, ``g_k = (g + H h_k / sqrt(d)) / |g + H h_k / sqrt(d)|``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log10, sqrt
from typing import Literal, TypeAlias, get_args

import numpy as np

from mpi_opt.datasets.synthetic import DRAW_ROWS, Block, check, decimals, fold, parameters, row_draws
from mpi_opt.errors import JobError
from mpi_opt.types import Indices, Vector

Task: TypeAlias = Literal["logistic", "softmax", "regression"]
Differ: TypeAlias = Literal["both", "features", "weights"]

_PLACES = 6
"""Decimal places of values, where the smallest scale is 1."""


@dataclass(frozen=True, kw_only=True)
class Linear:
    """The recipe of ``linear``; see the module for what the rows are.

    Parameters
    ----------
    rows, features : int
        N and d, at least 1.
    seed : int
        Everything follows from it.
    density : float
        p, the share of stored entries, above 0 and at most 1.
    condition : float
        K, from 1 to 1e12: largest over smallest eigenvalue of X'X/N, for N far above d, where H = 0.
    label_noise : float
        P, at least 0 and below 1.
    task : {"logistic", "softmax", "regression"}
    classes : int
        C of softmax, at least 2.
    heterogeneity : float
        H >= 0.
    nodes : int
        n, at least 1.
    differ : {"both", "features", "weights"}
        What is unlike between shards: u_k, h_k or both.

    Raises
    ------
    JobError
        A value is not allowed: names the command's option for it.
    """

    rows: int = 10_000
    features: int = 100
    seed: int = 0
    density: float = 1.0
    condition: float = 1.0
    label_noise: float = 0.0
    task: Task = "logistic"
    classes: int = 3
    heterogeneity: float = 0.0
    nodes: int = 1
    differ: Differ = "both"

    def __post_init__(self) -> None:
        check("--rows", self.rows, 1, 2**53, "an integer >= 1")
        check("--features", self.features, 1, 2**31 - 2, "an integer from 1 to 2^31 - 2")
        check("--density", self.density, 1e-12, 1.0, "a number above 0 and at most 1")
        check("--condition", self.condition, 1.0, 1e12, "a number from 1 to 1e12")
        check("--label-noise", self.label_noise, 0.0, np.nextafter(1.0, 0.0), "a number >= 0 and below 1")
        check("--classes", self.classes, 2, 10_000, "an integer from 2 to 10000")
        check("--heterogeneity", self.heterogeneity, 0.0, 1e6, "a number from 0 to 1e6")
        check("--nodes", self.nodes, 1, self.rows, f"an integer from 1 to the number of rows, {self.rows}")
        for option, value, words in (("--task", self.task, Task), ("--differ", self.differ, Differ)):
            if value not in get_args(words):
                raise JobError(f"{option} {value}: allowed: {', '.join(get_args(words))}")
        if self.heterogeneity and self.nodes == 1:
            raise JobError("--heterogeneity without --nodes: shards differ only where there are several; give --nodes")
        if self.condition > 1 and self.features == 1:
            raise JobError(f"--condition {self.condition:g} with --features 1: one column has one eigenvalue")

    @property
    def name(self) -> str:
        """``linear``."""
        return "linear"

    @property
    def settings(self) -> Mapping[str, str | int | float]:
        """What the rows follow from."""
        shown: dict[str, str | int | float] = {
            "seed": self.seed,
            "task": self.task,
            "density": self.density,
            "condition": self.condition,
            "label_noise": self.label_noise,
        }
        if self.task == "softmax":
            shown["classes"] = self.classes
        if self.heterogeneity:
            shown.update(heterogeneity=self.heterogeneity, nodes=self.nodes, differ=self.differ)
        return shown

    @cached_property
    def scales(self) -> Vector:
        """s_j, float64 shape (features,); in a random order where the set is sparse."""
        steps = np.arange(self.features) / max(self.features - 1, 1)
        scales = self.condition ** (-0.5 * steps)
        return scales if self.density == 1.0 else scales[self._shared[2]]

    @cached_property
    def _shared(self) -> tuple[Vector, Vector, Indices]:
        """The directions (features, columns), the two mirrors (2, features), and an order of the columns."""
        draws = parameters(self.seed)
        g = draws.standard_normal((self.features, self.classes if self.task == "softmax" else 1))
        mirrors = draws.standard_normal((2, self.features))
        return g, mirrors / np.sqrt((mirrors**2).sum(axis=1, keepdims=True)), draws.permutation(self.features)

    @property
    def _places(self) -> int:
        """Decimal places: the smallest scale keeps as many digits as a scale of 1."""
        return _PLACES + ceil(log10(self.condition) / 2)

    def node_of(self, rows: Indices) -> Indices:
        """Return the node that holds each row."""
        return ((rows + 1) * self.nodes - 1) // self.rows

    def differences(self, node: int) -> tuple[Vector, Vector]:
        """Return ``H u_k`` (features,) and ``g_k`` (features, columns), columns of length 1."""
        g = self._shared[0]
        shift = np.zeros(self.features)
        if self.heterogeneity:
            draws = parameters(self.seed, 1 + node)
            u, h = draws.standard_normal(self.features), draws.standard_normal(g.shape)
            if self.differ != "weights":
                shift = self.heterogeneity * u
            if self.differ != "features":
                g = g / np.sqrt((g**2).sum(axis=0)) + self.heterogeneity * h / sqrt(self.features)
        return shift, g / np.sqrt((g**2).sum(axis=0))

    def draw(self, block: int) -> Block:
        """Return a block of rows."""
        draws = row_draws(self.seed, block)
        numbers = block * DRAW_ROWS + np.arange(DRAW_ROWS, dtype=np.int64)
        owners = self.node_of(np.minimum(numbers, self.rows - 1))
        features, scores = (self._dense if self.density == 1.0 else self._sparse)(draws, owners)
        return Block(features, self._labels(draws, scores))

    def _dense(self, draws: np.random.Generator, owners: Indices) -> tuple[Vector, Vector]:
        z = draws.standard_normal((self.features, DRAW_ROWS))
        scores = np.empty((DRAW_ROWS, self._shared[0].shape[1]))
        for node in np.unique(owners):
            mine = slice(*np.searchsorted(owners, [node, node + 1]))
            shift, g = self.differences(int(node))
            part = z[:, mine] = z[:, mine] + shift[:, None]
            for c, column in enumerate(g.T):
                scores[mine, c] = fold(part, column)
        if self.condition > 1:
            z *= self.scales[:, None]
            for mirror in self._shared[1]:
                z -= (2.0 * mirror)[:, None] * fold(z, mirror)
        return decimals(np.ascontiguousarray(z.T), self._places), scores

    def _sparse(self, draws: np.random.Generator, owners: Indices) -> tuple[object, Vector]:
        from scipy.sparse import csr_array

        places = _bernoulli(draws, DRAW_ROWS * self.features, self.density)
        rows, columns = np.divmod(places, self.features)
        z = draws.standard_normal(places.size)
        ends = np.searchsorted(rows, np.arange(DRAW_ROWS + 1))
        scores = np.empty((DRAW_ROWS, self._shared[0].shape[1]))
        for node in np.unique(owners):
            first, last = np.searchsorted(owners, [node, node + 1])
            mine = slice(ends[first], ends[last])
            shift, g = self.differences(int(node))
            z[mine] += shift[columns[mine]]
            for c, column in enumerate(g.T):
                # bincount adds in the order of the entries
                shares = z[mine] * column[columns[mine]]
                scores[first:last, c] = np.bincount(rows[mine] - first, shares, last - first)
        scores /= sqrt(self.density)
        values = decimals(z * self.scales[columns], self._places)
        return csr_array((values, columns, ends), shape=(DRAW_ROWS, self.features)), scores

    def _labels(self, draws: np.random.Generator, scores: Vector) -> Vector:
        if self.task == "regression":
            noise = sqrt(self.label_noise / (1.0 - self.label_noise)) * draws.standard_normal(DRAW_ROWS)
            return decimals(scores[:, 0] + noise, _PLACES)
        wrong, which = draws.random(DRAW_ROWS) < self.label_noise, draws.random(DRAW_ROWS)
        if self.task == "logistic":
            return np.where((scores[:, 0] >= 0) ^ wrong, 1.0, -1.0)
        others = 1 + np.floor(which * (self.classes - 1))
        return np.asarray((scores.argmax(axis=1) + np.where(wrong, others, 0.0)) % self.classes)


def _bernoulli(draws: np.random.Generator, total: int, p: float) -> Indices:
    """Return which of ``total`` places are taken, each with probability p: ascending, by their geometric gaps."""
    mean = total * p
    size = int(mean + 6.0 * sqrt(mean) + 16)
    found, last = [], -1
    while last < total:
        places = last + np.cumsum(draws.geometric(p, size))
        found.append(places)
        last = int(places[-1])
    places = np.concatenate(found)
    return places[: np.searchsorted(places, total)]
