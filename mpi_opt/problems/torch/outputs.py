"""A module's outputs, which must be of the shape that its loss is of."""

import torch

from mpi_opt.errors import JobError
from mpi_opt.problems.torch.calling import forward
from mpi_opt.problems.torch.flat import FlatModule
from mpi_opt.problems.torch.losses import LOSSES


@torch.no_grad()
def outputs_of(flat: FlatModule, loss: str, shape: tuple[int, ...]) -> int:
    """Return the columns of a module's output, seen with one row of zeros.

    Raises
    ------
    JobError
        The module does not take a row of this shape, or its output does not fit the loss, one of `LOSSES`.
    """
    flat.module.eval()
    with flat.unchanged():
        output = forward(flat.module, torch.zeros((1, *shape), dtype=flat.dtype, device=flat.device))
    if not (isinstance(output, torch.Tensor) and output.is_floating_point()):
        what = output.dtype if isinstance(output, torch.Tensor) else type(output).__name__
        raise JobError(
            f"problem.module: the output of {type(flat.module).__name__} is {what}; allowed: a tensor of real "
            "floating-point numbers"
        )
    found = tuple(output.shape)
    if LOSSES[loss].kind == "classes":
        if len(found) != 2 or found[0] != 1 or found[1] < 2:
            raise JobError(
                f"problem.module: the output for one row of shape {shape} has shape {found}; "
                'loss = "softmax" needs (1, classes), two classes or more'
            )
        return found[1]
    if found not in ((1,), (1, 1)):
        raise JobError(
            f"problem.module: the output for one row of shape {shape} has shape {found}; "
            'loss = "squared" needs (1,) or (1, 1)'
        )
    return 1


def output_of(module: torch.nn.Module, inputs: torch.Tensor, rows: int, kind: str, columns: int) -> torch.Tensor:
    """Return a module's output for a batch, whose shape may hang on the rows, and on whether it trains.

    Parameters
    ----------
    module : torch.nn.Module
    inputs : torch.Tensor, shape (rows, ...)
    rows : int
    kind : str
        Of labels, the loss's: ``"classes"`` or another.
    columns : int
        Outputs of a row.

    Raises
    ------
    JobError
        The module raises, or its output is no floating-point tensor of the shape needed.
    """
    output = forward(module, inputs)
    allowed = ((rows, columns),) if kind == "classes" else ((rows,), (rows, 1))
    if isinstance(output, torch.Tensor) and output.is_floating_point() and tuple(output.shape) in allowed:
        return output
    what = f"{output.dtype} of shape {tuple(output.shape)}" if hasattr(output, "dtype") else type(output).__name__
    mode = "training" if module.training else "evaluating"
    raise JobError(
        f"problem.module: the output of {type(module).__name__}, {mode}, on inputs of shape {tuple(inputs.shape)} is "
        f"{what}; allowed: a tensor of real floating-point numbers of shape {' or '.join(map(str, allowed))}"
    )
