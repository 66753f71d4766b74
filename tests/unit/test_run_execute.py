"""What a run of a job leaves, in lockstep and in this process: outputs, rounds, and what survives a failure."""

import numpy as np
import pytest
from support.commands import finals
from support.jobs import write_job

from mpi_opt.errors import MpiOptError
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
