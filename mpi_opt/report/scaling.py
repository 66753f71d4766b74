"""A scaling test's answer: figures a number of ranks, what a target took, what a model says, and what to mind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpi_opt.scaling.merit import PHASES, Merit
from mpi_opt.scaling.points import Plan

SCHEMA = 1
"""Raised when a name in CSV or JSON changes its meaning or is taken away; a new one leaves it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a number of ranks spent until the target was met: medians over the runs that met it.

    Attributes
    ----------
    ranks, runs, met : int
    step, round, sent : float or None
        Steps, rounds, and bytes of all nodes together; ``None`` where no run met the target.
    seconds, least, most : float or None
        Run clock from the start, warm-up included, and its range.
    """

    ranks: int
    runs: int
    met: int
    step: float | None = None
    round: float | None = None
    sent: float | None = None
    seconds: float | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the model says of a step: ``seconds`` of it by phase, their sum, and the speed-up that follows."""

    ranks: int
    seconds: float
    compute: float
    compress: float
    pack: float
    network: float
    speedup: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A network's predictions.

    Attributes
    ----------
    network : str
        Its name.
    words : str
        Its figures.
    measured : bool
        Whether the network is the one that the points ran on: then prediction and measurement are to agree.
    points : tuple of Predicted
        Ascending in ranks.
    """

    network: str
    words: str
    measured: bool
    points: tuple[Predicted, ...]

    def at(self, ranks: int) -> Predicted | None:
        """Return what is predicted for this number of ranks."""
        return next((point for point in self.points if point.ranks == ranks), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleReport:
    """A scaling test as far as it is on disk.

    Attributes
    ----------
    name, method : str
    plan : Plan
    merits : tuple of Merit
    target : str
        What was to be reached, in words of a line or two; empty without a target.
    reached : tuple of Reached
    forecasts : tuple of Forecast
    failures : tuple of str
        A line for each point without figures, and why.
    notes : tuple of str
    """

    name: str
    method: str
    plan: Plan
    merits: tuple[Merit, ...]
    target: str = ""
    reached: tuple[Reached, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def own_forecast(self) -> Forecast | None:
        """What is predicted for the network that the points ran on; ``None`` where that was not measured."""
        return next((forecast for forecast in self.forecasts if forecast.measured), None)


def as_records(report: ScaleReport) -> list[dict[str, Any]]:
    """Return one flat record for each number of ranks: the columns of CSV, and ``ranks`` of JSON."""
    own = report.own_forecast
    reached = {each.ranks: each for each in report.reached}
    return [
        {
            "ranks": merit.ranks,
            "rows": report.plan.rows_on(merit.ranks),
            "runs_planned": report.plan.repeats,
            "runs": merit.runs,
            "step_seconds": merit.step,
            "step_seconds_min": merit.least,
            "step_seconds_max": merit.most,
            "spread": merit.spread,
            "speedup": merit.speedup,
            "efficiency": merit.efficiency,
            "serial_fraction": merit.serial,
            **{f"{name}_share": None if merit.shares is None else merit.shares[k] for k, name in enumerate(PHASES)},
            "sent_bytes_step_node": merit.sent,
            "marks": " ".join(word.replace(" ", "-") for word in merit.marks),
            "predicted_step_seconds": None if own is None else _seconds(own, merit.ranks),
            **_target(reached.get(merit.ranks)),
        }
        for merit in report.merits
    ]


def as_mapping(report: ScaleReport) -> Mapping[str, object]:
    """Return the report as JSON's values."""
    return {
        "schema": SCHEMA,
        "name": report.name,
        "method": report.method,
        "mode": report.plan.mode,
        "repeats": report.plan.repeats,
        "rows_per_rank": report.plan.rows,
        "target": report.target.replace("\n", "; ") or None,
        "ranks": as_records(report),
        "model": [
            {
                "network": forecast.network,
                "figures": forecast.words,
                "measured_here": forecast.measured,
                "points": [
                    {
                        "ranks": point.ranks,
                        "step_seconds": point.seconds,
                        "compute_seconds": point.compute,
                        "compress_seconds": point.compress,
                        "pack_seconds": point.pack,
                        "network_seconds": point.network,
                        "speedup": point.speedup,
                    }
                    for point in forecast.points
                ],
            }
            for forecast in report.forecasts
        ],
        "failures": list(report.failures),
        "notes": list(report.notes),
    }


def _seconds(forecast: Forecast, ranks: int) -> float | None:
    point = forecast.at(ranks)
    return None if point is None else point.seconds


def _target(reached: Reached | None) -> dict[str, Any]:
    names = ("step", "round", "sent", "seconds", "least", "most")
    columns = (
        "target_step",
        "target_round",
        "target_sent_bytes",
        "target_seconds",
        "target_seconds_min",
        "target_seconds_max",
    )
    found: dict[str, Any] = {"target_met": None if reached is None else reached.met}
    for column, name in zip(columns, names, strict=True):
        found[column] = None if reached is None else getattr(reached, name)
    return found
