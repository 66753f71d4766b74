"""Where seconds are simulated, compare, status and watch say so; files of earlier releases have no clock."""

import json
import shutil

import h5py
import pytest
from support.jobs import write_job

from mpi_opt.cli import main
from mpi_opt.execute import simulate_job
from mpi_opt.job import load_job
from mpi_opt.scaling.curves import Curve
from mpi_opt.scaling.fitted import Measurement, Pair
from mpi_opt.status import as_text, status_of
from mpi_opt.training import Orders
from mpi_opt.watch.draw import block, line
from mpi_opt.watch.look import Looker

WAN = "seconds are simulated: network wan (latency 20 ms, bandwidth 12.5 MB/s), computing counted by operations"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("told")
    job = write_job(folder)
    for name, settings in {
        "plain": [],
        "wan": ["clock.network=wan"],
        "seeded": ["clock.network=wan", "seed=4"],
        "fast": ["clock.network=infiniband"],
    }.items():
        simulate_job(load_job(job, settings), Orders(out=folder / name, progress="none"), nodes=3)
    return folder


def compared(capsys, runs, *names):
    assert main(["compare", *(str(runs / name) for name in names), "--measure", "objective"]) == 0
    return capsys.readouterr().out


def test_compare_names_a_clock_that_all_runs_have(capsys, runs) -> None:
    told = compared(capsys, runs, "wan", "seeded")
    assert told.splitlines()[1] == WAN
    assert "nodes taken in turn" not in told
    assert "do not compare" not in told


def test_compare_says_that_clocks_differ(capsys, runs) -> None:
    told = compared(capsys, runs, "wan", "fast")
    assert f"note: {WAN.replace('seconds', 'seconds of wan')}" in told
    assert "note: seconds of fast are simulated: network infiniband" in told
    assert "note: seconds do not compare: some are simulated, by clocks that are not alike" in told


def test_compare_says_that_some_seconds_are_measured(capsys, runs) -> None:
    told = compared(capsys, runs, "plain", "wan")
    assert "note: seconds do not compare: some are simulated, those of plain are measured" in told
    assert "nodes taken in turn, not of a network: plain" in told


def test_status_and_watch_say_simulated(runs) -> None:
    assert " simulated s\n" in as_text(status_of([runs / "wan"])) + "\n"
    assert "s of run clock" in as_text(status_of([runs / "plain"]))
    view = Looker(runs / "wan").look()
    assert " simulated s" in line(view)
    assert any(text.startswith("clock") and " simulated s, which took " in text for text in block(view))
    assert not any("simulated" in text for text in block(Looker(runs / "plain").look()))


def test_files_of_earlier_releases_have_no_clock(runs, tmp_path, capsys) -> None:
    old = tmp_path / "old"
    shutil.copytree(runs / "plain", old)
    for path in (old / "metrics").glob("*.h5"):
        with h5py.File(path, "a") as file:
            del file.attrs["clock"]
    with h5py.File(old / "metrics.h5", "a") as file:
        del file.attrs["clock"]
    assert main(["metrics", "check", str(old)]) == 0
    assert "nodes taken in turn, not of a network: old" in compared(capsys, tmp_path, "old")
    assert not status_of([old])[0].progress.simulated


def test_a_measured_network_is_written_into_the_job(tmp_path) -> None:
    job = write_job(tmp_path)
    sizes = (8.0, 1024.0, 131072.0, 1048576.0)
    curve = Curve(sizes, tuple(3e-3 + size / 2e6 for size in sizes))
    measured = Measurement(ranks=2, pairs=(Pair("this host", (0, 1), curve),), degree=0, exchange=None, reduction=None)
    (tmp_path / "net.json").write_text(json.dumps(measured.values()))
    loaded = load_job(job, ["clock.network=net.json"])
    (tmp_path / "net.json").unlink()  # the job stands without it
    parts = dict(part.split("=") for part in loaded.clock.network.split(","))
    assert float(parts["latency"].removesuffix("s")) == pytest.approx(3e-3, rel=1e-6)
    assert float(parts["bandwidth"].removesuffix("B/s")) == pytest.approx(2e6, rel=1e-6)
    assert simulate_job(loaded, Orders(out=tmp_path / "run", progress="none"), nodes=2) == 0
    assert "network latency 3 ms, bandwidth 2 MB/s" in (tmp_path / "run" / "log.txt").read_text()
