"""Runs with a virtual clock: the same models, seconds that follow from the model, repeat, and outlive a resume."""

import re
import signal

import h5py
import numpy as np
import pytest
from support.interrupted import asking
from support.jobs import write_job

from mpi_opt.errors import EXIT_DONE, EXIT_PAUSED, JobError
from mpi_opt.execute import resume_job, simulate_job
from mpi_opt.job import load_job
from mpi_opt.metrics.read import read_joined
from mpi_opt.run.checkpoint import found
from mpi_opt.scaling.cost import PROFILES, exchange_seconds, reduction_seconds
from mpi_opt.training import Orders

PARTS = ("compute_seconds", "compress_seconds", "communicate_seconds", "wait_seconds")
REAL = {"wall_seconds", "evaluate_seconds", "write_seconds"}
WAN = "clock.network=wan"
UNEVEN = (WAN, "clock.speed_spread=0.4", "clock.stragglers={ share = 0.2, factor = 5.0 }")
OVERLAPPED = ("algorithm.overlap=true",)
LOCAL_NEWTON = ("algorithm={ name = 'local-newton', finish = 'none', local_steps = 2 }", "stop.steps=6")
DPSGD = ("algorithm={ name = 'd-psgd', batch = 8, step_size = 0.3, output = 'local' }",)


@pytest.fixture
def job(tmp_path):
    return write_job(tmp_path, rows=80)


def simulate(job, name, *settings, nodes=4):
    out = job.parent / name
    code = simulate_job(load_job(job, settings), Orders(out=out, progress="none"), nodes=nodes)
    assert code == EXIT_DONE
    return read_joined(out / "metrics.h5")


def models(read):
    found = []
    for path in sorted((read.path.parent / "metrics").glob("*.h5")):
        with h5py.File(path) as file:
            found.append(file["final/model"][:])
    return np.array(found)


def log(read):
    return (read.path.parent / "log.txt").read_text()


@pytest.mark.parametrize("settings", [(), OVERLAPPED, LOCAL_NEWTON], ids=["sparq", "overlap", "local-newton"])
def test_the_clock_changes_nothing_but_seconds_and_repeats(job, settings) -> None:
    plain = simulate(job, "plain", *settings)
    clocked = simulate(job, "clocked", *settings, *UNEVEN)
    again = simulate(job, "again", *settings, *UNEVEN)
    assert np.array_equal(models(plain), models(clocked))
    for name, values in plain.series.items():
        if not name.endswith("seconds"):
            assert np.array_equal(values, clocked.series[name], equal_nan=True), name
    for name, values in plain.syncs.items():
        assert np.array_equal(values, clocked.syncs[name]), name
    for name, values in again.series.items():
        if name not in REAL:
            assert np.array_equal(values, clocked.series[name], equal_nan=True), name
    seconds = clocked.series["seconds"]
    np.testing.assert_allclose(sum(clocked.series[name] for name in PARTS), seconds, rtol=1e-12)
    assert seconds[:, 0].max() == 0 < seconds[:, -1].min()
    assert (clocked.series["compute_seconds"][:, -1] > 0).all()
    assert plain.attributes["clock"] == ""
    assert clocked.attributes["clock"] == (
        "simulated: network wan (latency 20 ms, bandwidth 12.5 MB/s), computing counted by operations, "
        "speeds spread by 0.4, a share of 0.2 straggles by 5"
    )
    assert clocked.attributes["clock"] in log(clocked)


def test_equal_nodes_on_a_ring_take_steps_times_the_formulas(job) -> None:
    read = simulate(job, "run", *DPSGD, WAN, "clock.compute=0.01")
    nbytes = (read.series["payload_bytes"][0, -1] + read.series["header_bytes"][0, -1]) / read.series["messages"][0, -1]
    expected = read.series["step"] * (0.01 + exchange_seconds(nbytes, 2, PROFILES["wan"]))
    np.testing.assert_allclose(read.series["seconds"], expected, rtol=1e-12)
    np.testing.assert_allclose(read.series["compute_seconds"], 0.01 * read.series["step"], rtol=1e-12)
    assert not read.series["compress_seconds"].any()


def test_equal_nodes_that_reduce_take_steps_times_the_formulas(job) -> None:
    read = simulate(job, "run", "algorithm={ name = 'allreduce-sgd', step_size = 0.3 }", WAN, "clock.compute=0.01")
    expected = read.series["step"] * (0.01 + reduction_seconds(8 * 6 + 8, 4, PROFILES["wan"]))
    np.testing.assert_allclose(read.series["seconds"], expected, rtol=1e-12)


def test_the_overlapped_form_hides_its_messages_behind_the_local_steps(job) -> None:
    local = ("algorithm={ name = 'd-psgd', step_size = 0.3, sync_every = 3, overlap = true, output = 'local' }",)
    read = simulate(job, "run", *local, WAN, "clock.compute=0.005", "stop.steps=30")
    nbytes = (read.series["payload_bytes"][0, -1] + read.series["header_bytes"][0, -1]) / read.series["messages"][0, -1]
    exchange = exchange_seconds(nbytes, 2, PROFILES["wan"])
    assert exchange > 0.015
    # three steps before the first post, nine flights longer than the steps behind them, and the last one waited for
    np.testing.assert_allclose(read.series["seconds"][:, -1], 0.015 + 10 * exchange, rtol=1e-12)
    hidden = simulate(job, "hidden", *local, WAN, "clock.compute=0.05", "stop.steps=30")
    np.testing.assert_allclose(hidden.series["seconds"][:, -1], 1.5 + exchange, rtol=1e-12)


def test_all_straggle_by_the_factor(job) -> None:
    settings = (*DPSGD, "clock.network=latency=0s,bandwidth=1GB/s", "clock.compute=0.5")
    read = simulate(job, "run", *settings, "clock.stragglers.share=1", "clock.stragglers.factor=4")
    np.testing.assert_allclose(read.series["compute_seconds"], 2.0 * read.series["step"], rtol=1e-12)


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_node_and_two(job, nodes) -> None:
    read = simulate(job, "run", WAN, "clock.compute=0.01", nodes=nodes)
    seconds = read.series["seconds"][:, -1]
    assert (seconds == pytest.approx(0.6)) if nodes == 1 else (seconds > 0.6 + 20 * 0.02).all()


def test_measured_computing_is_this_process_own(job) -> None:
    read = simulate(job, "run", WAN, "clock.compute=measured")
    computed = read.series["compute_seconds"][:, -1]
    assert (computed > 0).all()
    assert (computed < read.series["wall_seconds"][:, -1]).all()
    assert len(set(computed)) > 1
    np.testing.assert_allclose(sum(read.series[name] for name in PARTS), read.series["seconds"], rtol=1e-12)


def test_the_rule_of_seconds_means_simulated_ones(job) -> None:
    read = simulate(job, "run", WAN, "clock.compute=0.05", "stop.steps=100000", "stop.seconds=10", "metrics.every=1000")
    assert re.search(r"done: 1\d\.\d seconds \(\d+ steps, \d+ rounds, 1\d\.\d+ simulated s\)", log(read))
    assert read.series["wall_seconds"].max() < 60
    # noticed within two control reductions of ten synchronisations each, and the closing average
    assert 10 <= read.series["seconds"][:, -1].max() <= 10 + 20 * (3 * 0.05 + 0.05) + 1


@pytest.mark.parametrize("settings", [OVERLAPPED, LOCAL_NEWTON], ids=["overlap", "local-newton"])
def test_a_resumed_run_has_the_seconds_of_one_undisturbed(job, settings) -> None:
    whole = simulate(job, "whole", *settings, *UNEVEN, "metrics.every=2")
    out, at = job.parent / "cut", 4 if settings == LOCAL_NEWTON else 34
    orders = Orders(out=out, progress="none")
    with asking(at, signal.SIGUSR1):
        assert simulate_job(load_job(job, (*settings, *UNEVEN, "metrics.every=2")), orders, nodes=4) == EXIT_PAUSED
    assert found(out / "checkpoints")
    assert resume_job(out, Orders(progress="none"), [], repartition=False) == EXIT_DONE
    resumed = read_joined(out / "metrics.h5")
    assert resumed.attributes["clock"] == whole.attributes["clock"]
    assert np.array_equal(models(resumed), models(whole))
    for name, values in whole.series.items():
        if name not in REAL:
            assert np.array_equal(values, resumed.series[name], equal_nan=True), name


def test_the_finish_is_chosen_for_the_clocks_network(job) -> None:
    read = simulate(job, "run", "algorithm={ name = 'local-newton' }", "stop.steps=3", WAN)
    assert "at latency 20 ms, bandwidth 12.5 MB/s" in log(read)


def test_what_a_person_is_told(job) -> None:
    told = log(simulate(job, "run", WAN, "clock.compute=0.25"))
    assert re.search(r"^step {6}60  round {5}20  +15\.\d+ simulated s  objective", told, re.MULTILINE)
    assert re.search(
        r"^  simulated    computing 15 s, compressing 0 s, in messages 0\.\d+ s, waiting for others \S+ s "
        r"\(means over the nodes\)$",
        told,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("clock.network=wam", "clock.network 'wam' is not known.*wan.*allowed: infiniband, 10gbe, wan, latency="),
        ("clock.network=latency=20ms", "clock.network 'latency=20ms': bandwidth is missing"),
        ("clock.network=3", "clock.network = 3: allowed: a network: infiniband"),
        ("clock.speed_spread=0.1", "clock.network: missing"),
        (
            "clock={ network = 'wan', compute = 'guessed' }",
            'clock.compute = "guessed": allowed: "counted", "measured" or',
        ),
        ("clock={ network = 'wan', compute = -1 }", "clock.compute = -1: allowed"),
        ("clock={ network = 'wan', speed_spread = -1 }", "clock.speed_spread = -1: allowed: a number from 0 to 10"),
        ("clock={ network = 'wan', stragglers = 0.1 }", "clock.stragglers = 0.1"),
        ("clock={ network = 'wan', stragglers = { share = 2, factor = 4 } }", "clock.stragglers.share = 2: allowed"),
        ("clock={ network = 'wan', stragglers = { share = 0.1 } }", "clock.stragglers.factor: missing"),
        ("clock={ network = 'wan', speed = 1 }", "clock.speed: unknown key.*speed_spread"),
    ],
)
def test_wrong_keys(job, setting, told) -> None:
    with pytest.raises(JobError, match=told):
        load_job(job, [setting])
