"""``mpi-opt data ...``: files in, checked, converted, fetched or made."""

from collections.abc import Sequence
from typing import Any

from mpi_opt.commands import check, convert, fetch, generate, info_data
from mpi_opt.commands.arguments import Commands, add_group

_GROUP: Sequence[Any] = (check, convert, info_data, fetch, generate)
"""One file a subcommand: check, convert, info, fetch, generate."""


def add_to(commands: Commands) -> None:
    """Add the group and its subcommands."""
    group = add_group(commands, "data", "look at data files, convert, fetch or make them")
    for member in _GROUP:
        member.add_to(group)
