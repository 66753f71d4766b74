"""Submitted, watched, stopped and gone on with: on a real SLURM of four nodes."""

import os
import signal
import time

import h5py
import numpy as np
import pytest
from support.slurm import HERE, SITE, in_steps, until

TEMPLATES = HERE.parents[1] / "slurm"


def finals(out):
    """Return the nodes' last models and the run's model."""
    ranks = sorted((out / "metrics").glob("rank_*.h5"))
    models = [h5py.File(path)["final/model"][:] for path in ranks]
    with h5py.File(out / "metrics.h5") as joined:
        rows = {name: data[:] for name, data in joined["series"].items() if "seconds" not in name}
    return np.array(models), rows


def same(out, whole):
    """See that two runs ended alike to the last bit: models, and all rows but their times."""
    (models, rows), (wanted, wanted_rows) = finals(out), finals(whole)
    assert len(models) == 4
    assert models.tobytes() == wanted.tobytes()
    for name, values in wanted_rows.items():
        np.testing.assert_array_equal(rows[name], values, err_msg=name)


def test_a_job_runs_to_its_end_over_two_nodes(cluster, whole):
    out, number = whole
    fields = cluster.show(number)
    assert (fields["ExitCode"], fields["NumNodes"], fields["NumTasks"]) == ("0:0", "2", "4")
    (status,) = cluster.status(out)
    assert status["progress"]["state"] == "done: 2000 steps"
    assert (status["job_id"], status["slurm"]["state"]) == (number, "COMPLETED")
    assert "MPICH" in cluster.log(number)
    assert "done: 2000 steps" in cluster.mpi_opt("status", out)
    # Once more: nothing is left to be done, and that is no failure.
    again = cluster.call("sbatch", "--parsable", out / "submit.sbatch").strip()
    cluster.wait(again)
    assert "nothing to resume" in cluster.log(again)


def test_mpirun_in_the_allocation_gives_the_same(cluster, job, whole, tmp_path):
    out = tmp_path / "an odd % \"name\" 'of' # $HOME é"
    number = cluster.submit(job, out, "--launcher", "mpirun")
    cluster.wait(number)
    assert (out / f"slurm-{number}.out").exists()
    same(out, whole[0])


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_cancelled_it_leaves_a_checkpoint_and_is_gone_on_with(cluster, job, whole, tmp_path, launcher):
    out = tmp_path / "run"
    number = cluster.submit(job, out, "--launcher", launcher, "--requeue", 3)
    in_steps(out)
    (status,) = cluster.status(out)
    assert status["slurm"]["state"] == "RUNNING"
    assert status["progress"]["state"] == "running"
    assert 0 <= status["progress"]["step"] < 2000
    refused = cluster.mpi_opt("submit", job, "--out", out, "--nodes", 1, "--ntasks", 1, "--time", 1, code=2)
    assert f"belongs to job {number}, which is RUNNING" in refused
    cluster.cancel(number)
    until(lambda: cluster.show(number)["JobState"] == "CANCELLED", 90)
    (status,) = cluster.status(out)
    assert status["slurm"]["state"] == "CANCELLED"  # and not back in the queue
    assert status["progress"]["state"].startswith("paused: SIGTERM")
    assert status["checkpoint"] > 0
    assert "already holds a run" in cluster.mpi_opt(
        "submit", job, "--out", out, "--nodes", 1, "--ntasks", 1, "--time", 1, code=2
    )
    again = cluster.call("sbatch", "--parsable", out / "submit.sbatch").strip()
    cluster.wait(again)
    assert f"resumed from the checkpoint at step {status['checkpoint']}" in cluster.log(again)
    same(out, whole[0])


def test_asked_to_stop_it_requeues_itself_within_its_limit(cluster, job, whole, tmp_path):
    out = tmp_path / "run"
    number = cluster.submit(job, out, "--requeue", 1)
    in_steps(out)
    cluster.call("scancel", "--batch", "--signal=USR1", number)
    until(lambda: cluster.show(number)["Restarts"] == "1", 90, lambda: cluster.told(number))
    (status,) = cluster.status(out)
    assert status["slurm"]["restarts"] == 1
    assert status["progress"]["state"].startswith("paused: SIGUSR1")
    seen = (out / "log.txt").read_text().count("\nstep")
    cluster.wait(number, states=("RUNNING",))
    in_steps(out, seen + 1)
    cluster.call("scancel", "--batch", "--signal=USR1", number)
    fields = cluster.wait(number, states=("FAILED",))
    assert (fields["ExitCode"], fields["Restarts"]) == ("75:0", "1")
    log = cluster.log(number)
    assert "back into the queue, 1 of at most 1 times" in log
    assert f"begun again 1 times of at most 1; go on with:\nsbatch {out / 'submit.sbatch'}" in log
    cluster.wait(cluster.call("sbatch", "--parsable", out / "submit.sbatch").strip())
    same(out, whole[0])


def test_at_its_time_limit_it_stops_in_time_and_finishes_by_itself(cluster, job, tmp_path):
    """SLURM's least limit is a minute, and it looks at limits twice a minute, so the signal comes in the first half.

    How many steps fit is the machine's matter.
    """
    out, uncut = tmp_path / "run", tmp_path / "uncut"
    words = ("--set", "stop.seconds=35", "--set", "stop.steps=10000000")
    number = cluster.submit(job, out, *words, "--time", 1, "--signal-ahead", 50, "--requeue", 9)
    until(lambda: cluster.show(number)["Restarts"] != "0", 120, lambda: cluster.told(number))
    cluster.call("scontrol", "update", f"JobId={number}", "TimeLimit=10")  # once is enough: machines may be slow
    fields = cluster.wait(number)
    assert fields["Restarts"] == "1", cluster.told(number)
    assert "paused: SIGUSR1" in cluster.log(number)
    (status,) = cluster.status(out)
    assert status["progress"]["state"].startswith("done: 35")
    with h5py.File(out / "metrics.h5") as joined:
        steps = int(joined["series/step"][0, -1])
    cluster.wait(cluster.submit(job, uncut, "--set", f"stop.steps={steps}"))
    np.testing.assert_array_equal(finals(out)[0], finals(uncut)[0])


def test_told_its_end_by_slurm_it_pauses_before(cluster, job, tmp_path):
    """``stop.seconds = "slurm"``, with the end moved up before the run begins, as the least limit is a minute."""
    site = tmp_path / "site.toml"
    sooner = "prologue = 'scontrol update JobId=$SLURM_JOB_ID EndTime=$(date -d \"now + 45 seconds\" +%FT%T)'\n"
    site.write_text(sooner + SITE.read_text())
    out = tmp_path / "run"
    words = ("--set", "stop.steps=10000000", "--set", "stop.seconds=slurm", "--signal-ahead", 0)
    number = cluster.submit(job, out, *words, site=site)
    fields = cluster.wait(number, states=("FAILED",))
    assert fields["ExitCode"] == "75:0", cluster.told(number)
    (status,) = cluster.status(out)
    assert status["progress"]["state"].startswith("paused: its time is over")


def test_a_sweep_is_an_array_of_runs(cluster, job, tmp_path):
    out = tmp_path / "sweep"
    words = ("--sweep", "algorithm.sync_every=1,5", "--sweep", "seed=1,2", "--array-limit", 3)
    number = cluster.submit(job, out, *words, "--set", "stop.steps=20", ranks=2)
    for status in cluster.status(out):  # also those that must wait for others
        assert status["slurm"]["state"] in ("PENDING", "RUNNING", "COMPLETING", "COMPLETED")
    for index in range(4):
        cluster.wait(f"{number}_{index}")
    statuses = cluster.status(out)
    assert [status["job_id"] for status in statuses] == [f"{number}_{index}" for index in range(4)]
    assert {status["progress"]["state"] for status in statuses} == {"done: 20 steps"}
    for index, (every, seed) in enumerate([(1, 1), (1, 2), (5, 1), (5, 2)]):
        text = (out / f"small-{index}" / "job.toml").read_text()
        assert f"sync_every = {every}\n" in text
        assert f"seed = {seed}\n" in text
        assert f'name = "small-{index}"\n' in text
        assert (out / f"small-{index}" / f"slurm-{number}_{index}.out").exists()


def test_a_dying_rank_ends_the_job_at_once(cluster, job, tmp_path):
    out = tmp_path / "run"
    number = cluster.submit(job, out, "--set", "stop.steps=10000000", "--requeue", 3)
    in_steps(out)
    (victim,) = [pid for pid, rank in cluster.processes(number).items() if rank == 2]
    since = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    fields = cluster.wait(number, states=("FAILED",))
    took = time.monotonic() - since
    print(f"rank 2 killed; the job ended {took:.1f} s later with {fields['ExitCode']}")
    assert took < 15
    assert fields["Restarts"] == "0"
    until(lambda: not cluster.processes(number), 30)
    assert "not running: it was ended from outside" in cluster.mpi_opt("status", out)


def test_what_slurm_refuses_is_said_in_its_words(cluster, job, tmp_path):
    site = tmp_path / "site.toml"
    site.write_text('partition = "nowhere"\n')
    words = ("submit", job, "--nodes", 1, "--ntasks", 1, "--time", 1, "--out", tmp_path / "run")
    said = cluster.mpi_opt(*words, "--site", site, code=4)
    assert "sbatch refuses" in said
    assert "invalid partition" in said
    # And once it is put right, the same command works; held, it waits.
    site.write_text('sbatch = ["--hold"]\n')
    number = cluster.mpi_opt(*words, "--site", site).split()[1].rstrip(":")
    told = cluster.mpi_opt("status", tmp_path / "run")
    assert "has not begun" in told
    assert f"job {number}: PENDING, waits for: JobHeldUser" in told
    cluster.cancel(number)


@pytest.mark.parametrize("template", ["run-srun.sbatch", "run-mpirun.sbatch", "sweep.sbatch"])
def test_the_templates_work_as_they_are(cluster, job, tmp_path, template):
    out, short = tmp_path / "run", tmp_path / "short.toml"
    short.write_text(job.read_text().replace("2000", "100"))
    tasks = ("_0", "_2") if template == "sweep.sbatch" else ("",)
    array = ("--array=0,2",) if len(tasks) > 1 else ()
    said = cluster.call(
        "sbatch", "--parsable", "--output=%j.out", *array, TEMPLATES / template, short, out, cwd=tmp_path
    )
    for task in tasks:
        cluster.wait(said.strip() + task)
        (status,) = cluster.status(out / task.strip("_"))
        assert status["progress"]["state"] == "done: 100 steps"
        assert status["progress"]["nodes"] == 4
        assert status["slurm"]["state"] == "COMPLETED"


def test_a_scaling_test_is_an_array_for_each_number_of_ranks(cluster, job, tmp_path):
    out = tmp_path / "scale"
    words = (
        "scale",
        job,
        "--ranks",
        "1,2,4",
        "--repeats",
        2,
        "--out",
        out,
        "--slurm",
        "--ranks-per-node",
        2,
        "--time",
        5,
    )
    words += ("--site", SITE, "--set", "stop.steps=60", "--set", "metrics.every=10")
    told = cluster.mpi_opt(*words).splitlines()
    numbers = [line.split()[3].rstrip(",") for line in told[:3]]
    assert told[2] == f"4 ranks: job {numbers[2]}, 2 of 2 runs on 2 hosts"
    for number in numbers:
        for repeat in (0, 1):
            cluster.wait(f"{number}_{repeat}")
    table = cluster.mpi_opt("scale", out, "--network", "none", "--figure", "none", "--skip", 10)
    assert [line.split()[:4] for line in table.splitlines()[4:7]] == [[str(n), "2", "of", "2"] for n in (1, 2, 4)]
    assert "failed" not in table
    again = cluster.mpi_opt(*words).splitlines()
    assert again[:3] == [f"{n} rank{'s' * (n > 1)}: nothing to submit, 2 of 2 done" for n in (1, 2, 4)]
