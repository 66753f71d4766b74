"""What a run of a job leaves, in lockstep and in this process: outputs, rounds, and what survives a failure."""

import errno
import resource
from pathlib import Path

import numpy as np
import pytest
from support.commands import finals
from support.jobs import write_job

from mpi_opt.errors import JobError, MpiOptError
from mpi_opt.execute import Orders, simulate_job
from mpi_opt.job import load_job
from mpi_opt.metrics.joined import read_joined
from mpi_opt.model import load_model

NODES, DIM = 4, 6


def simulated(folder, name, *words):
    out = folder / name
    job = load_job(folder / "job.toml", words)
    assert simulate_job(job, Orders(out=out, progress="none", command=["test"]), nodes=NODES) == 0
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same course with each output, plain and overlapped."""
    folder = tmp_path_factory.mktemp("runs")
    write_job(folder)
    return {
        (output, overlap): simulated(
            folder,
            f"{output}-{overlap}",
            f'algorithm.output="{output}"',
            f"algorithm.overlap={overlap}",
            "stop.steps=61",
        )
        for output in ("average", "weighted", "local")
        for overlap in ("false", "true")
    }


@pytest.mark.parametrize("overlap", ["false", "true"])
def test_final_models_are_last_iterates_whatever_the_output(runs, overlap):
    iterates = finals(runs["local", overlap], NODES)
    assert np.ptp(iterates, axis=0).max() > 0
    for output in ("average", "weighted"):
        np.testing.assert_array_equal(finals(runs[output, overlap], NODES), iterates)


@pytest.mark.parametrize("overlap", ["false", "true"])
def test_the_model_saved_is_the_output(runs, overlap):
    iterates = finals(runs["local", overlap], NODES)
    saved = {
        output: load_model(runs[output, overlap] / "model.h5").weights for output in ("average", "weighted", "local")
    }
    np.testing.assert_allclose(saved["average"], iterates.mean(axis=0), rtol=1e-14)
    np.testing.assert_array_equal(saved["local"], iterates[0])
    assert np.abs(saved["weighted"] - saved["average"]).max() > 1e-3


@pytest.mark.parametrize("overlap", ["false", "true"])
def test_the_last_row_has_the_outputs_bytes_and_not_its_round(runs, overlap):
    rows = {output: read_joined(runs[output, overlap] / "metrics.h5").series for output in ("average", "local")}
    for series in rows.values():
        np.testing.assert_array_equal(series["step"], [[0, 20, 40, 60, 61]] * NODES)
        np.testing.assert_array_equal(series["round"], [[0, 6, 13, 20, 20]] * NODES)
    sent = {output: series["payload_bytes"][:, -1] for output, series in rows.items()}
    up, down = 8 * DIM + 8, (NODES - 1) * 8 * DIM
    assert (sent["average"] - sent["local"]).tolist() == [down, up, up, up]
    np.testing.assert_array_equal(rows["average"]["payload_bytes"][:, :-1], rows["local"]["payload_bytes"][:, :-1])


@pytest.mark.parametrize("overlap", ["false", "true"])
def test_the_last_row_is_that_of_the_final_models(runs, overlap):
    """Taken behind settle, with the objective of the small logistic problem by hand."""
    out = runs["local", overlap]
    table = np.genfromtxt(line.replace(":", " ") for line in (out.parent / "train.txt").read_text().splitlines())
    y, A = table[:, 0], table[:, 2::2]
    expected = [np.logaddexp(0, -y * (A @ x)).mean() + x @ x / (2 * len(y)) for x in finals(out, NODES)]
    np.testing.assert_allclose(read_joined(out / "metrics.h5").series["objective_local"][:, -1], expected, rtol=1e-12)


def test_the_model_is_saved_even_where_the_joined_view_cannot_be_made(tmp_path, monkeypatch):
    write_job(tmp_path)

    def fails(*arguments, **named):
        raise OSError("planted")

    monkeypatch.setattr("h5py.VirtualLayout", fails)  # what the joined view is made of
    with pytest.raises((OSError, MpiOptError), match="planted"):
        simulated(tmp_path, "out")
    assert load_model(tmp_path / "out" / "model.h5").weights.shape == (DIM,)


def test_a_stop_by_an_evaluated_rule_takes_one_row(tmp_path):
    write_job(tmp_path)
    run = read_joined(simulated(tmp_path, "out", "stop.gradient_norm=1e9") / "metrics.h5")
    assert run.series["step"].tolist() == [[0]] * NODES
    assert all(status.startswith("done: converged: gradient norm") for status in run.statuses)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("held", [16, 2])
def test_a_start_refused_for_want_of_room_leaves_nothing_and_can_be_repeated(tmp_path, monkeypatch, held, failing):
    write_job(tmp_path)
    real, name = Path.write_bytes, f"rank_{failing:05d}.h5"

    def full(path, data):
        if name in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    monkeypatch.setattr("mpi_opt.results.HELD_FILES", held)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(JobError, match=rf"{name}.*No space left on device"):
            simulated(tmp_path, "out")
    assert not (tmp_path / "out").exists()
    simulated(tmp_path, "out")


def test_what_files_hold_does_not_depend_on_how_they_are_kept(tmp_path, monkeypatch):
    write_job(tmp_path)
    held = read_joined(simulated(tmp_path, "held") / "metrics.h5")
    monkeypatch.setattr("mpi_opt.results.HELD_FILES", NODES - 1)
    released = read_joined(simulated(tmp_path, "released") / "metrics.h5")
    assert released.statuses == held.statuses
    for name in ("step", "payload_bytes", "objective_local"):
        np.testing.assert_array_equal(released.series[name], held.series[name])
    for name, values in held.syncs.items():
        np.testing.assert_array_equal(released.syncs[name], values)
    np.testing.assert_array_equal(finals(tmp_path / "released", NODES), finals(tmp_path / "held", NODES))


@pytest.mark.parametrize(("nodes", "hard", "wanted"), [(200, 40, 48), (4, 30, 36)])
def test_a_limit_on_open_files_that_is_too_low_is_told_before_anything_is_made(
    tmp_path, monkeypatch, nodes, hard, wanted
):
    write_job(tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, hard))
    told = rf"{nodes} nodes in one process need {wanted} open files, the limit \(ulimit -n\) is {hard}: raise it"
    with pytest.raises(JobError, match=told):
        simulate_job(load_job(tmp_path / "job.toml", ()), Orders(out=tmp_path / "out"), nodes=nodes)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("nodes", "raised"), [(4, 36), (200, 48)])
def test_the_limit_on_open_files_is_raised_to_what_is_needed(tmp_path, monkeypatch, nodes, raised):
    write_job(tmp_path)
    asked = []

    def note(_, limits):
        asked.append(limits)
        raise InterruptedError  # no need to go on

    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 64))
    monkeypatch.setattr(resource, "setrlimit", note)
    with pytest.raises(InterruptedError):
        simulate_job(load_job(tmp_path / "job.toml", ()), Orders(out=tmp_path / "out"), nodes=nodes)
    assert asked == [(raised, 64)]
