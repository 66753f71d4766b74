"""What a module takes in memory beside its parameters: the tensors that a gradient keeps for its way back."""

from typing import NamedTuple

import numpy as np
import torch

from mpi_opt.problems.torch.flat import FlatModule
from mpi_opt.problems.torch.problem import TorchProblem


class Kept(NamedTuple):
    """Bytes of the tensors that PyTorch keeps from forward to backward, parameters and buffers not among them."""

    total: float
    largest: float
    """Of one tensor."""


def module_bytes(flat: FlatModule) -> int:
    """Return the bytes of a module: trainable parameters, their gradients, frozen parameters and buffers."""
    rest = [p for p in flat.module.parameters() if not p.requires_grad]
    return 2 * flat.dim * flat.dtype.itemsize + sum(tensor.nbytes for tensor in (*rest, *flat.module.buffers()))


def kept_by(problem: TorchProblem, rows: int) -> Kept:
    """Return what the gradient of one batch of the shard's first ``rows`` rows keeps, by taking it.

    Raises
    ------
    JobError
        The module does not take them.
    """
    module, found = problem.flat.module, dict[int, int]()
    own = {tensor.untyped_storage().data_ptr() for tensor in (*module.parameters(), *module.buffers())}

    def seen(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(seen, lambda tensor: tensor):
        problem.sampled_gradient(problem.start, np.arange(rows))
    return Kept(sum(found.values()), max(found.values(), default=0))


def kept_of(problem: TorchProblem, rows: int, most: int) -> Kept:
    """Return what the gradient of ``rows`` rows keeps, by ones of ``most`` rows at most: memory grows with the rows.

    Raises
    ------
    JobError
        The module does not take so few rows.
    """
    if rows <= most:
        return kept_by(problem, rows)
    few, more = kept_by(problem, most // 2), kept_by(problem, most)
    further = (rows - most) / (most - most // 2)
    return Kept(*(max(0.0, b + further * (b - a)) for a, b in zip(few, more, strict=True)))
