"""A state as plain JSON beside numbered arrays, and back, to the last bit.

States are dataclasses of arrays, numbers and further dataclasses (see ``algorithms/base.py``). What is met twice is
stored once and comes back as one object, as the step that updates it in place expects. Classes are named in the text,
and only the package's own are made from it: a checkpoint cannot run code.
"""

import importlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_PACKAGE = "mpi_opt."


class Frozen:
    """What `freeze` collects: ``arrays`` by number, and which objects they were."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def number(self, array: npt.NDArray[Any]) -> int:
        """Return the number of ``array``, the same for the same object."""
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._numbers[id(array)]


def freeze(value: Any, into: Frozen) -> Any:
    """Return ``value`` as JSON values, its arrays collected in ``into``.

    Parameters
    ----------
    value : object
        ``None``, bool, int, float (any, exactly), str, NumPy scalar or array, tuple, list, dict with such keys, and
        dataclasses and named tuples of the package, nested as they like.
    into : Frozen
        Takes the arrays; they are not copied.

    Raises
    ------
    TypeError
        Something else: names it.
    """
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, np.ndarray):
        return {"array": into.number(value)}
    if isinstance(value, np.generic):
        return {"scalar": into.number(np.asarray(value))}
    if isinstance(value, dict):
        return {"dict": [[freeze(key, into), freeze(held, into)] for key, held in value.items()]}
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if name.startswith(_PACKAGE) and is_dataclass(value):
        return {"class": name, "fields": {f.name: freeze(getattr(value, f.name), into) for f in fields(value)}}
    if name.startswith(_PACKAGE) and isinstance(value, tuple):
        return {"class": name, "items": [freeze(held, into) for held in value]}
    if type(value) in (tuple, list):
        return {type(value).__name__: [freeze(held, into) for held in value]}
    raise TypeError(f"a checkpoint cannot hold {name.replace(':', '.')}: {value!r:.80}")


def thaw(text: Any, arrays: Sequence[npt.NDArray[Any]]) -> Any:
    """Return what `freeze` was given.

    Parameters
    ----------
    text : object
        JSON values.
    arrays : sequence of ndarray
        By number; they become part of the value.

    Raises
    ------
    ValueError
        The text is none of `freeze`'s, or names a class that this version does not have.
    """
    if text is None or isinstance(text, bool | str | int):
        return text
    try:
        return _thaw(text, arrays)
    except (AttributeError, ImportError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"no state of this version: {error!r}") from error


def _thaw(text: dict[str, Any], arrays: Sequence[npt.NDArray[Any]]) -> Any:
    if not text:
        raise KeyError("nothing")
    kind, held = next(iter(text.items()))
    if kind == "float":
        return float.fromhex(held)
    if kind == "array":
        return arrays[held]
    if kind == "scalar":
        return arrays[held][()]
    if kind == "dict":
        return {thaw(key, arrays): thaw(value, arrays) for key, value in held}
    if kind in ("tuple", "list"):
        items = [thaw(item, arrays) for item in held]
        return tuple(items) if kind == "tuple" else items
    if kind != "class":
        raise KeyError(kind)
    made = _class(held)
    if issubclass(made, tuple):
        return made(*(thaw(item, arrays) for item in text["items"]))
    if list(text["fields"]) != [field.name for field in fields(made)]:
        raise KeyError(f"{held} has other fields")
    # Not through its constructor: what it would work out anew, such as a memo, is held as it was.
    value = object.__new__(made)
    for name, field in text["fields"].items():
        object.__setattr__(value, name, thaw(field, arrays))
    return value


def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    if not module.startswith(_PACKAGE) or module.endswith("__"):  # __main__ would run when it is imported
        raise KeyError(name)
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    # Defined there, not only imported there: modules lead to everything that they import.
    if not (
        isinstance(found, type) and found.__module__ == module and (is_dataclass(found) or issubclass(found, tuple))
    ):
        raise KeyError(name)
    return found
