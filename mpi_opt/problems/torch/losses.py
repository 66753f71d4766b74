"""What a module's output is compared with: cross-entropy for classes, half the square for numbers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Protocol

import torch
from torch.nn import functional

from mpi_opt.types import LabelKind


class Loss(Protocol):
    """A loss of each row's output."""

    @property
    def kind(self) -> LabelKind:
        """What labels it takes."""
        ...

    def rows(self, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return each row's loss, shape ``(rows,)``."""
        ...

    def mean(self, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean over rows, a scalar."""
        ...

    def wrong(self, output: torch.Tensor, labels: torch.Tensor) -> int:
        """Return the number of rows predicted wrongly; 0 for numbers. An output that is NaN is wrong."""
        ...


class CrossEntropy:
    """``log sum_c exp(z_c) - z_y`` of outputs of shape ``(rows, C)``; labels int64 in 0..C-1."""

    kind: ClassVar[LabelKind] = "classes"

    def rows(self, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """See `Loss`."""
        return functional.cross_entropy(output, labels, reduction="none")

    def mean(self, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """See `Loss`."""
        return functional.cross_entropy(output, labels)

    def wrong(self, output: torch.Tensor, labels: torch.Tensor) -> int:
        """See `Loss`; the class is that of the largest output, the first of equal ones."""
        right = (output.argmax(dim=1) == labels) & ~output.isnan().any(dim=1)
        return labels.numel() - int(right.sum())


class HalfSquare:
    """``(z - y)^2 / 2`` of outputs of shape ``(rows,)`` or ``(rows, 1)``; labels of the compute type."""

    kind: ClassVar[LabelKind] = "real"

    def rows(self, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """See `Loss`."""
        gap = output.reshape(labels.shape) - labels
        return 0.5 * gap * gap

    def mean(self, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """See `Loss`."""
        return self.rows(output, labels).mean()

    def wrong(self, output: torch.Tensor, labels: torch.Tensor) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


LOSSES: Mapping[str, Loss] = MappingProxyType({"softmax": CrossEntropy(), "squared": HalfSquare()})
"""By the words of a job."""
