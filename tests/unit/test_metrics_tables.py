"""Metrics as tables and as one file: what is written is what the nodes' files hold."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.rankfiles import write_killed, write_rank

from mpi_opt import cli
from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.export import stream_json, write_table
from mpi_opt.metrics.lost import Lost, write_lost
from mpi_opt.metrics.read import join, merge, read_joined, read_rank
from mpi_opt.metrics.tables import table

COLUMNS = {"series": schema.SERIES, "syncs": schema.SYNCS}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    write_rank(folder, 0, 3, 5)
    write_killed(folder, 1, 3, 5)
    write_rank(folder, 2, 3, 4, syncs=6)
    return folder


@pytest.fixture
def run(tmp_path, planted):
    """Three nodes, of which the last has fewer rows than the others and one was killed."""
    return Path(shutil.copytree(planted, tmp_path / "run"))


def read_csv(path):
    rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}


def numbers(texts, kind):
    return (
        np.array([float(text) if text else np.nan for text in texts]) if kind == "f8" else np.array(texts, dtype=kind)
    )


def read_parquet(path):
    from pyarrow import parquet

    found = parquet.read_table(path)
    return {name: found[name].to_numpy() for name in found.column_names}


def read_json(path):
    rows = json.loads(path.read_text())["rows"]
    return {name: [np.nan if row[name] is None else row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("kind", ["series", "syncs"])
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_table_holds_every_row_of_every_node_to_the_last_bit(run, tmp_path, form, kind):
    out = tmp_path / f"out.{form}"
    ranks = [read_rank(run / "metrics" / f"rank_{node:05d}.h5") for node in range(3)]
    lengths = [len(getattr(rank, kind)["step"]) for rank in ranks]
    assert write_table(table([run], kind), form, out) == sum(lengths)
    read = {"csv": read_csv, "json": read_json, "parquet": read_parquet}[form](out)
    assert list(read["run"]) == ["run"] * sum(lengths)
    np.testing.assert_array_equal(np.array(read["node"], dtype=int), np.repeat(range(3), lengths))
    own = "evaluation" if kind == "series" else "sync"
    np.testing.assert_array_equal(np.array(read[own], dtype=int), np.concatenate([np.arange(n) for n in lengths]))
    for column in COLUMNS[kind]:
        expected = np.concatenate([getattr(rank, kind)[column.name] for rank in ranks])
        found = read[column.name]
        found = numbers(found, column.kind) if form == "csv" else np.array(found)
        np.testing.assert_array_equal(found, expected, err_msg=column.name)
        if form == "parquet":
            assert found.dtype == expected.dtype
    assert {path.name for path in tmp_path.iterdir()} == {"run", out.name} | (
        {f"{out.name}.about.json"} & {"out.csv.about.json"}
    )


def test_units_and_the_runs_attributes_go_with_every_form(run, tmp_path):
    from pyarrow import parquet

    found = table([run], "series")
    for form in ("csv", "json", "parquet"):
        write_table(found, form, tmp_path / f"out.{form}")
    beside = json.loads((tmp_path / "out.csv.about.json").read_text())
    within = json.loads((tmp_path / "out.json").read_text())
    del within["rows"]
    columns = parquet.read_schema(tmp_path / "out.parquet")
    assert beside == within == json.loads(columns.metadata[b"mpi_opt"])
    assert beside["schema_version"] == schema.VERSION
    assert [column["name"] for column in beside["columns"]][:3] == ["run", "node", "evaluation"]
    units = {column["name"]: column["unit"] for column in beside["columns"]}
    assert units["wait_seconds"] == "s" == columns.field("wait_seconds").metadata[b"unit"].decode()
    (facts,) = beside["runs"]
    assert (facts["run"], facts["seed"], facts["nodes"], facts["spectral_gap"]) == ("run", 7, 3, None)
    assert not {"node", "host"} & facts.keys()


def test_the_last_row_of_each_node_with_how_it_ended(run, tmp_path):
    write_rank(run, 2, 3, 0, syncs=0)
    write_table(table([run], "final"), "csv", tmp_path / "out.csv")
    read = read_csv(tmp_path / "out.csv")
    assert read["status"] == ["done: all", "running", "done: all"]
    assert read["host"] == ["host0", "host1", "host2"]
    assert read["evaluations"] == ["5", "5", "0"]
    assert read["step"] == ["40", "40", "-1"]
    assert read["objective_average"] == ["0.2", "0.2", ""]


def test_several_runs_some_nodes_and_columns_that_all_have(run, tmp_path):
    other = tmp_path / "other"
    for node in range(3):
        write_rank(other, node, 3, 2)
    import h5py

    for node in range(3):
        with h5py.File(other / "metrics" / f"rank_{node:05d}.h5", "r+") as file:
            del file["series/nodes_alive"]
    out = io.StringIO()
    assert stream_json(table([run, other], "series", {0, 2}), out) == 5 + 4 + 2 + 2
    read = json.loads(out.getvalue())
    assert "nodes_alive" not in read["rows"][0]
    assert "step" in read["rows"][0]
    assert [(row["run"], row["node"]) for row in read["rows"][8:]] == [("run", 2)] + [("other", 0)] * 2 + [
        ("other", 2)
    ] * 2
    with pytest.raises(JobError, match="given twice"):
        table([run, run], "series")
    with pytest.raises(JobError, match="none of these nodes, but 3 others"):
        table([run], "series", {7})
    with pytest.raises(DataError, match=r"no rank_\*\.h5"):
        table([tmp_path], "series")


def test_without_pyarrow_the_remedy_is_named_and_nothing_is_left(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(JobError, match=r"pip install 'mpi_opt\[export\]'"):
        write_table(table([run], "series"), "parquet", tmp_path / "out.parquet")
    with pytest.raises(JobError, match="cannot write"):
        write_table(table([run], "series"), "csv", tmp_path / "nowhere" / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_command_writes_by_the_ending_or_to_standard_output(run, tmp_path, capsys):
    command = ["metrics", "export", str(run)]
    assert cli.main([*command, "--out", str(tmp_path / "out.parquet"), "--syncs", "--nodes", "0-1"]) == 0
    assert set(read_parquet(tmp_path / "out.parquet")["node"]) == {0, 1}
    assert capsys.readouterr().out == f"{tmp_path / 'out.parquet'}: 14 rows, 8 columns\n"
    assert cli.main([*command, "--nodes", "2"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 5
    assert printed[0].startswith("run,node,evaluation,step,")
    for wrong, told in (
        (["--out", "x.txt"], "the ending says no form; allowed: csv, json, parquet"),
        (["--format", "parquet"], "needs --out FILE; to standard output go csv and json"),
        (["--nodes", "3-1"], "allowed: numbers and ranges"),
        (["--nodes", "1-99999999999"], "allowed: numbers below"),
    ):
        assert cli.main([*command, *wrong]) == 2
        assert told in capsys.readouterr().err


# --- one file ---------------------------------------------------------------------------------------------------------


def test_a_file_in_place_of_a_folder_is_named_as_such(run, capsys):
    file = run / "metrics" / "rank_00000.h5"
    assert cli.main(["metrics", "export", str(file)]) == 3
    assert f"{file}: is a file; allowed: the folder of a run" in capsys.readouterr().err


def test_merged_is_joined_and_needs_no_other_file(tmp_path):
    for node in range(3):
        write_rank(tmp_path / "run", node, 3, 300, syncs=700)
    joined = read_joined(join(tmp_path / "run"))
    alone = tmp_path / "alone"
    alone.mkdir()
    merged = read_joined(merge(tmp_path / "run", alone / "all.h5"))
    assert (joined.attributes["kind"], merged.attributes["kind"]) == ("virtual", "copied")
    assert {**joined.attributes, "kind": "copied"}.keys() == merged.attributes.keys()
    for group in ("series", "syncs"):
        for name, values in getattr(joined, group).items():
            np.testing.assert_array_equal(getattr(merged, group)[name], values)
    assert (merged.hosts, merged.statuses) == (joined.hosts, joined.statuses)
    import h5py

    with h5py.File(alone / "all.h5") as file:
        assert not any(data.is_virtual for data in file["series"].values())
        assert file["series/step"].compression == "gzip"


def test_merge_says_what_it_cuts(run, tmp_path, capsys):
    assert cli.main(["metrics", "merge", str(run), "--out", str(tmp_path / "all.h5")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'all.h5'}: 3 nodes, 4 evaluations, 6 synchronisations\n"
    assert "series cut to 4 of up to 5 rows: no more in rank_00002.h5" in printed.err


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("syncs", [0, 7])
def test_xarray_knows_the_dimensions(tmp_path, merged, syncs):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    for node in range(3):
        write_rank(tmp_path, node, 3, 5, syncs=syncs)
    path = merge(tmp_path, tmp_path / "all.h5") if merged else join(tmp_path)
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        series = tree["series"].to_dataset()
        assert dict(series.sizes) == {"node": 3, "evaluation": 5}
        assert series["node"].values.tolist() == [0, 1, 2]
        assert dict(tree["syncs"].to_dataset(inherit=False).sizes) == {"node": 3, "sync": syncs}
        assert tree["sources/host"].values.tolist() == ["host0", "host1", "host2"]
        local = series["objective_local"]
        assert local.attrs["units"] == "1"
        assert local.attrs["long_name"].startswith("Global objective F")
        read = read_rank(tmp_path / "metrics" / "rank_00001.h5").series["objective_local"]
        np.testing.assert_array_equal(local.sel(node=1).values, read)
        assert series["nodes_alive"].dtype == np.int64
        runs = xarray.concat([series, series], dim="run", join="outer")
        assert runs["objective_local"].dims == ("run", "node", "evaluation")


# --- checked ----------------------------------------------------------------------------------------------------------


def checked(folder, capsys):
    code = cli.main(["metrics", "check", str(folder)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def whole(tmp_path):
    for node in range(3):
        write_rank(tmp_path / "run", node, 3, 5)
    join(tmp_path / "run")
    return tmp_path / "run"


def test_whole_metrics_have_nothing_wrong(whole, capsys):
    code, out, err = checked(whole, capsys)
    assert (code, err) == (0, "")
    assert out == (
        f"{whole}: 3 files, each 5 evaluations and 7 synchronisations, done: all; metrics.h5 virtual: nothing wrong\n"
    )


def test_a_missing_source_is_an_error_not_fill_values(whole, capsys):
    (whole / "metrics" / "rank_00001.h5").unlink()
    code, out, err = checked(whole, capsys)
    assert code == 3
    assert f"wrong: {whole / 'metrics' / 'rank_00001.h5'}: missing, but the joined metrics.h5 needs it" in out
    assert "files of 3 nodes expected, missing: [1]" in out
    assert "faults of its metrics found: 2" in err


def alter(path, change):
    import h5py

    with h5py.File(path, "r+") as file:
        change(file)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda f: f["series/payload_bytes"].__setitem__(3, 5),
            "series/payload_bytes: falls from 22 in row 2 to 5 in row 3",
        ),
        (lambda f: f["series/wait_seconds"].__setitem__(slice(2, 4), [np.nan, 0.0]), "series/wait_seconds: falls from"),
        (lambda f: f["series/fired"].__setitem__(4, 99), "series/fired: more than series/syncs"),
        (lambda f: f["syncs/step"].__setitem__(6, 1), "syncs/step: falls from 29 in row 5 to 1 in row 6"),
        (lambda f: f["series/epoch"].resize((2,)), "damaged: epoch in /series have less than the 5 rows committed"),
        (lambda f: f.attrs.__setitem__("schema_version", 99), "schema version 99, this mpi_opt reads versions up to"),
        (lambda f: f.attrs.__setitem__("started", "later"), "is of another run: started is 'later', not 'text'"),
        (lambda f: f.attrs.__setitem__("node", 1), "is of node 1"),
        (lambda f: f.attrs.__delitem__("graph"), "attribute 'graph' is missing"),
        (lambda f: f["committed"].__setitem__(slice(None), (4, 7)), "has (4, 7) rows (series, syncs), but the joined"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(whole, capsys, change, told):
    path = whole / "metrics" / "rank_00002.h5"
    alter(path, change)
    code, out, _ = checked(whole, capsys)
    assert code == 3
    assert told in out
    assert str(path) in out


def test_a_joined_file_that_says_something_else_is_wrong(tmp_path, capsys):
    folder = tmp_path / "run"
    for node in range(2):
        write_rank(folder, node, 2, 5)
    (folder / "metrics.h5").write_bytes(merge(folder, tmp_path / "all.h5").read_bytes())
    assert checked(folder, capsys)[0] == 0
    alter(folder / "metrics.h5", lambda file: file["series/objective_worst"].__setitem__((1, 2), 0.0))
    code, out, _ = checked(folder, capsys)
    assert code == 3
    assert "series/objective_worst of node 1 is not what" in out
    write_rank(folder, 0, 2, 6)
    assert "series/step ends after 5 of 6 rows of node 0" in checked(folder, capsys)[1]


def test_an_unfinished_run_and_an_older_file_are_notes(run, capsys):
    alter(run / "metrics" / "rank_00000.h5", lambda file: file["series"].__delitem__("nodes_alive"))
    code, out, err = checked(run, capsys)
    assert code == 0
    assert (
        "3 files, each 4 to 5 evaluations and 6 to 7 synchronisations, done: all; running; metrics.h5 not there" in out
    )
    assert "is of an earlier version: no nodes_alive in /series" in err
    assert "metrics.h5: not there" in err


def test_nodes_that_a_run_has_lost_are_no_fault(tmp_path, capsys):
    write_rank(tmp_path, 0, 2, 5)
    write_killed(tmp_path, 1, 2, 3, syncs=4)
    write_lost(tmp_path, [Lost(1, 25, "host1", "2026-01-01T00:00:00+00:00")])
    join(tmp_path)
    code, out, _ = checked(tmp_path, capsys)
    assert code == 0, out
