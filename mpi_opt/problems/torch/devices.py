"""Where a module computes: the host, or a CUDA device, to which vectors go through pinned memory."""

import torch

from mpi_opt.errors import JobError


def device_of(word: str) -> torch.device:
    """Return the device that a job's word names.

    Raises
    ------
    JobError
        The word is none, or there is no such device.
    """
    try:
        device = torch.device(word)
    except RuntimeError:
        raise JobError(f'problem.device = {word!r}: allowed: "cpu", "cuda", "cuda:NUMBER"') from None
    if device.type not in ("cpu", "cuda"):
        raise JobError(f'problem.device = {word!r}: allowed: "cpu", "cuda", "cuda:NUMBER"')
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise JobError(f"problem.device = {word!r}: there are {torch.cuda.device_count()} CUDA devices here")
    return device


def pinned(like: torch.Tensor) -> torch.Tensor:
    """Return an empty tensor of the host of this shape and type, in memory that a device copies from by itself."""
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
