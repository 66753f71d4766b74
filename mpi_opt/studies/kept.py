"""What a comparison has found so far, kept in a file for each set, number of nodes and split, to go on from."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mpi_opt.errors import JobError
from mpi_opt.metrics.files import replace_file
from mpi_opt.studies.course import Point


@dataclass(frozen=True, slots=True)
class Setting:
    """A function, dealt to nodes.

    Attributes
    ----------
    name : str
        Of the set.
    nodes : int
    split : str
    rows, features, stored : int
        Size of the set; stored entries.
    optimum : float
        F*.
    smoothness : float
        Largest eigenvalue of the Hessian at 0.
    """

    name: str
    nodes: int
    split: str
    rows: int
    features: int
    stored: int
    optimum: float
    smoothness: float


@dataclass(frozen=True, slots=True)
class Course:
    """A method's way; ``note`` says what was chosen for it."""

    method: str
    note: str
    points: Sequence[Point]


@dataclass(slots=True)
class Kept:
    """The courses of one setting by method, and the file that they are kept in.

    Attributes
    ----------
    setting : Setting
    conditions : mapping
        What the courses follow from besides; others are begun anew.
    path : Path or None
    """

    setting: Setting
    conditions: Mapping[str, Any]
    path: Path | None = None
    courses: dict[str, Course] = field(default_factory=dict)

    def read(self) -> None:
        """Take over what the file has, if it is of the same setting and conditions."""
        if self.path is None:
            return
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = json.loads(self.path.read_bytes())
            if found["setting"] == asdict(self.setting) and found["conditions"] == dict(self.conditions):
                for name, (note, points) in found["courses"].items():
                    self.courses[name] = Course(name, note, [_point(*point) for point in points])

    def add(self, course: Course) -> None:
        """Take a course, and write the file anew.

        Raises
        ------
        JobError
            It cannot be written.
        """
        self.courses[course.method] = course
        if self.path is None:
            return
        content = {
            "setting": asdict(self.setting),
            "conditions": dict(self.conditions),
            "courses": {name: [each.note, each.points] for name, each in self.courses.items()},
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"{self.path.parent}: {error.strerror}") from None
        replace_file(self.path, (json.dumps(content) + "\n").encode(), durable=False)


def _point(objective: float, rounds: int, short: int, sent: int, seconds: Sequence[float]) -> Point:
    return Point(objective, rounds, short, sent, tuple(seconds))
