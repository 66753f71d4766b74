"""The part of a model file that holds a module: its state dict by name, and how the module is made."""

import json
import math
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mpi_opt.types import Vector

GROUP = "state"
"""The HDF5 group that holds one dataset for each parameter and buffer."""

State: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Parameters and buffers by their names in the module, in its order, each of its own type and shape."""

_KINDS = "fiub"
_WIDEST = 8
"""Bytes of a number: PyTorch has no wider ones."""

_KEYS = {"name": str, "options": dict, "shape": list, "dtype": str, "parameters": list}


class Digest(Protocol):
    """A hash under way."""

    def update(self, data: Any, /) -> None:
        """Take further bytes."""
        ...


def write_state(file: Any, state: State) -> None:
    """Write the group into an open HDF5 file."""
    group = file.create_group(GROUP, track_order=True)
    for name, values in state.items():
        data = group.create_dataset(_key(name), data=values)
        data.attrs["name"] = name
        data.attrs["unit"] = "1"
        data.attrs["description"] = "Parameter or buffer of the module, as PyTorch's state_dict has it"


def read_state(group: Any, size: int) -> State:
    """Return what `write_state` wrote.

    Parameters
    ----------
    group : h5py.Group
    size : int
        Bytes of the file: no array is larger.

    Raises
    ------
    ValueError
        An array is of another kind, or claims more than the file has.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for key in group:
        data = group[key]
        known = data.dtype.kind in _KINDS and data.dtype.itemsize <= _WIDEST
        if not known or data.nbytes > size or _key(str(data.attrs["name"])) != key:
            raise ValueError(f"{data.name} is {data.dtype} of shape {data.shape}")
        # [()] gives a scalar for no dimensions
        values = np.array(data[()], dtype=data.dtype.newbyteorder("="))
        values.flags.writeable = False
        found[str(data.attrs["name"])] = values
    return found


def _key(name: str) -> str:
    """Return a tensor's name without the sign that parts HDF5's groups."""
    return name.replace("%", "%25").replace("/", "%2F")


def hash_state(digest: Digest, state: State) -> None:
    """Add the state to a hash: names in order, types, shapes, values as little-endian bytes."""
    for name, values in state.items():
        digest.update(f"{GROUP} {name} {values.dtype.name} {values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes())


def flat(state: State, module: str) -> Vector:
    """Return the trained parameters side by side, as the runs' flat vector has them, float64 and read-only.

    Parameters
    ----------
    state : mapping
    module : str
        The field ``module`` of the file, JSON text.
    """
    names = json.loads(module)["parameters"]
    result = np.concatenate([state[name].reshape(-1).astype(np.float64) for name in names])
    result.flags.writeable = False
    return result


def misfit_module(module: str, state: State, features: int) -> str:
    """Say what is wrong with a module's part of a model; an empty text if nothing is."""
    found = json.loads(module)
    if not isinstance(found, dict) or found.keys() != _KEYS.keys():
        return f"module: needed is a mapping with {', '.join(_KEYS)}"
    for key, kind in _KEYS.items():
        if not isinstance(found[key], kind):
            return f"module.{key} = {found[key]!r}: needed is a {kind.__name__}"
    if not all(type(side) is int and side >= 1 for side in found["shape"]) or math.prod(found["shape"]) != features:
        return f"module.shape = {found['shape']}: {features} features need integers of that product"
    if found["dtype"] not in ("float32", "float64"):
        return f"module.dtype = {found['dtype']!r}: allowed are float32, float64"
    names = found["parameters"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return "module.parameters: needed are different texts"
    missing = [name for name in names if name not in state]
    if missing or not names:
        return f"module.parameters: {missing[0] if missing else 'none'}: needed are tensors of the state"
    odd = next((name for name in names if state[name].dtype.name != found["dtype"]), None)
    if odd is not None:
        return f"module.parameters: {odd} is {state[odd].dtype.name}; needed is {found['dtype']}, as module.dtype says"
    if not all(np.isfinite(state[name]).all() for name in names):
        return "weights that are not finite"
    return ""
