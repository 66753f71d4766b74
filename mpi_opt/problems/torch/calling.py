"""Calling a module: what it raises is told as the job's."""

from typing import Any

import torch

from mpi_opt.errors import JobError


def forward(module: torch.nn.Module, inputs: torch.Tensor, place: str = "problem.module") -> Any:
    """Return the module's output; ``place`` is what errors begin with.

    Raises
    ------
    JobError
        It raises on inputs of this shape.
    """
    try:
        return module(inputs)
    except (Exception, SystemExit) as error:  # sys.exit(0) would end a rank as if all was well
        raise JobError(
            f"{place}: {type(module).__name__} raised {type(error).__name__} on inputs of shape "
            f"{tuple(inputs.shape)}: {error}"
        ) from error
