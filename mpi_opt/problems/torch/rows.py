"""Rows of a shard as tensors: of arrays, or of a data set of PyTorch. Only the rows asked for are made tensors."""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from mpi_opt.errors import DataError
from mpi_opt.problems.modelled import quiet
from mpi_opt.problems.torch.items import first_odd, item_of, kind_of
from mpi_opt.types import Features, Indices, Vector


class Batch(NamedTuple):
    """Some rows, on the module's device."""

    inputs: torch.Tensor
    """Shape ``(rows, ...)``, of the compute type."""
    labels: torch.Tensor
    """Shape ``(rows,)``: int64 for classes, of the compute type for numbers."""


class Rows(Protocol):
    """What a problem needs of its shard."""

    @property
    def count(self) -> int:
        """N_i."""
        ...

    def take(self, rows: Indices | slice) -> Batch:
        """Return these rows."""
        ...


def host_array(values: Any) -> Any:
    """Return a tensor or list as an array; a tensor's memory is shared where NumPy has its type.

    Raises
    ------
    ValueError
        They are complex or no numbers.
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().to_dense() if values.layout != torch.strided else values.detach()
        values = values.float() if values.dtype == torch.bfloat16 else values
    found = values if hasattr(values, "toarray") else np.asarray(values)
    if found.dtype.kind not in "fiub":
        raise ValueError(f"features and labels: found {found.dtype}; needed: real numbers")
    return found


class ArrayRows:
    """Rows of a feature matrix, dense or CSR, which is kept as it is: no copy of the shard in another type.

    Parameters
    ----------
    features : ndarray, shape (rows, ...), or csr_array, shape (rows, p)
    labels : ndarray, shape (rows,)
    shape : tuple of int
        What a row is reshaped to.
    classes : bool
        Whether labels are classes.
    dtype, device
        Of the tensors that are made.
    """

    def __init__(
        self,
        features: Features,
        labels: Vector,
        shape: tuple[int, ...],
        *,
        classes: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._features, self._shape = features, shape
        self._dtype, self._device = dtype, device
        self._number: Any = np.float64 if dtype == torch.float64 else np.float32
        self._labels: Any = labels.astype(np.int64 if classes else self._number)

    @property
    def count(self) -> int:
        """See `Rows`."""
        return int(self._labels.size)

    @quiet
    def take(self, rows: Indices | slice) -> Batch:
        """See `Rows`; numbers too large for the compute type become infinite."""
        found = self._features[rows]
        found = found if isinstance(found, np.ndarray) else found.toarray()
        # A slice is a view, and a conversion from the type itself would hand that on: PyTorch must have its own.
        inputs = torch.from_numpy(np.array(found, dtype=self._number, order="C")).reshape(-1, *self._shape)
        labels = torch.from_numpy(np.array(self._labels[rows]))
        if self._device.type == "cpu":
            return Batch(inputs, labels)
        return Batch(
            inputs.pin_memory().to(self._device, non_blocking=True),
            labels.pin_memory().to(self._device, non_blocking=True),
        )


class DatasetRows:
    """Rows of a map-style data set of ``(input, label)`` pairs, fetched one by one and collated.

    What it draws with PyTorch's generator, as transforms do, follows from the step like all else.

    Raises
    ------
    ValueError
        It has no length, or cannot be asked for an item; from `take`: items are no pairs of numbers.
    DataError
        From `take`, naming the row: it cannot be fetched, or is of another shape than others.
    """

    def __init__(self, dataset: Any, *, classes: bool, dtype: torch.dtype, device: torch.device) -> None:
        if isinstance(dataset, DataLoader | IterableDataset) or not hasattr(dataset, "__len__"):
            raise ValueError(
                f"a {type(dataset).__name__} cannot be asked for rows by number; a map-style data set is needed (of a "
                "DataLoader its .dataset), or features and labels"
            )
        self._dataset = dataset
        self._count = len(dataset)
        self._dtype, self._device = dtype, device
        self._classes = classes
        self._kind, self._first = "", 0
        self.outputs: int | None = None
        """Columns of the module's output, once they are known: labels are below."""

    @property
    def count(self) -> int:
        """See `Rows`."""
        return self._count

    def take(self, rows: Indices | slice) -> Batch:
        """See `Rows`; raises ``DataError`` where a label is none of the module's."""
        numbers = list(range(*rows.indices(self._count))) if isinstance(rows, slice) else rows.tolist()
        items = [item_of(self._dataset, number) for number in numbers]
        if not self._kind:
            self._kind, self._first = kind_of(items[0]), numbers[0]
        try:
            pair = default_collate(items)
        except Exception as error:
            raise DataError(
                f"{first_odd(items, numbers, self._kind)}; needed are pairs of an input and a label, numbers or "
                f"tensors, alike in all rows of the data set (row {self._first}: {self._kind}): {error}"
            ) from error
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(p, torch.Tensor) for p in pair)):
            raise ValueError(
                f"{first_odd(items, numbers, self._kind)}: no pair of an input and a label, both numbers or tensors"
            )
        inputs, labels = pair
        if labels.shape != (len(numbers),):
            raise ValueError(f"labels of the data set have shape {tuple(labels.shape[1:])}; single numbers are needed")
        if inputs.is_complex() or labels.is_complex():
            raise ValueError(
                f"an item of the data set is {inputs.dtype}, its label {labels.dtype}; needed: real numbers"
            )
        values = labels.double()  # not every integer type compares
        if not self._classes:
            if not values.isfinite().all():
                place = int((~values.isfinite()).nonzero()[0])
                raise DataError(
                    f"labels do not fit the loss squared: found {values[place].item():g} in row {numbers[place]}; "
                    "needed: finite numbers"
                )
        else:
            most = math.inf if self.outputs is None else self.outputs
            wrong = (values < 0) | (values >= most) | (values != values.trunc())
            if wrong.any():
                place = int(wrong.nonzero()[0])
                allowed = "from 0" if self.outputs is None else f"0..{self.outputs - 1}"
                raise DataError(
                    f"labels do not fit the loss softmax: found {values[place].item():g} in row {numbers[place]}; "
                    f"needed: whole numbers {allowed}"
                )
        return Batch(
            inputs.to(self._device, self._dtype),
            labels.to(self._device, torch.int64 if self._classes else self._dtype),
        )
