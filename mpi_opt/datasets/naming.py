"""Names of columns, and words that labels stand for: whether two sets, or a model and a set, mean the same by them."""

from collections.abc import Sequence

from mpi_opt.datasets.tablelayout import cut
from mpi_opt.errors import DataError

_SHOWN = 12


def check_names(name: str, names: Sequence[str] | None, wanted: Sequence[str] | None, where: str) -> None:
    """Refuse a set whose features are called otherwise than those it is to fit, or stand in another order.

    Where one of the two has more features, which is for others to judge, those that both have are compared.

    Parameters
    ----------
    name : str
        The set's.
    names, wanted : sequence of str or None
        Of its features, and what they should be; ``None`` is not known, and nothing is compared.
    where : str
        What has the names that are wanted: "the model", "the train set a.csv".

    Raises
    ------
    DataError
        Names the first feature that differs, and both its names.
    """
    if names is None or wanted is None:
        return
    for column, (found, other) in enumerate(zip(names, wanted, strict=False)):
        if found != other:
            raise DataError(
                f"{name}: feature {column} (counted from 0) is called {cut(found)}, but {cut(other)} in {where}; "
                "allowed are the same columns in the same order"
            )


def check_words(name: str, words: Sequence[str] | None, wanted: Sequence[str] | None, where: str) -> None:
    """Refuse a set whose labels 0, 1, ... stand for other words than those of ``where``; as for `check_names`.

    Raises
    ------
    DataError
        Names the first number that differs, and both its words.
    """
    if words is None or wanted is None:
        return
    for number, (found, other) in enumerate(zip(words, wanted, strict=False)):
        if found != other:
            raise DataError(
                f"{name}: its label {number} stands for {cut(found)}, but for {cut(other)} in {where}; "
                "allowed are the same words in the same order"
            )
