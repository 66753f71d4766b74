"""The tables of a scaling test: golden files out of stored figures, and what programs read back."""

import csv
import io
import json
import os
from dataclasses import replace

import pytest
from support.scaled import GOLDEN, stored_report

from mpi_opt.report.scaletable import as_csv, as_json, as_markdown, as_text
from mpi_opt.report.scaling import as_records
from mpi_opt.scaling.merit import merits
from mpi_opt.scaling.points import Plan

FORMS = {"table": as_text, "markdown": as_markdown, "csv": as_csv, "json": as_json}


@pytest.mark.parametrize("form", FORMS)
def test_tables_are_those_of_the_golden_files(form):
    path, text = GOLDEN / f"strong.{form}", FORMS[form](stored_report())
    if os.environ.get("MPI_OPT_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"if the change is meant, write {path.name} anew with MPI_OPT_WRITE_GOLDEN=1"


def test_csv_and_json_hold_the_same_numbers():
    report = stored_report()
    rows = list(csv.DictReader(io.StringIO(as_csv(report))))
    values = json.loads(as_json(report))
    assert [row["ranks"] for row in rows] == ["1", "2", "4", "8"]
    for row, record in zip(rows, values["ranks"], strict=True):
        assert row.keys() == record.keys()
        for name, value in record.items():
            read = row[name]
            assert (read == "") if value is None or value == "" else (read == value or float(read) == value)
    assert values["ranks"][2]["marks"] == "noisy"
    assert values["ranks"][3]["marks"] == "oversubscribed one-run"
    assert values["model"][1]["points"][-1]["ranks"] == 1024
    assert not values["model"][1]["measured_here"]
    assert values["failures"] == list(report.failures)


def test_weak_scaling_says_its_rows_and_its_own_fraction():
    plan = Plan(mode="weak", ranks=(1, 2), repeats=1, rows=100)
    report = stored_report(plan=plan, merits=stored_report().merits[:2], target="", reached=(), forecasts=())
    text = as_text(report)
    assert text.startswith("a9a: weak scaling of sparq-sgd, 100 rows a rank, 1 run each, warm-up left out\n")
    assert "serial (Gustafson)" in text
    assert "Karp" not in text
    assert "model, " not in text
    assert "apart from that" not in text
    assert [record["rows"] for record in as_records(report)] == [100, 200]


def test_points_without_figures_are_told_and_break_nothing():
    plan = stored_report().plan
    report = replace(stored_report(), merits=merits(plan, []), reached=(), target="", forecasts=())
    lines = as_text(report).splitlines()
    assert sum(line.endswith("no figures") and " 0 of 3 " in line for line in lines) == 4
    assert "failed: 4 ranks, repeat 2: exit code 6: rank 3 of 4: lost" in lines
    assert as_csv(report).splitlines()[1].startswith("1,,3,0,,,,")
    assert json.loads(as_json(report))["ranks"][0]["step_seconds"] is None


def test_a_marked_measurement_is_marked_beside_the_model_too():
    model = as_text(stored_report()).split("model, seconds a step")[1]
    rows = {line.split()[0]: line for line in model.splitlines() if line[:1].isdigit()}
    assert "4.6 ms " in rows["2"]
    assert "4.4 ms (-4%)" in rows["2"]
    assert "2.5 ms" in rows["4"]
    assert "%" not in rows["4"]  # no percentage against a point that is marked
    assert "3.3 ms*" in rows["4"]
    assert "11 ms*" in rows["8"]
    assert rows["1024"].split()[1:3] == ["-", "-"]
    assert "32" not in rows  # the table leaves some out, files have all
