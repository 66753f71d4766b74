"""The table of finished runs: figures of the last row, bytes of all nodes, the run that sent most as the measure."""

import subprocess
import sys

import numpy as np
import pytest

from mpi_opt.errors import DataError, JobError
from mpi_opt.metrics import schema
from mpi_opt.metrics.joined import join
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.report.table import main, table

INTEGERS = [column.name for column in schema.SERIES if column.kind == "i8"]


def finished(folder, *, sent, fired=3, syncs=4, test_error=0.125, nodes=3):
    """Write a run of several nodes whose last row holds the figures; node i sends i times ``sent`` and 1 B headers."""
    for node in range(nodes):
        given = dict.fromkeys(schema.ATTRIBUTES, "text") | {"seed": 7, "node": node, "nodes": nodes, "threads": 1}
        path = folder / "metrics" / f"rank_{node:05d}.h5"
        with Recorder(path, attributes=given, dim=2, flush_seconds=0.0) as recorder:
            for step in (0, 60):
                last = step > 0
                recorder.row(
                    dict.fromkeys(INTEGERS, 0)
                    | {
                        "step": step,
                        "objective_average": 0.25 if last else 9.0,
                        "objective_worst": 0.5 if last else 9.0,
                        "test_error_average": test_error,
                        "test_error_worst": 2 * test_error,
                        "fired": fired * last,
                        "syncs": syncs * last,
                        "payload_bytes": node * sent * last,
                        "header_bytes": last * (sent > 0),
                    }
                )
            recorder.final(np.zeros(2), None, reason="done: 60 steps")
    join(folder)
    return folder


def test_figures(tmp_path):
    much = finished(tmp_path / "much", sent=3333)
    little = finished(tmp_path / "little-one", sent=333, fired=1)
    assert table([much, little]).splitlines() == [
        "run         steps  objective  worst node  accuracy  worst node  fired  sent by all  x fewer bytes",
        "----------  -----  ---------  ----------  --------  ----------  -----  -----------  -------------",
        "much           60    0.25000     0.50000     87.5%       75.0%  75.0%        10 kB            1.0",
        "little-one     60    0.25000     0.50000     87.5%       75.0%  25.0%         1 kB           10.0",
    ]


def test_what_is_unknown_is_a_dash(tmp_path):
    silent = finished(tmp_path / "silent", sent=0, fired=0, syncs=0, test_error=np.nan)
    row = table([silent]).splitlines()[-1].split()
    assert row == ["silent", "60", "0.25000", "0.50000", "-", "-", "-", "0", "B", "-"]


def test_main_prints_the_table(tmp_path, capsys):
    run = finished(tmp_path / "run", sent=10)
    assert main([str(run)]) == 0
    assert capsys.readouterr().out == table([run]) + "\n"


def test_a_run_without_metrics_is_an_error_of_data(tmp_path, capsys):
    run = finished(tmp_path / "run", sent=10)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "job.toml").touch()
    with pytest.raises(DataError, match="empty"):
        table([run, tmp_path / "empty"])
    assert main([str(run), str(tmp_path / "empty")]) == DataError.exit_code
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("mpi-opt: error: ")
    assert "empty" in seen.err
    assert seen.err.count("\n") == 1


def test_a_damaged_file_is_an_error_of_data(tmp_path, capsys):
    run = finished(tmp_path / "run", sent=10)
    (run / "metrics" / "rank_00001.h5").write_bytes(b"no HDF5")
    assert main([str(run)]) == DataError.exit_code
    assert "rank_00001.h5" in capsys.readouterr().err


def test_a_folder_without_a_run_is_an_error_of_the_command(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == JobError.exit_code
    assert "empty holds no run" in capsys.readouterr().err


def test_no_arguments_say_how_it_is_used():
    done = subprocess.run([sys.executable, "-m", "mpi_opt.report.table"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "RUN" in done.stderr
    assert "Traceback" not in done.stderr
