"""What the tables of a job file are made of: the base of all tables, and limits with the words an error uses."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tables."""


def says(text: str, **limits: Any) -> Meta:
    """Return limits on a value together with the words an error uses for them."""
    return Meta(description=text, **limits)


Count: TypeAlias = Annotated[int, says("an integer >= 1", ge=1)]
Positive: TypeAlias = Annotated[float, says("a number > 0", gt=0)]
NotNegative: TypeAlias = Annotated[float, says("a number >= 0", ge=0)]
Fraction: TypeAlias = Annotated[float, says("a number between 0 and 1, both excluded", gt=0, lt=1)]
