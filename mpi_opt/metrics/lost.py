"""Which nodes were lost on the way: ``metrics/lost.json``, beside the files that they leave."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mpi_opt.errors import DataError
from mpi_opt.metrics.files import replace_file

_NAME = "lost.json"


class Lost(NamedTuple):
    """A node that died.

    Attributes
    ----------
    node : int
        Its number at the start, which its metrics file has.
    step : int
        The step that the others went on from; -1 where training was over.
    host : str
        Where it ran.
    time : str
        When it was noticed, ISO 8601, UTC.
    """

    node: int
    step: int
    host: str
    time: str


def write_lost(folder: Path, lost: Sequence[Lost]) -> None:
    """Write who was lost into a run's folder; none takes the file away.

    Raises
    ------
    JobError
        It cannot be written.
    """
    place = folder / "metrics" / _NAME
    if lost:
        replace_file(place, (json.dumps([each._asdict() for each in lost], indent=1) + "\n").encode())
    else:
        place.unlink(missing_ok=True)


def read_lost(folder: Path) -> tuple[Lost, ...]:
    """Return the nodes that a run has lost, by number.

    Raises
    ------
    DataError
        The file is damaged.
    """
    place = folder / "metrics" / _NAME
    try:
        return tuple(sorted(Lost(**entry) for entry in json.loads(place.read_bytes())))
    except FileNotFoundError:
        return ()
    except (OSError, TypeError, ValueError) as error:
        raise DataError(f"{place}: damaged: {error}") from error


def told(lost: Sequence[Lost]) -> str:
    """Return in words who was lost when; empty where nobody was."""
    return "; ".join(
        f"node {each.node} lost " + (f"at step {each.step}" if each.step >= 0 else "after training") for each in lost
    )
