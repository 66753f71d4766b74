"""Items of a data set of PyTorch: fetched one by one, and in words where they do not fit together."""

from collections.abc import Sequence
from typing import Any

from mpi_opt.errors import DataError


def item_of(dataset: Any, number: int) -> Any:
    """Return one item.

    Raises
    ------
    DataError
        The data set raises: names the row and the cause.
    """
    try:
        return dataset[number]
    except (Exception, SystemExit) as error:  # sys.exit(0) would end a rank as if all was well
        raise DataError(
            f"row {number} of the data set: {type(dataset).__name__} raised {type(error).__name__}: {error}"
        ) from error


def kind_of(item: Any) -> str:
    """Return in words what an item is: what its parts are, and of which shape."""
    if isinstance(item, list | tuple):
        return f"({', '.join(map(kind_of, item))})" if len(item) < 5 else f"{type(item).__name__} of {len(item)}"
    shape = getattr(item, "shape", None)
    return type(item).__name__ if shape is None else f"{type(item).__name__} of shape {tuple(shape)}"


def first_odd(items: Sequence[Any], numbers: Sequence[int], usual: str) -> str:
    """Return in words the first of these rows that is not as usual, else the first of all."""
    odd = next((place for place, item in enumerate(items) if kind_of(item) != usual), 0)
    return f"row {numbers[odd]}: {kind_of(items[odd])}"
