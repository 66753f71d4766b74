"""What a module is made of, as a checkpoint keeps it, and where two modules differ.

A resumed run makes its module anew. The flat vector of the checkpoint means what it meant only where the trainable
tensors are the same in the same order, and all else that the module computes with is as it was.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mpi_opt.errors import JobError

if TYPE_CHECKING:
    from torch import nn

    from mpi_opt.problems.torch.flat import FlatModule

TRAINED, FROZEN, BUFFER = "parameter", "frozen parameter", "buffer"


def tensors_of(flat: "FlatModule") -> list[dict[str, Any]]:
    """Return the module's tensors as JSON values: ``kind``, ``name``, ``shape``, and ``sha256`` where values count.

    Trainable parameters come first, in the order of x. Of these, and of the statistics of batch normalisation, values
    do not count: they come from the checkpoint, or are computed anew.
    """
    found: list[dict[str, Any]] = [
        {"kind": TRAINED, "name": block.name, "shape": list(block.shape)} for block in flat.blocks
    ]
    frozen = [(FROZEN, name, p.detach()) for name, p in flat.module.named_parameters() if not p.requires_grad]
    for kind, name, tensor in (*frozen, *((BUFFER, name, b) for name, b in flat.module.named_buffers())):
        found.append({"kind": kind, "name": name, "shape": list(tensor.shape)})
        if not flat.is_statistic(tensor):
            found[-1]["sha256"] = sha256(tensor.to_dense().cpu().contiguous().numpy().tobytes()).hexdigest()
    return found


def difference(made: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]) -> str | None:
    """Return in words the first tensor in which a module differs from the one of a checkpoint, ``None`` where none.

    Parameters
    ----------
    made, kept : sequence of mapping
        Each as `tensors_of` returns it.
    """
    mine, theirs = ([each for each in side if each["kind"] == TRAINED] for side in (made, kept))
    for at in range(max(len(mine), len(theirs))):
        ours, old = (_what(side[at]) if at < len(side) else "none" for side in (mine, theirs))
        if ours != old:
            return f"parameter {at + 1} is {ours}, that of the checkpoint {old}"
    mine_, theirs_ = ({each["name"]: each for each in side if each["kind"] != TRAINED} for side in (made, kept))
    for name in (*theirs_, *(name for name in mine_ if name not in theirs_)):
        ours_, old_ = mine_.get(name), theirs_.get(name)
        if ours_ is None or old_ is None:
            there = ours_ or old_ or {}
            holder, other = ("the module", "that of the checkpoint")[:: 1 if old_ is None else -1]
            return f"{holder} has the {there['kind']} {_what(there)}, {other} has none"
        if (ours_["kind"], ours_["shape"]) != (old_["kind"], old_["shape"]):
            return f"{name} is a {ours_['kind']} {_what(ours_)}, in the checkpoint a {old_['kind']} {_what(old_)}"
        if ours_.get("sha256") != old_.get("sha256"):
            return f"the {ours_['kind']} {name} has other values than in the checkpoint"
    return None


def state_of(module: "nn.Module") -> dict[str, Any]:
    """Return the state dict as arrays of their own types (copies).

    Raises
    ------
    JobError
        There is none, or it holds something else than dense tensors of types that NumPy has.
    """
    import torch

    place = f"problem.module: the state dict of {type(module).__name__}"
    try:
        found = module.state_dict()
    except Exception as error:
        raise JobError(f"{place} raised {type(error).__name__}: {error}") from error
    arrays = {}
    for name, value in found.items():
        dense = isinstance(value, torch.Tensor) and value.layout == torch.strided
        if not dense or value.dtype in (torch.bfloat16, torch.complex64, torch.complex128) or value.is_quantized:
            what = f"{value.dtype} tensor, {value.layout}" if isinstance(value, torch.Tensor) else type(value).__name__
            raise JobError(
                f"{place} has {name}, a {what}; allowed: dense tensors of real numbers, which are what a model file "
                "holds"
            )
        arrays[name] = value.detach().cpu().numpy().copy()
    return arrays


def _what(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['name']} {tuple(tensor['shape'])}"
