"""The joined file: right values, movable, and never a silent fill value."""

import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from mpi_opt.errors import DataError
from mpi_opt.metrics import schema
from mpi_opt.metrics.read import join, read_joined
from mpi_opt.metrics.recorder import Recorder

INTEGERS = [column.name for column in schema.SERIES if column.kind == "i8"]


def write_rank(folder, node, nodes, rows, *, syncs=None, first_step=0, close=True, **changes):
    given = dict.fromkeys(schema.ATTRIBUTES, "text") | {"seed": 7, "node": node, "nodes": nodes, "threads": 1}
    given |= {"host": f"host{node}"} | changes
    recorder = Recorder(folder / "metrics" / f"rank_{node:05d}.h5", attributes=given, dim=2, flush_seconds=0.0)
    for step in range(first_step, first_step + rows):
        recorder.row(dict.fromkeys(INTEGERS, step) | {"objective_local": 100.0 * node + step})
    for step in range(rows if syncs is None else syncs):
        recorder.sync(step, node == 0, node + 0.5, 1.0, 9)
    recorder.flush()
    if close:
        recorder.close("done: all")
    return recorder


def test_every_node_is_a_row_and_the_folder_may_be_moved(tmp_path, monkeypatch):
    for node in (2, 0, 1):
        write_rank(tmp_path / "run", node, 3, 5, syncs=7)
    path = join(tmp_path / "run")
    assert path == tmp_path / "run" / "metrics.h5"
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "run", moved)
    monkeypatch.chdir("/")
    with h5py.File(moved / "metrics.h5", "r") as file:
        data = file["series/objective_local"]
        assert data.is_virtual
        assert all(not os.path.isabs(source.file_name) for source in data.virtual_sources())
        assert data.attrs["unit"] == "1"
    joined = read_joined(moved / "metrics.h5")
    np.testing.assert_array_equal(joined.series["objective_local"], 100.0 * np.arange(3)[:, None] + np.arange(5))
    assert {values.shape for values in joined.series.values()} == {(3, 5)}
    assert joined.series["step"].dtype == np.int64
    assert joined.syncs["drift"].shape == (3, 7)
    assert joined.syncs["fired"].sum(axis=1).tolist() == [7, 0, 0]
    assert joined.hosts == ("host0", "host1", "host2")
    assert joined.statuses == ("done: all",) * 3
    assert joined.attributes["kind"] == "virtual"
    assert joined.attributes["cut"] == ""
    assert "node" not in joined.attributes
    assert [entry.name for entry in sorted(moved.iterdir())] == ["metrics", "metrics.h5"]


def test_nodes_that_stopped_earlier_cut_the_others_and_are_named(tmp_path):
    for node, rows in enumerate((5, 3, 4)):
        write_rank(tmp_path, node, 3, rows, syncs=2)
    joined = read_joined(join(tmp_path))
    assert joined.series["step"].tolist() == [[0, 1, 2]] * 3
    np.testing.assert_array_equal(joined.series["objective_local"][2], [200.0, 201.0, 202.0])
    assert joined.attributes["cut"] == "series cut to 3 of up to 5 rows: no more in rank_00001.h5"
    assert joined.syncs["step"].shape == (3, 2)


def test_a_node_that_has_no_row_yet_leaves_none(tmp_path):
    write_rank(tmp_path, 0, 2, 4)
    write_rank(tmp_path, 1, 2, 0)
    joined = read_joined(join(tmp_path))
    assert joined.series["objective_local"].shape == (2, 0)
    assert "series cut to 0 of up to 4 rows" in joined.attributes["cut"]


def test_a_killed_node_is_copied_not_filled(tmp_path):
    write_rank(tmp_path, 0, 2, 4)
    program = (
        "import os, sys, pathlib; sys.path.insert(0, sys.argv[2]); from test_metrics_joined import write_rank;"
        "kept = write_rank(pathlib.Path(sys.argv[1]), 1, 2, 3, close=False); os.kill(os.getpid(), 9)"
    )
    here = os.path.dirname(__file__)
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path), here], timeout=60).returncode == -9
    path = join(tmp_path)
    joined = read_joined(path)
    assert joined.attributes["kind"] == "copied"
    assert joined.statuses == ("done: all", "running")
    np.testing.assert_array_equal(joined.series["objective_local"], [[0.0, 1.0, 2.0], [100.0, 101.0, 102.0]])
    with h5py.File(path, "r") as file:
        assert not file["series/objective_local"].is_virtual


def test_missing_nodes_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no rank_\*\.h5"):
        join(tmp_path)
    write_rank(tmp_path, 0, 4, 1)
    write_rank(tmp_path, 2, 4, 1)
    with pytest.raises(DataError, match=r"files of 4 nodes expected, missing: \[1, 3\]"):
        join(tmp_path)
    assert not (tmp_path / "metrics.h5").exists()


def test_files_of_another_run_are_named(tmp_path):
    write_rank(tmp_path, 0, 2, 1)
    write_rank(tmp_path, 1, 2, 1, started="later")
    with pytest.raises(DataError, match=r"rank_00001\.h5 is of another run.*started is 'later'"):
        join(tmp_path)


def test_one_node_twice_is_refused(tmp_path):
    write_rank(tmp_path, 0, 1, 1)
    shutil.copy(tmp_path / "metrics" / "rank_00000.h5", tmp_path / "metrics" / "rank_00009.h5")
    with pytest.raises(DataError, match="2 files for 1 nodes"):
        join(tmp_path)


def test_rows_of_other_steps_are_refused(tmp_path):
    write_rank(tmp_path, 0, 2, 3)
    write_rank(tmp_path, 1, 2, 3, first_step=1)
    with pytest.raises(DataError, match=r"rank_00001\.h5: row 0 of series is step 1, but step 0"):
        join(tmp_path)


def test_a_source_that_went_missing_or_was_replaced_is_an_error_on_reading(tmp_path):
    for node in range(2):
        write_rank(tmp_path, node, 2, 3)
    path = join(tmp_path)
    source = tmp_path / "metrics" / "rank_00001.h5"
    source.unlink()
    with h5py.File(path, "r") as file:  # what HDF5 itself makes of it
        assert file["series/objective_local"][1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(DataError, match=r"rank_00001\.h5: missing"):
        read_joined(path)
    write_rank(tmp_path, 1, 2, 2)
    with pytest.raises(DataError, match=r"rank_00001\.h5: has \(2, 2\) rows"):
        read_joined(path)
    source.unlink()
    write_rank(tmp_path, 1, 2, 3)
    assert read_joined(path).series["objective_local"][1].tolist() == [100.0, 101.0, 102.0]
    assert join(tmp_path) == path  # again, over the old one


def test_a_joined_file_that_lacks_a_part_is_damaged(tmp_path):
    write_rank(tmp_path, 0, 1, 3)
    with h5py.File(join(tmp_path), "a") as file:
        del file["sources/host"]
    with pytest.raises(DataError, match=r"metrics\.h5: damaged"):
        read_joined(tmp_path / "metrics.h5")
