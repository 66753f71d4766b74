"""A module, a loss and a shard as a problem over the module's flat parameters.

``f(x) = scale * sum_{j in shard} omega_j loss(module(row_j); label_j) + (l2 / 2) |x|^2``. All parameters are penalised,
as ``weight_decay`` of ``torch.optim.SGD`` does. Gradients are those of the module as it trains (dropout, statistics of
the batch); values and figures those of the module as it evaluates. Without such layers they are of one function.
"""

import math
from typing import Any

import numpy as np
import torch

from mpi_opt.draws import Key
from mpi_opt.errors import JobError
from mpi_opt.problems.base import Figures
from mpi_opt.problems.labels import check_mapped_labels
from mpi_opt.problems.modelled import quiet
from mpi_opt.problems.torch.flat import Block, FlatModule
from mpi_opt.problems.torch.losses import LOSSES
from mpi_opt.problems.torch.outputs import output_of, outputs_of
from mpi_opt.problems.torch.rows import ArrayRows, Batch, DatasetRows, Rows, host_array
from mpi_opt.types import Features, Indices, Vector

_CHUNK = 256
"""Rows that a pass over the shard takes at a time, at most."""


class TorchProblem:
    """One node's function; implements `problems.base.Problem`. Vectors are float64, shape ``(dim,)``.

    Nothing is remembered between calls but what `draw_from` sets, and statistics where `FlatModule.calibrate` names no
    rows for them: the same call gives the same bits. Problems that share a `FlatModule` take turns with it.

    Parameters
    ----------
    flat : FlatModule
        The module; shared by all nodes of a process.
    loss : {"softmax", "squared"}
        Cross-entropy of outputs of shape ``(rows, C)``; or half the square of outputs ``(rows,)`` or ``(rows, 1)``.
    features : ndarray or tensor of the host, shape (rows, ...), csr_array, or torch.utils.data.Dataset
        Kept, not copied. A map-style data set yields pairs of input and label, and ``labels`` is left out.
    labels : ndarray or tensor of the host, shape (rows,), optional
        Whole numbers in 0..C-1, or finite numbers.
    shape : tuple of int, optional
        What the module takes for a row; by default the features' own.
    scale : float, optional
        Factor of the sum over rows; by default ``1 / rows``.
    l2 : float, optional
        Weight decay.
    row_weights : ndarray, shape (rows,), optional
        What each row's loss is multiplied by.

    Raises
    ------
    JobError
        The module does not take such rows, or its output does not fit the loss.
    DataError
        Labels that do not fit the loss or the module's outputs; those of a data set are seen as they are fetched.
    ValueError
        A data set that is none; shapes that do not fit each other, or ``l2`` or ``scale`` negative or not finite.
    """

    def __init__(
        self,
        flat: FlatModule,
        loss: str,
        features: Features,
        labels: Vector | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        scale: float | None = None,
        l2: float = 0.0,
        row_weights: Vector | None = None,
    ) -> None:
        if loss not in LOSSES:
            raise JobError(f"problem.loss = {loss!r}: a module takes {', '.join(LOSSES)}")
        self.flat, self._loss = flat, LOSSES[loss]
        classes = self._loss.kind == "classes"
        self._rows: Rows
        if labels is None:
            self._rows = DatasetRows(features, classes=classes, dtype=flat.dtype, device=flat.device)
            shape = tuple(self._rows.take(slice(1)).inputs.shape[1:]) if self._rows.count else None
        else:
            labels, features = host_array(labels), host_array(features)
            assert labels is not None
            shape = tuple(features.shape[1:]) if shape is None else tuple(shape)
            if labels.shape != features.shape[:1]:
                raise ValueError(f"labels have shape {labels.shape}; ({features.shape[0]},) is needed, one a row")
            if math.prod(shape) != math.prod(features.shape[1:]):
                raise ValueError(
                    f"shape is {shape}, of {math.prod(shape)} numbers; a row has {math.prod(features.shape[1:])}"
                )
            self._rows = ArrayRows(features, labels, shape, classes=classes, dtype=flat.dtype, device=flat.device)
        self._l2 = float(l2)
        self._scale = 1.0 / max(self._rows.count, 1) if scale is None else float(scale)
        for name, number in (("l2", self._l2), ("scale", self._scale)):
            if not (np.isfinite(number) and number >= 0):
                raise ValueError(f"{name} is {number}; a finite number >= 0 is needed")
        self._weights: Any = None
        if row_weights is not None:
            if row_weights.shape != (self._rows.count,):
                raise ValueError(f"row weights have shape {row_weights.shape}; ({self._rows.count},) is needed")
            if not (np.isfinite(row_weights) & (row_weights >= 0)).all():
                raise ValueError("row weights: needed are finite numbers >= 0")
            self._weights = torch.from_numpy(np.array(row_weights)).to(flat.device, flat.dtype)
        self.columns = 1 if shape is None else outputs_of(flat, loss, shape)
        if isinstance(self._rows, DatasetRows):
            self._rows.outputs = self.columns
        else:
            assert labels is not None
            check_mapped_labels(self._loss.kind, labels, loss, classes=self.columns if classes else None)
        self._size = 1 if shape is None else int(np.prod(shape))
        self._seed = 0

    @property
    def dim(self) -> int:
        """Length of x: the module's trainable parameters."""
        return self.flat.dim

    @property
    def rows(self) -> int:
        """Rows of the shard, possibly 0."""
        return self._rows.count

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The parameter tensors within x."""
        return self.flat.blocks

    @property
    def start(self) -> Vector:
        """Where runs start, the same on all nodes: the module's own parameters, as it was made. Read-only."""
        return self.flat.start

    @property
    def l2(self) -> float:
        """Factor of the penalty."""
        return self._l2

    @property
    def nonzeros(self) -> int:
        """Numbers of the shard's features."""
        return self.rows * self._size

    def draw_from(self, key: Key) -> None:
        """Let the next gradients draw what the module needs, as for dropout, from ``key``."""
        self._seed = key.number()

    @quiet
    def value(self, x: Vector) -> float:
        """Return f(x) of the module as it evaluates."""
        return self._scale * self._sums(x).loss + self.penalty(x)

    @quiet
    def gradient(self, x: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient over all rows, of the module as it trains, up to 256 rows at a time; ``out`` may be x."""
        self.flat.load(x)
        total, part = np.multiply(x, self._l2), np.empty(self.dim)
        with self.flat.unchanged(), self.flat.training(self._seed):
            for piece in _pieces(self.rows):
                batch = self._rows.take(piece)
                self._backward(batch, piece)
                self.flat.gradient(self._scale * batch.labels.numel(), part)
                self.flat.zero()
                total += part
        if out is None:
            return total
        np.copyto(out, total)
        return out

    @quiet
    def sampled_gradient(self, x: Vector, rows: Indices | None, out: Vector | None = None) -> Vector:
        """Return the gradient with the row sum replaced by ``(N_i / len(rows)) * (sum over rows)``.

        Parameters
        ----------
        x : ndarray, shape (dim,)
            The point.
        rows : ndarray of int64, shape (batch,), or None
            Rows of the shard, one batch of the module; ``None`` means all, in pieces. An empty batch leaves the
            penalty's gradient.
        out : ndarray, shape (dim,), optional
            Where the result goes; may be x.
        """
        if rows is None:
            return self.gradient(x, out)
        flat, penalty = self.flat, self._l2 * x if self._l2 else None
        flat.load(x)
        out = np.empty(self.dim) if out is None else out
        with flat.training(self._seed):
            if rows.size:
                self._backward(self._rows.take(rows), rows)
            flat.gradient(self._scale * self.rows, out)
        if penalty is not None:
            out += penalty
        return out

    @quiet
    def figures(self, x: Vector) -> Figures:
        """Return loss sum (unscaled, without penalty, the rows weighted), errors and rows of the shard at x."""
        return self._sums(x)

    @quiet
    def penalty(self, x: Vector) -> float:
        """Return ``(l2 / 2) |x|^2``."""
        return 0.5 * self._l2 * float(np.dot(x, x)) if self._l2 else 0.0

    def _backward(self, batch: Batch, rows: Indices | slice) -> None:
        """Add the gradient of the mean loss of a batch to the module's."""
        output = self._output(batch)
        try:
            if self._weights is None:
                loss = self._loss.mean(output, batch.labels)
            else:
                loss = (self._loss.rows(output, batch.labels) * self._weights[rows]).mean()
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:  # of outputs cut off from the parameters; of operations that vary by themselves
            raise JobError(
                f"problem.module: the gradient of {type(self.flat.module).__name__} raised {type(error).__name__} on "
                f"inputs of shape {tuple(batch.inputs.shape)}: {error}"
            ) from error

    def _output(self, batch: Batch) -> torch.Tensor:
        return output_of(self.flat.module, batch.inputs, batch.labels.numel(), self._loss.kind, self.columns)

    @torch.no_grad()
    def _sums(self, x: Vector) -> Figures:
        self.flat.load(x)
        loss, wrong = 0.0, 0
        with self.flat.unchanged(), self.flat.evaluating():
            for piece in _pieces(self.rows):
                batch = self._rows.take(piece)
                output = self._output(batch)
                losses = self._loss.rows(output, batch.labels)
                losses = losses if self._weights is None else losses * self._weights[piece]
                loss += float(losses.sum(dtype=torch.float64))
                wrong += self._loss.wrong(output, batch.labels)
        return Figures(loss, wrong, self.rows)


def largest_piece(rows: int) -> int:
    """Return how many of so many rows a pass over all takes at a time, at most."""
    return max((piece.stop - piece.start for piece in _pieces(rows)), default=0)


def _pieces(rows: int) -> list[slice]:
    """Return a cut of so many rows into pieces of nearly equal length: batch normalisation takes no single row."""
    count = -(-rows // _CHUNK)
    return [slice(rows * piece // count, rows * (piece + 1) // count) for piece in range(count)]
