"""Real data over MPI: a9a against figures of an outside implementation, MNIST on sixty ranks against lockstep."""

import json
import os

import numpy as np
import pytest
from support.commands import ROOT, finals, settings, simulate
from twins.a9a_anchor import EXPECTED

from mpi_opt.metrics.joined import read_joined


def test_a9a_anchor(mpirun, datasets, tmp_path):
    commands = [
        ["run", str(ROOT / "jobs" / "a9a-sparq.toml"), "--out", str(tmp_path / str(c))]
        + settings(f"algorithm.threshold={c}", "network.check=true")
        for c in EXPECTED
    ]
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    script = ROOT / "tests" / "support" / "several.py"
    mpirun(4, [script, tmp_path / "commands.json"], env={"MPI_OPT_DATASETS": str(datasets)}, timeout=100).check()
    for c, (figures, firings) in EXPECTED.items():
        run = read_joined(tmp_path / str(c) / "metrics.h5")
        np.testing.assert_allclose(run.series["objective_local"][:, -1], figures, rtol=0, atol=1e-10)
        assert int(run.syncs["fired"].sum()) == firings
        assert run.syncs["fired"].shape == (4, 40)


@pytest.mark.slow
def test_mnist_on_sixty_ranks_and_in_lockstep(mpirun, datasets, tmp_path):
    job = ROOT / "jobs" / "mnist-sparq.toml"
    words = ["stop.steps=50", "metrics.every=50", "metrics.nodes=2", "algorithm.consensus_rate=0.02"]
    place = {"MPI_OPT_DATASETS": str(datasets)}
    mpirun(60, ["mpi-opt", "run", job, "--out", tmp_path / "mpi", *settings(*words)], env=place, timeout=240).check()
    simulate(job, 60, tmp_path / "lockstep", *words, env={**os.environ, **place})
    over_mpi, virtual = finals(tmp_path / "mpi", 60), finals(tmp_path / "lockstep", 60)
    np.testing.assert_array_equal(over_mpi, virtual)
    assert over_mpi.shape == (60, 7850)
    assert np.ptp(over_mpi, axis=0).max() > 0, "nodes differ"
    fired = read_joined(tmp_path / "mpi" / "metrics.h5").syncs["fired"]
    np.testing.assert_array_equal(fired, read_joined(tmp_path / "lockstep" / "metrics.h5").syncs["fired"])
    assert fired.any()
