"""The virtual clock is for simulate: over MPI seconds are measured, whatever the job's table says."""

from support.jobs import write_job

from mpi_opt.job import load_job
from mpi_opt.metrics.read import read_joined


def test_run_leaves_the_clock_out_and_says_so(mpirun, tmp_path) -> None:
    job = write_job(tmp_path)
    command = ["-m", "mpi_opt", "run", job, "--out", tmp_path / "run", "--set", "clock.network=wan"]
    mpirun(2, [*command, "--progress", "lines"], timeout=60).check()
    read = read_joined(tmp_path / "run" / "metrics.h5")
    assert read.attributes["clock"] == ""
    assert read.series["seconds"].max() <= read.series["wall_seconds"].max()
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "the job's table [clock] is for mpi-opt simulate: here seconds are measured" in log
    assert "simulated" not in log
    assert load_job(tmp_path / "run" / "job.toml").clock is None
