"""Buffers that are no statistics of batch normalisation: set back before each gradient and evaluation."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

ITERATIONS = 15
"""Of the power method, at each point: as many as PyTorch takes where the layer is made."""


class _Kept(NamedTuple):
    owner: nn.Module
    name: str
    buffer: torch.Tensor | None
    value: torch.Tensor | None


class Others:
    """The buffers of ``module`` but those that ``is_statistic`` is true of, with the values that they have now."""

    def __init__(self, module: nn.Module, is_statistic: Callable[[torch.Tensor], bool]) -> None:
        self._kept = [
            _Kept(owner, name, buffer, None if buffer is None else buffer.clone())
            for owner in module.modules()
            for name, buffer in owner._buffers.items()
            if buffer is None or not is_statistic(buffer)
        ]
        self._spectral = _spectral(module)

    @torch.no_grad()
    def restore(self) -> None:
        """Set them back, also those in whose place the module put another tensor; for the parameters it has now.

        The vectors of spectral normalisation are found anew from where they were, as the parameters may be far from
        those that they were found for: one iteration a gradient is for vectors that are kept from step to step.
        """
        for owner, name, buffer, value in self._kept:
            if getattr(owner, name) is not buffer:
                setattr(owner, name, buffer)
            if buffer is not None and value is not None:
                buffer.copy_(value)
        for iterate in self._spectral:
            iterate()


def _spectral(module: nn.Module) -> list[Callable[[], None]]:
    """Return what finds the vectors of each spectral normalisation, in both of PyTorch's forms."""
    found: list[Callable[[], None]] = []
    for owner in module.modules():
        if parametrize.is_parametrized(owner):
            lists: Any = owner.parametrizations
            for name, parts in lists.items():
                norms = [part for part in parts if isinstance(part, _SpectralNorm)]
                if norms:
                    found.append(_of_parametrization(owner, name, norms))
        hooks = [hook for hook in owner._forward_pre_hooks.values() if isinstance(hook, SpectralNorm)]
        found += [_of_hook(owner, hook) for hook in hooks]
    return found


def _of_parametrization(owner: nn.Module, name: str, norms: Sequence[nn.Module]) -> Callable[[], None]:
    def iterate() -> None:
        modes = [norm.training for norm in norms]
        for norm in norms:
            norm.train()
        for _ in range(ITERATIONS):
            getattr(owner, name)
        for norm, mode in zip(norms, modes, strict=True):
            norm.train(mode)

    return iterate


def _of_hook(owner: nn.Module, hook: Any) -> Callable[[], None]:
    def iterate() -> None:
        for _ in range(ITERATIONS):
            hook.compute_weight(owner, do_power_iteration=True)

    return iterate
