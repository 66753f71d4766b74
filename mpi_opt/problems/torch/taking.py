"""What a module's tensors must be before its parameters become one vector."""

import torch

from mpi_opt.errors import JobError


def check_tensors(module: torch.nn.Module) -> None:
    """Check that all tensors have a shape, as those of lazy layers have not, and none is complex.

    Complex ones would lose their imaginary part where the module is set to its compute type.

    Raises
    ------
    JobError
        One is otherwise, or has no values.
    """
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            raise JobError(
                f"problem.module: {name} of {type(module).__name__} has no shape before the first batch; name its "
                "sizes, which a factory is told as shape and outputs, or let the module see a row before"
            )
        if tensor.is_meta:
            raise JobError(
                f"problem.module: {name} of {type(module).__name__} is on the device meta, so has no values; "
                "allowed: parameters and buffers that hold numbers"
            )
        if tensor.is_complex():
            raise JobError(
                f"problem.module: {name} of {type(module).__name__} is {tensor.dtype}; allowed: real numbers"
            )


def unshare(module: torch.nn.Module) -> None:
    """Give tensors of which several entries are one place in memory, as ``expand`` makes them, places of their own."""
    for tensor in (*module.parameters(), *module.buffers()):
        if torch.nn.parameter.is_lazy(tensor) or tensor.layout != torch.strided:
            continue
        if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
            tensor.data = tensor.detach().clone()
