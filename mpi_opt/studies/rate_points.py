"""Errors by ground, method, nodes, seed and steps, kept in a file line by line; and what is asked of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mpi_opt.errors import JobError
from mpi_opt.studies.rate_runs import EPS, GROWING, HELD, LOOKS, PLAIN, SHARE, H, Point
from mpi_opt.types import Vector

FILE = "rates.jsonl"
_SETTINGS = {"H": H, "share": SHARE, "eps": EPS, "growing": GROWING, "held": HELD, "looks": LOOKS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What is measured on one ground.

    Attributes
    ----------
    ground : str
        Of `rate_grounds`.
    rate : float
        The theorem's r in ``error ~ (n T)^-r``.
    methods : tuple of str
        Of `rate_runs`.
    nodes, horizons : tuple of int
        n and T.
    slope_nodes : tuple of int or None
        The n at which every T is run, others at the largest alone; ``None`` for all.
    factor : float or None
        c in ``eta = c sqrt(n / T)``, a run for each T; ``None`` where one run with falling steps serves all T.
    graph : str
    """

    ground: str
    rate: float
    methods: tuple[str, ...]
    nodes: tuple[int, ...]
    horizons: tuple[int, ...]
    slope_nodes: tuple[int, ...] | None = None
    factor: float | None = None
    graph: str = "ring"

    def horizons_of(self, nodes: int) -> tuple[int, ...]:
        """Return the T that are run with so many nodes."""
        every = self.slope_nodes is None or nodes in self.slope_nodes
        return self.horizons if every else self.horizons[-1:]


class Points:
    """What has been measured, in memory and, where a folder is given, in a file there.

    Raises
    ------
    JobError
        The file cannot be read or written, or holds runs with other settings.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._points: dict[tuple[str, str, str, int, int, int], Point] = {}
        self._path = None if folder is None else folder / FILE
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                self._read(self._path)
            else:
                self._path.write_text(json.dumps(_SETTINGS) + "\n", encoding="utf-8")
        except (OSError, ValueError, TypeError) as error:
            raise JobError(f"{self._path}: {error}; allowed: a file of this command, or none") from None

    def _read(self, path: Path) -> None:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(head) != _SETTINGS:
            raise JobError(f"{path}:1: runs with other settings, {head}; allowed: {json.dumps(_SETTINGS)}")
        self._take([Point(**json.loads(line)) for line in lines])

    def _take(self, points: Sequence[Point]) -> None:
        for p in points:
            self._points[p.ground, p.method, p.graph, p.nodes, p.seed, p.steps] = p

    def add(self, points: Sequence[Point]) -> None:
        """Take in the points of one run."""
        self._take(points)
        if self._path is not None:
            text = "".join(json.dumps(asdict(point)) + "\n" for point in points)
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:
                raise JobError(f"{self._path}: {error.strerror}") from None

    def has(self, ground: str, method: str, graph: str, nodes: int, seed: int, steps: int) -> bool:
        """Return whether this has been measured."""
        return (ground, method, graph, nodes, seed, steps) in self._points

    def of_seeds(self, seeds: int) -> "Measured":
        """Return the points of the first so many seeds."""
        return Measured(tuple(point for point in self._points.values() if point.seed < seeds))


class Measured:
    """Points to be looked at by seed."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = tuple(points)
        self.seeds = sorted({point.seed for point in points})

    def get(self, series: Series, method: str, nodes: int, steps: int) -> list[Point]:
        """Return one point a seed, by seed; with one node those of the plain method, which all are there."""
        method = PLAIN if nodes == 1 else method
        wanted = (series.ground, method, series.graph, nodes, steps)
        found = [p for p in self.points if (p.ground, p.method, p.graph, p.nodes, p.steps) == wanted]
        return sorted(found, key=lambda point: point.seed)

    def errors(self, series: Series, method: str, nodes: int, steps: int, *, own: bool = False) -> Vector:
        """Return one error a seed, shape ``(seeds,)``: of the average of the nodes, or of a node's own model."""
        return np.array([p.own if own else p.error for p in self.get(series, method, nodes, steps)])
