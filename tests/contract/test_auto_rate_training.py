"""``consensus_rate = "auto"`` in training, where nodes pull apart for good: MNIST by label, nobody sees every digit."""

import numpy as np
import pytest
from support.commands import ROOT

from mpi_opt.execute import Orders, simulate_job
from mpi_opt.job import load_job
from mpi_opt.metrics.joined import read_joined


@pytest.mark.slow
@pytest.mark.parametrize("threshold", ["0.0", "20000.0"])
def test_training_is_stable_at_the_rate_found(threshold, datasets, tmp_path, monkeypatch):
    """Eight nodes on a ring, 10 signs of 7,850 entries every five steps, whether all speak or few."""
    monkeypatch.setenv("MPI_OPT_DATASETS", str(datasets))
    words = [f"algorithm.threshold={threshold}", "stop.steps=1000", "metrics.every=250", "metrics.nodes=8"]
    job = load_job(ROOT / "jobs" / "mnist-sparq.toml", words)
    assert (job.algorithm.consensus_rate, job.algorithm.sync_every, job.algorithm.batch) == ("auto", 5, 5)
    assert job.data.partition.name == "by-label"
    assert simulate_job(job, Orders(out=tmp_path / "out", progress="none", command=["test"]), nodes=8) == 0
    run = read_joined(tmp_path / "out" / "metrics.h5")
    rate = load_job(tmp_path / "out" / "job.toml").algorithm.consensus_rate
    assert 1e-3 < rate <= 1.0
    fired = run.syncs["fired"]
    assert fired.all() if threshold == "0.0" else 0 < fired.mean() < 1
    for name in ("objective_average", "objective_worst", "consensus_distance"):
        assert np.isfinite(run.series[name]).all(), name
    average, worst = run.series["objective_average"][0], run.series["objective_worst"][0]
    assert average[0] == pytest.approx(np.log(10))
    assert (np.diff(average) < 0).all(), average
    assert average[-1] < 0.85 * average[0], average
    # Nodes' own models favour their own digits, but not without bound.
    assert worst[-1] < 3 * worst[0], worst
    # It grows while the nodes leave zero, and stands when they have parted.
    apart = run.series["consensus_distance"][0]
    assert apart[-1] < 1.05 * apart[-2], apart
