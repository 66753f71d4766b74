"""Comparing runs: the row chosen, what was spent by then, ratios, groups, and every format to the letter."""

import csv
import io
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stored_runs import store

from mpi_opt import cli
from mpi_opt.comparing import Request, compare
from mpi_opt.errors import DataError, JobError
from mpi_opt.report import formats
from mpi_opt.report.columns import COLUMNS, NAMES, SPREAD
from mpi_opt.report.measures import Measure, between

GOLDEN = Path(__file__).parents[1] / "golden" / "compare"
SLOW = [0.9, 0.6, math.nan, 0.3, 0.25]
FAST = [0.9, 0.3, 0.23, 0.22, 0.215]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs that meet a gap of 0.05 to 0.2, and one that was killed before it did; only to be read."""
    tmp_path = tmp_path_factory.mktemp("runs")
    return [
        store(
            tmp_path / "d-psgd",
            SLOW,
            settings=[
                "algorithm.name=d-psgd",
                "algorithm.sync_every=1",
                *_without("threshold compressor consensus_rate"),
            ],
            a_round=1,
            payload=1000,
            fired=1.0,
            errors=[0.5, 0.3, 0.2, 0.1, 0.05],
        ),
        store(tmp_path / "sparq", FAST, errors=[0.5, 0.2, 0.1, 0.05, 0.05]),
        store(tmp_path / "killed", SLOW[:3], status="running", lengths=[3, 2, 3], errors=[0.5, 0.3, 0.2]),
    ]


def _without(keys):
    return [f"algorithm.{key}=" for key in keys.split()]


def one(run, **asked):
    return compare(Request(runs=[run], reference="0.2", **asked)).records[0]


@pytest.mark.parametrize("name", ["table", "csv", "json", "markdown"])
def test_golden(runs, name):
    write = {"table": formats.as_text, "csv": formats.as_csv, "json": formats.as_json, "markdown": formats.as_markdown}
    made = write[name](compare(Request(runs=runs, target=0.051, reference="0.2")))
    assert made == (GOLDEN / f"target.{name}").read_text()


def test_golden_without_a_target(runs):
    assert formats.as_text(compare(Request(runs=runs))) == (GOLDEN / "last.table").read_text()


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("seeds")
    finals = ([0.9, 0.3, 0.24], [0.9, 0.24, 0.23], [0.9, 0.5, 0.4], [0.9, 0.24, 0.22])
    return [
        store(tmp_path / f"s{seed}", values, settings=[f"seed={seed}"], attributes={"consensus_rate": 0.3 + seed / 100})
        for seed, values in enumerate(finals)
    ]


def test_golden_of_seeds(seeds):
    answer = compare(Request(runs=seeds, target=0.051, reference="0.2", group_seeds=True))
    assert formats.as_text(answer) == (GOLDEN / "seeds.table").read_text()
    (record,) = csv.DictReader(io.StringIO(formats.as_csv(answer)))
    assert set(record) == {*NAMES, *(f"{name}_{end}" for name in SPREAD for end in ("min", "max"))}
    # rounds 8, 4, never, 4: never is beyond all
    assert (record["runs"], record["reached"]) == ("4", "3")
    assert [float(record[f"round{end}"]) for end in ("", "_min")] == [6.0, 4.0]
    assert record["round_max"] == ""
    assert record["seed"] == "0 1 2 3"
    assert record["bytes_ratio"] == "1.0"


def test_groups_are_held_against_the_medians_of_the_baselines_group(seeds, tmp_path):
    far = store(tmp_path / "far", [0.9, 0.4, 0.35], settings=["algorithm.sync_every=10"])
    answer = compare(Request(runs=[far, *seeds], target=0.051, reference="0.2", group_seeds=True))
    # never after 8 rounds; median 6
    assert [record["rounds_ratio"] for record in answer.records] == [None, 8 / 6]
    assert [record["ratio_is_bound"] for record in answer.records] == [False, True]
    answer = compare(Request(runs=[far, *seeds], target=0.3, reference="0.2", group_seeds=True))
    # rounds 4 against 4, 4, 8 and 4
    assert [record["rounds_ratio"] for record in answer.records] == [1.0, 1.0]


def test_what_a_run_has_not_is_not_infinitely_much(seeds):
    (record,) = compare(Request(runs=seeds, target=0.75, reference="0.2", group_seeds=True)).records
    assert (record["reached"], record["round"], record["round_before"]) == (4, 0, None)
    (record,) = compare(Request(runs=seeds, measure="gradient-norm", target=0.3, group_seeds=True)).records
    assert (record["value_average"], record["value_mean"]) == (0.25, None)


def test_seeds_of_which_half_do_not_reach_the_target_have_no_median(seeds):
    (record,) = compare(Request(runs=seeds[:1] + seeds[2:3], target=0.051, reference="0.2", group_seeds=True)).records
    assert record["reached"] == 1
    assert record["round"] is None
    assert record["round_min"] == 8


def test_jobs_that_differ_in_more_than_the_seed_stay_apart(seeds, tmp_path):
    other = store(tmp_path / "h10", [0.9, 0.3, 0.24], settings=["seed=1", "algorithm.sync_every=10"])
    answer = compare(Request(runs=[*seeds, other], group_seeds=True))
    assert [record["runs"] for record in answer.records] == [4, 1]


def test_rates_set_by_hand_stay_apart_but_found_ones_do_not(tmp_path):
    def run(name, rate, seed):
        words = [f"seed={seed}", f"algorithm.consensus_rate={rate}"]
        return store(tmp_path / name, [0.9, 0.3], settings=words, attributes={"consensus_rate": rate})

    by_hand = [run("a0", 0.1, 0), run("b0", 0.2, 0), run("a1", 0.1, 1), run("b1", 0.2, 1)]
    answer = compare(Request(runs=by_hand, group_seeds=True))
    assert [record["seed"] for record in answer.records] == ["0 1", "0 1"]
    assert not any("consensus rates" in note for note in answer.notes)
    found = compare(Request(runs=[run("f0", 0.11, 0), run("f1", 0.12, 1)], group_seeds=True))
    assert [record["runs"] for record in found.records] == [2]
    assert "the group of f0 has consensus rates 0.11, 0.12, as found for each seed" in found.notes


def test_what_was_spent_is_read_at_the_first_row_that_meets_the_target(runs):
    record = one(runs[1], target=0.051)
    # gaps 0.7, 0.1, 0.03: row 2, step 40, round 8; nodes send 100, 200, 300 bytes a round, 2 of headers each
    assert (record["row"], record["step"], record["round"], record["round_before"]) == (2, 40, 8, 4)
    assert (record["payload_bytes"], record["header_bytes"], record["sent_bytes"]) == (4800, 48, 4848)
    assert (record["busiest_bytes"], record["control_bytes"], record["floor_bytes"]) == (2416, 48, 2400.0)
    assert (record["syncs"], record["fired"], record["messages"]) == (24, 12, 24)
    assert (record["seconds"], record["wall_seconds"]) == (4.0, 6.0)
    spent = [record[f"{name}_seconds"] for name in ("compute", "compress", "communicate", "wait")]
    assert spent == [2.0, 1.0, 0.5, 0.25]
    values = [record[f"value_{place}"] for place in ("average", "mean", "worst")]
    assert values == pytest.approx([0.03, 0.04, 0.05])
    # mean and worst are 0.01 and 0.02 more
    assert [record[f"round_to_{place}"] for place in ("average", "mean", "worst")] == [8, 8, 8]
    tight = one(runs[1], target=0.035, place="worst")
    assert (tight["row"], tight["round_to_average"], tight["round_to_mean"], tight["round_to_worst"]) == (4, 8, 12, 16)


def test_not_reached_is_said_with_the_best(runs):
    record = one(runs[0], target=1e-3)
    assert record["reached"] == 0
    assert record["round"] is record["sent_bytes"] is record["seconds"] is record["value_average"] is None
    assert (record["best"], record["best_round"]) == (pytest.approx(0.05), 80)
    assert (record["last_round"], record["last_sent_bytes"], record["last_seconds"]) == (80, 480480, 8.0)
    assert "not reached" in formats.as_text(compare(Request(runs=runs[:1], target=1e-3, reference="0.2")))


def test_a_target_met_at_the_start_has_no_row_before(runs):
    record = one(runs[1], target=1.0)
    assert (record["row"], record["round"], record["round_before"]) == (0, 0, None)


def test_equal_meets(tmp_path):
    run = store(tmp_path / "run", [0.75, 0.5, 0.25])
    assert compare(Request(runs=[run], measure="objective", target=0.5)).records[0]["row"] == 1


def test_ratios_are_against_the_baseline(runs):
    records = compare(Request(runs=runs[:2], target=0.051, reference="0.2")).records
    assert (records[0]["rounds_ratio"], records[0]["bytes_ratio"]) == (1.0, 1.0)
    assert records[1]["rounds_ratio"] == 80 / 8
    assert records[1]["bytes_ratio"] == pytest.approx(480480 / 4848)
    assert records[1]["seconds_ratio"] == 2.0
    other = compare(Request(runs=runs[:2], target=0.051, reference="0.2", baseline="sparq")).records
    assert other[0]["rounds_ratio"] == 8 / 80


def test_a_baseline_that_did_not_get_there_bounds_the_ratio(runs):
    records = compare(Request(runs=runs[:2], target=0.021, reference="0.2")).records
    assert records[0]["rounds_ratio"] is None
    assert records[1]["ratio_is_bound"] is True
    assert records[1]["rounds_ratio"] == 80 / 12
    assert "at least 6.67" in formats.as_text(compare(Request(runs=runs[:2], target=0.021, reference="0.2")))


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.5, 1.0, math.inf, math.nan]), min_size=1, max_size=12),
    st.sampled_from([0.1, 0.2, 0.3, 1.0]),
    st.sampled_from(["gap", "accuracy"]),
)
def test_the_first_that_meets_the_target(values, target, name):
    measure = Measure(name, {})
    found = measure.first(np.array(values), target)
    met = [value >= target if name == "accuracy" else value <= target for value in values]  # false for NaN
    assert found == (met.index(True) if True in met else None)
    finite = [value for value in values if math.isfinite(value)]
    best = measure.best(np.array(values))
    if not finite:
        assert best is None
    else:
        assert values[best] == (max(finite) if name == "accuracy" else min(finite))
        assert values[best] not in values[:best]


@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3), st.floats(0, 1))
def test_between_two_rows(high, low, share):
    high, low = max(high, low), min(high, low)
    target = math.exp(math.log(high) + share * (math.log(low) - math.log(high)))
    found = between(high, low, target)
    assert 0.0 <= found <= 1.0
    if math.log(high / low) > 1e-3:
        assert found == pytest.approx(share, abs=1e-6)


def test_interpolation_lies_between_the_rows(runs):
    estimated = one(runs[1], target=0.051, interpolate=True)
    share = (math.log(0.1) - math.log(0.051)) / (math.log(0.1) - math.log(0.03))
    assert estimated["round"] == pytest.approx(4 + 4 * share)
    assert estimated["payload_bytes"] == pytest.approx(2400 * (1 + share))
    assert estimated["round_to_average"] == estimated["round"]
    assert (estimated["row"], estimated["value_average"]) == (2, pytest.approx(0.03))  # what was measured stays


def test_measures(runs):
    answer = compare(Request(runs=runs[1:2], measure="accuracy", target=0.9, place="worst"))
    assert answer.records[0]["row"] == 3  # worst errors: 1, 0.4, 0.2, 0.1
    assert answer.records[0]["value_average"] == pytest.approx(0.95)
    assert compare(Request(runs=runs[1:2], measure="error", target=0.1)).records[0]["row"] == 2
    record = compare(Request(runs=runs[1:2], measure="gradient-norm", target=0.2)).records[0]
    assert (record["row"], record["value_mean"], record["round_to_worst"]) == (2, None, None)


def test_a_run_is_the_reference(runs, tmp_path):
    answer = compare(Request(runs=runs[:2], target=0.1, reference=str(runs[1])))
    assert answer.records[0]["reference"] == 0.215
    assert "F* = 0.215, the least objective of sparq: the optimum is at most that" in answer.heading[1]
    best = store(tmp_path / "best", [0.9, 0.1])
    answer = compare(Request(runs=runs[:2], target=0.2, reference="0.22"))
    assert "sparq comes to 0.005 below the reference, which therefore is no optimum" in answer.notes
    assert compare(Request(runs=runs[:2], target=0.2, reference=str(best))).records[0]["row"] == 3


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"target": 0.0}, "--target 0: allowed for the measure gap: a number > 0"),
        ({"target": -1.0}, "--target -1"),
        ({"target": 95.0, "measure": "accuracy"}, "--target 95: .* accuracy: a share from 0 to 1"),
        ({"target": 0.1, "measure": "gradient-norm", "place": "mean"}, "--at mean: not recorded .* allowed: average"),
        ({"target": 0.1, "reference": "nowhere"}, "--reference nowhere: neither a number nor a run"),
        ({"target": 0.1, "reference": "nan"}, "--reference nan: allowed: a finite number"),
        ({"baseline": "other"}, "--baseline other: no run is called so; allowed: d-psgd, sparq, killed"),
    ],
)
def test_what_has_no_meaning_is_refused(runs, asked, words):
    with pytest.raises(JobError, match=words):
        compare(Request(runs=runs, **{"reference": "0.2", **asked}))


def test_what_a_run_does_not_hold(runs, tmp_path):
    with pytest.raises(DataError, match="blind: the run has no test rows with classes, so no error to compare"):
        compare(Request(runs=[runs[0], store(tmp_path / "blind", FAST)], measure="error", target=0.1))
    with pytest.raises(DataError, match="young: no evaluation on disk yet"):
        compare(Request(runs=[store(tmp_path / "young", FAST, lengths=[0, 0, 0], status="running")]))
    strange = store(tmp_path / "strange", FAST, attributes={"job": "colour = 1"})
    with pytest.raises(DataError, match="strange: its job cannot be read.*colour"):
        compare(Request(runs=[strange]))


def test_gaps_end_where_nodes_are_lost(tmp_path):
    run = store(tmp_path / "run", FAST, alive=[3, 3, 2, 2, 2])
    record = compare(Request(runs=[run], target=0.05, reference="0.2")).records[0]
    assert (record["reached"], record["best"]) == (0, pytest.approx(0.1))
    assert compare(Request(runs=[run], measure="objective", target=0.25)).records[0]["row"] == 2


def test_short_rounds_are_shown_where_there_are_any(runs, tmp_path):
    assert "short" not in formats.as_text(compare(Request(runs=runs)))
    shown = formats.as_text(compare(Request(runs=[store(tmp_path / "run", FAST, short=3)])))
    assert shown.splitlines()[2].split()[4:6] == ["rounds", "short"]
    assert shown.splitlines()[4].split()[4:6] == ["16", "12"]


def test_runs_called_alike_are_told_by_their_paths(tmp_path):
    pair = [store(tmp_path / name / "run", FAST) for name in "ab"]
    assert [record["run"] for record in compare(Request(runs=pair)).records] == [str(path) for path in pair]


def test_the_command(runs, tmp_path, capsys):
    words = [str(run) for run in runs]
    assert cli.main(["compare", *words, "--target", "0.051", "--reference", "0.2"]) == 0
    assert capsys.readouterr().out == (GOLDEN / "target.table").read_text()
    out = tmp_path / "made.json"
    made = ["compare", *words, "--target", "0.051", "--reference", "0.2", "--format", "json", "--out", str(out)]
    assert cli.main(made) == 0
    assert json.loads(out.read_text())["runs"][1]["round"] == 8
    assert capsys.readouterr().out == ""
    assert cli.main(["compare", str(tmp_path / "nowhere")]) == 2
    assert cli.main(["compare", words[0], "--target", "much"]) == 2
    assert cli.main(["compare", words[0], "--measure", "speed"]) == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(runs[0] / "job.toml", empty)
    assert cli.main(["compare", str(empty)]) == 3
    errors = capsys.readouterr().err.splitlines()
    assert all(line.startswith("mpi-opt: error: ") for line in errors)
    assert len(errors) == 4


def test_the_page_lists_every_column():
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ((?:[^|]|\\\|)*) \|$", page, re.MULTILINE)
    assert [(name, unit.strip(), meaning.strip()) for name, unit, meaning in listed] == [
        (column.name, column.unit, column.meaning.replace("|", "\\|")) for column in COLUMNS
    ]
