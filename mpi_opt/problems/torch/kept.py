"""What a module must leave alone as it is called: its parameters and their gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


def taken_away(views: Sequence[tuple[Any, int, torch.Tensor]]) -> int | None:
    """Return the number of the first parameter whose gradient is another tensor than its own, ``None`` where none is.

    Parameters
    ----------
    views : sequence of tuple
        Each parameter, where its values are, and its gradient.
    """
    for number, (parameter, _, slope) in enumerate(views):
        if parameter.grad is not slope:
            return number
    return None


def unlike(
    module: nn.Module,
    blocks: Sequence[Any],
    views: Sequence[tuple[Any, int, torch.Tensor]],
    before: torch.Tensor,
    after: torch.Tensor,
) -> str:
    """Say in what a module's trainable parameters are others than they were; an empty text where in nothing.

    Parameters
    ----------
    module : Module
    blocks : sequence of Block
        The parameters as they were.
    views : sequence of tuple
        See `taken_away`.
    before, after : tensor, shape (dim,)
        Their values, then and now.
    """
    now = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    for block, (_, place, _) in zip(blocks, views, strict=True):
        parameter = now.pop(block.name, None)
        if parameter is None:
            return f"{block.name} is gone or no longer takes a gradient"
        if parameter.data_ptr() != place:
            return f"{block.name} is another tensor"
    if now:
        return f"{next(iter(now))} was made"
    then, there = before.view(torch.uint8), after.view(torch.uint8)  # as bits, of which those of NaN equal themselves
    if torch.equal(then, there):
        return ""
    first = int((then != there).nonzero()[0]) // before.element_size()
    return next(f"{block.name} has other values" for block in blocks if first < block.start + block.size)
