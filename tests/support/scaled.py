"""The stored figures of a scaling test as its report: `tests/golden/scale/figures.json`."""

import json
from dataclasses import replace
from pathlib import Path

from mpi_opt.report.scaling import Forecast, Predicted, Reached, ScaleReport
from mpi_opt.scaling.merit import Sample, merits
from mpi_opt.scaling.points import Plan

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "scale"


def stored_report(**changes):
    """Return it, with the attributes changed that are given."""
    values = json.loads((GOLDEN / "figures.json").read_text())
    plan = Plan(**values["plan"] | {"ranks": tuple(values["plan"]["ranks"])})
    samples = [Sample(**each | {"shares": tuple(each["shares"])}) for each in values["samples"]]
    report = ScaleReport(
        name="a9a",
        method="sparq-sgd",
        plan=plan,
        merits=merits(plan, samples, set(values["crowded"])),
        target="gap <= 0.001 at the averaged model\nF* = 0.32, as given",
        reached=tuple(Reached(**each) for each in values["reached"]),
        forecasts=tuple(
            Forecast(**each | {"points": tuple(Predicted(*point) for point in each["points"])})
            for each in values["forecasts"]
        ),
        failures=("4 ranks, repeat 2: exit code 6: rank 3 of 4: lost", "8 ranks, repeat 2: not run"),
        notes=("the model takes a step's work from a run on 2 ranks",),
    )
    return replace(report, **changes)
