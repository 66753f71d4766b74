"""Clean files out of what killed runs leave: plain readers open them, and what is lost is told."""

import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from support.commands import ROOT
from support.jobs import write_job
from support.rankfiles import write_killed, write_rank

from mpi_opt import cli
from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.checking import check
from mpi_opt.metrics.read import read_joined, read_rank
from mpi_opt.metrics.salvage import salvage
from mpi_opt.metrics.tables import Table
from mpi_opt.metrics.tail import read_tail


def same_rows(clean, old, rows=None, syncs=None):
    a, b = read_rank(clean), read_rank(old)
    for column in schema.SERIES:
        np.testing.assert_array_equal(a.series[column.name], b.series[column.name][:rows], err_msg=column.name)
    for column in schema.SYNCS:
        np.testing.assert_array_equal(a.syncs[column.name], b.syncs[column.name][:syncs], err_msg=column.name)
    return a, b


def test_files_of_a_killed_run_become_clean_ones(tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "clean"
    write_rank(run, 0, 2, 5)
    write_killed(run, 1, 2, 600, syncs=1000)
    (run / "job.toml").write_text("name = 'x'\n")
    killed = run / "metrics" / "rank_00001.h5"
    with pytest.raises(OSError, match="open"):
        h5py.File(killed, "r")
    before = killed.read_bytes()
    assert cli.main(["metrics", "salvage", str(run), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert (
        "rank_00000.h5: 5 evaluations, 7 synchronisations salvaged\nrank_00001.h5: 600 evaluations, 1000 sync"
        in printed
    )
    assert "  lost: whatever was not flushed when the run was killed, and the final model\n" in printed
    assert killed.read_bytes() == before
    with h5py.File(out / "metrics" / "rank_00001.h5", "r") as file:
        assert file["series/step"].shape == (600,)
        assert file["series/step"].attrs["unit"] == "step"
    clean, old = same_rows(out / "metrics" / "rank_00001.h5", killed)
    assert clean.status == "closed: killed, and salvaged up to step 5990"
    assert clean.model is None
    assert {**clean.attributes} == pytest.approx({**old.attributes}, nan_ok=True)
    whole, old = same_rows(out / "metrics" / "rank_00000.h5", run / "metrics" / "rank_00000.h5")
    np.testing.assert_array_equal(whole.model, old.model)
    np.testing.assert_array_equal(whole.average, old.average)
    assert (whole.status, whole.model.shape) == ("done: all", (3,))
    assert read_joined(out / "metrics.h5").attributes["kind"] == "virtual"
    assert (out / "job.toml").read_text() == "name = 'x'\n"
    assert check(out).wrong == ()


@pytest.mark.timeout(90)
def test_a_real_run_is_salvaged_after_kill_9(tmp_path):
    job, run = write_job(tmp_path), tmp_path / "run"
    command = [sys.executable, "-m", "mpi_opt", "simulate", str(job), "--nodes", "2", "--out", str(run)]
    words = ["stop.steps=100000000", "metrics.every=5", "algorithm.threshold=0"]
    command += [part for word in words for part in ("--set", word)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            first, until = run / "metrics" / "rank_00001.h5", time.monotonic() + 60
            while time.monotonic() < until and not (first.exists() and read_rank(first).rows):
                time.sleep(0.2)
        finally:
            process.kill()
    found = salvage(run, tmp_path / "clean")
    assert [each.rows > 0 for each in found] == [True, True]
    report = check(tmp_path / "clean")
    assert report.wrong == ()
    assert (report.files, report.joined) == (2, "virtual")
    for node in range(2):
        name = f"rank_{node:05d}.h5"
        same_rows(tmp_path / "clean" / "metrics" / name, run / "metrics" / name)


@pytest.mark.parametrize("killed", [False, True])
def test_a_file_cut_off_keeps_what_is_right_and_keeps_nobody_waiting(tmp_path, killed):
    # HDF5 puts blocks where it likes: what is left depends on the place of the cut, but all that is left is right.
    (write_killed if killed else write_rank)(tmp_path, 0, 1, 1000, syncs=3)
    path, cut = tmp_path / "metrics" / "rank_00000.h5", tmp_path / "cut.h5"
    data, kept = path.read_bytes(), []
    for share in np.linspace(0.02, 0.99, 9):
        cut.write_bytes(data[: int(len(data) * share)])
        out = tmp_path / f"out{share}.h5"
        began = time.monotonic()
        try:
            (found,) = salvage(cut, out)
        except DataError:
            kept.append(-1)
            assert not out.exists()
            continue
        finally:
            assert time.monotonic() - began < 10
        kept.append(found.rows)
        assert ("cannot be read in" in " ".join(found.lost)) == ((found.rows, found.syncs) != (1000, 3))
        same_rows(out, path, found.rows, found.syncs)
        for read in (lambda: read_tail(cut), lambda: next(table_of(cut).parts())):
            with pytest.raises(DataError, match="cut off or half written: .* bytes of"):
                read()
    assert kept == sorted(kept)
    assert kept[-1] > 0
    assert salvage(path, tmp_path / "whole.h5")[0].rows == 1000


def table_of(path):
    return Table("final", (), (), (("run", path),))


def test_a_series_of_a_later_version_is_filled_and_told(tmp_path):
    write_rank(tmp_path, 0, 1, 4)
    path = tmp_path / "metrics" / "rank_00000.h5"
    with h5py.File(path, "r+") as file:
        del file["series/nodes_alive"], file["series/test_loss"]
    (found,) = salvage(path, tmp_path / "clean.h5")
    assert found.rows == 4
    assert found.lost == (
        "/series/nodes_alive: not in the file, filled with -1",
        "/series/test_loss: not in the file, filled with nan",
    )
    read = read_rank(tmp_path / "clean.h5")
    assert read.series["nodes_alive"].tolist() == [-1] * 4
    assert np.isnan(read.series["test_loss"]).all()


def test_what_cannot_be_read_is_told_and_the_rest_is_kept(tmp_path, capsys):
    run = tmp_path / "run"
    write_rank(run, 0, 2, 4)
    (run / "metrics" / "rank_00001.h5").write_bytes(b"no HDF5")
    found = salvage(run, tmp_path / "clean")
    assert [each.out.exists() for each in found] == [True, False]
    assert "cannot be opened as HDF5" in found[1].lost[0]
    assert not (tmp_path / "clean" / "metrics.h5").exists()
    with pytest.raises(JobError, match="exists already"):
        salvage(run, tmp_path / "clean")
    with pytest.raises(DataError, match="nothing can be salvaged: .*cannot be opened as HDF5"):
        salvage(run / "metrics" / "rank_00001.h5", tmp_path / "other.h5")
    with pytest.raises(DataError, match=r"no rank_\*\.h5"):
        salvage(tmp_path, tmp_path / "another")
    with pytest.raises(DataError, match="no such file"):
        salvage(tmp_path / "nowhere.h5", tmp_path / "another")
    assert not (tmp_path / "another").exists()
