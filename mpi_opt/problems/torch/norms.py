"""Buffers of a module that are statistics of batch normalisation; `buffers` has all others.

Running statistics are no part of the point: nobody averages or sends them. While a module trains, batch normalisation
uses the batch's own, and instance normalisation, which may keep statistics too, those of each row. Where a model is
evaluated, saved or predicted with, they are computed anew at that model from a fixed set of rows, the same on all
ranks: as is done for averaged weights (Izmailov et al. 2018, arXiv 1803.05407).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from mpi_opt.problems.torch.calling import forward

CALIBRATED_AT_ONCE = 128
"""Rows that statistics are computed from at a time, at most."""


class _PlainMean:
    """Makes a layer's statistics the mean over its calls, as ``momentum = None`` does for batch normalisation only."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, layer: Any, _inputs: Any) -> None:
        self._calls += 1
        layer.momentum = 1.0 / self._calls


class Norms:
    """The layers of batch and instance normalisation that keep statistics in ``module``; false where there are none."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._layers = [
            layer for layer in module.modules() if isinstance(layer, _NormBase) and layer.running_mean is not None
        ]

    def __bool__(self) -> bool:
        return bool(self._layers)

    def holds(self, buffer: torch.Tensor) -> bool:
        """Return whether ``buffer`` is one of the statistics."""
        return any(buffer is own for own in self._buffers())

    @torch.no_grad()
    def recompute(self, module: torch.nn.Module, rows: torch.Tensor) -> None:
        """Set the statistics to the mean over chunks of ``rows``; all else evaluates. ``module`` is left evaluating.

        Raises ``JobError`` where the module does not take them: batch normalisation takes no single flat row.
        """
        module.eval()
        momenta = [layer.momentum for layer in self._layers]
        for layer in self._layers:
            layer.reset_running_stats()
            layer.train()
        hooks = [layer.register_forward_pre_hook(_PlainMean()) for layer in self._layers]
        try:
            # Of nearly equal lengths: none is left with a single row.
            for part in rows.tensor_split(-(-rows.shape[0] // CALIBRATED_AT_ONCE)):
                forward(module, part)
        finally:
            for layer, momentum, hook in zip(self._layers, momenta, hooks, strict=True):
                hook.remove()
                layer.momentum = momentum
                layer.eval()

    def kept(self) -> list[torch.Tensor]:
        """Return copies of the statistics."""
        return [buffer.clone() for buffer in self._buffers()]

    def restore(self, kept: Sequence[torch.Tensor]) -> None:
        """Set the statistics to what `kept` returned."""
        for buffer, value in zip(self._buffers(), kept, strict=True):
            buffer.copy_(value)

    def _buffers(self) -> list[torch.Tensor]:
        return [buffer for layer in self._layers for buffer in layer.buffers(recurse=False)]
