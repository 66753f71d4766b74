"""A module of PyTorch out of a model file."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from mpi_opt.errors import DataError, JobError
from mpi_opt.model import Model, load_model
from mpi_opt.problems.torch.factory import BUILTIN, Place, call_factory, find_factory, module_seed, need_torch

if TYPE_CHECKING:
    import torch

Maker: TypeAlias = Union["torch.nn.Module", Callable[..., "torch.nn.Module"], str, None]
"""A module to be filled; or its factory; or how a job would name that; ``None``: as the file says."""


def load_module(path: str | os.PathLike[str], module: Maker = None) -> "torch.nn.Module":
    """Return the module of a model file, with the parameters and buffers that are stored, ready to evaluate.

    Parameters
    ----------
    path : path
        The model file.
    module : Module, callable or str, optional
        A module of the same structure, which is filled and returned; or the factory, called as the job called it; or
        "package.module:factory", "file.py:factory" (relative to the current folder). Needed where the job named a
        factory of its own: a model file does not run code unasked.

    Raises
    ------
    DataError
        See `model.load_model`; a linear model; a factory that must be named; or tensors that do not fit.
    JobError
        PyTorch is missing, or the factory fails.
    """
    return restore(load_model(path), module, str(path))


def restore(model: Model, module: Maker = None, name: str = "the model") -> "torch.nn.Module":
    """Return the module of a model; see `load_module`. ``name`` is for errors."""
    if model.module is None or model.state is None:
        raise DataError(f"{name}: is a linear model; a module is that of one trained with problem.module")
    need_torch(f"{name}: its module")
    import torch

    from mpi_opt.problems.torch.taking import unshare

    made, word = model.module, model.module["name"]
    if module is None and word not in BUILTIN:
        raise DataError(
            f"{name}: its module is made by {word!r}, which is not run unasked; name it: --module {word}, in programs "
            f"module={word!r}"
        )
    if not isinstance(module, torch.nn.Module):
        chosen, place = word if module is None else module, Place(f"{name}: module", f"{name}: module options")
        factory: Any = find_factory(chosen, Path.cwd(), place) if isinstance(chosen, str) else chosen
        called = chosen if isinstance(chosen, str) else getattr(chosen, "__name__", repr(chosen))
        shape, outputs = tuple(made["shape"]), model.columns
        try:
            # The state replaces parameters and buffers, but not what else a factory draws: that follows from this.
            seed = _seed(model, name)
            module = call_factory(
                factory, called, made["options"], shape=shape, outputs=outputs, seed=seed, place=place
            )
        except JobError as error:
            said = str(error)  # of the package's own modules about their options: as a job has them
            raise JobError(said if said.startswith(name) else f"{name}: {said}") from error
    module = module.to(getattr(torch, made["dtype"]))
    unshare(module)
    # Copies, as what is stored is not to be written to.
    state = {key: torch.from_numpy(values.copy()) for key, values in model.state.items()}
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        said = " ".join(str(error).split())
        raise DataError(f"{name}: does not fit {type(module).__name__}: {said}") from None
    return module.eval()


def _seed(model: Model, name: str) -> int:
    """Return what the factory's random numbers started from in the run that the model comes from."""
    try:
        seed = tomllib.loads(model.job).get("seed", 0)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}: the job in it is no TOML: {error}") from error
    if type(seed) is not int or seed < 0:
        raise DataError(f"{name}: the job in it has seed = {seed!r}; allowed are integers from 0")
    return module_seed(seed)
