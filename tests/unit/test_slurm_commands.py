"""``mpi-opt submit`` and ``status`` with stand-ins for SLURM's commands; the real ones are in tests/slurm."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.jobs import write_job

from mpi_opt import cli, scheduler
from mpi_opt.errors import JobError
from mpi_opt.status import as_text, status_of
from mpi_opt.submitting import sweep

WORDS = ("--nodes", "2", "--ntasks", "8", "--time", "1:00:00")


@pytest.fixture
def job(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "PMI", "OMPI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return write_job(tmp_path)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder on the path for SLURM's commands; ``make(name, body)`` puts one there."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "cat").symlink_to(shutil.which("cat"))
    monkeypatch.setenv("PATH", str(folder))

    def make(name, body):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return make


def queue(*rows):
    """Return the body of a squeue that answers with rows of (id, state, left, start, restarts, reason)."""
    widths = list(scheduler._FIELDS.values())
    lines = ["".join(str(value).ljust(width) for value, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(["cat <<'END'", *lines, "END"])


def submit(*words):
    return cli.main(["submit", "job.toml", *WORDS, *map(str, words)])


def test_print_only_prints(job, capsys):
    assert submit("--print", "--requeue", 3) == 0
    text = capsys.readouterr().out
    assert text.startswith("#!/bin/bash\n# small: sparq-sgd. Written by:\n#   mpi-opt submit job.toml --nodes 2")
    for line in (
        "--nodes=2",
        "--ntasks=8",
        "--ntasks-per-node=4",
        "--time=01:00:00",
        "--signal=B:USR1@120",
        "--requeue",
    ):
        assert f"#SBATCH {line}\n" in text
    assert not Path("runs").exists()


def test_submitted_it_says_what_next(job, tools, capsys):
    tools("sbatch", 'echo "$@" >sent; echo "41;cluster"')
    tools("squeue", "true")
    assert submit("--set", "stop.steps=7") == 0
    said = capsys.readouterr().out
    assert said.startswith("job 41: small on 8 ranks, 2 nodes, at most 01:00:00\n")
    for words in (
        "runs/small: batch file submit.sbatch",
        "mpi-opt status runs/small",
        "scancel 41",
        "sbatch runs/small/",
    ):
        assert words in said
    assert Path("sent").read_text() == f"--parsable {job.parent}/runs/small/submit.sbatch\n"
    assert Path("runs/small/slurm-job.txt").read_text() == "41\n"
    assert "steps = 7\n" in Path("runs/small/submitted.toml").read_text()
    job.unlink()  # the run has its own copy, which finds the data from anywhere
    os.chdir("/")
    assert (
        cli.main(["simulate", f"{job.parent}/runs/small/submitted.toml", "--nodes", "2", "--out", f"{job.parent}/r"])
        == 0
    )


def test_a_sweep_has_a_job_for_each_run(job, tools, capsys):
    tools("sbatch", "echo 41")
    tools("squeue", queue(*((f"41_{k}", "PENDING", "1:00", "N/A", 0, "Priority") for k in range(4))))
    assert submit("--sweep", "seed=1,2", "--sweep", "stop.steps=5,6", "--array-limit", 2) == 0
    assert "job 41: 4 runs of small on 8 ranks" in capsys.readouterr().out
    text = Path("runs/small/submit.sbatch").read_text()
    assert "#SBATCH --array=0-3%2\n" in text
    assert "#   small-2: seed=2 stop.steps=5\n" in text
    assert [Path(f"runs/small/small-{k}/slurm-job.txt").read_text() for k in (0, 3)] == ["41_0\n", "41_3\n"]
    last = Path("runs/small/small-3/submitted.toml").read_text()
    for line in ('name = "small-3"', "seed = 2", "steps = 6"):
        assert f"{line}\n" in last
    assert cli.main(["status", "--json", "runs/small"]) == 0
    assert [run["job_id"] for run in json.loads(capsys.readouterr().out)] == [f"41_{k}" for k in range(4)]
    assert submit("--sweep", "seed=1,2") == 2
    assert "belongs to job 41_0, which is PENDING" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--set", "stop.stepz=3"], 2, "did you mean 'steps'?"),
        (["--sweep", "algorithm.sync_every=1,x"], 2, "algorithm.sync_every"),
        (["--sweep", "seed=1,,2"], 2, "no value empty"),
        (["--sweep", "seed"], 2, "expected key=a,b,c"),
        (["--sweep", "seed=1", "--sweep", "seed=2"], 2, "the key is there twice"),
        (["--array-limit", "2"], 2, "without --sweep"),
        (["--nodes", "9"], 2, "less than one rank on each of 9 nodes"),
        (["--time", "soon"], 2, "--time soon: allowed: minutes"),
        (["--time", "1", "--signal-ahead", "60"], 2, "the job has only 60 s"),
        (["--site", "none.toml"], 2, "site profile 'none.toml': No such file"),
        (["--launcher", "ssh"], 2, "invalid choice: 'ssh'"),
        (["--dependency", "a\nb"], 2, "line break"),
        (["--requeue", "-1"], 2, "allowed: an integer >= 0"),
        (["--out", "job.toml"], 2, "is a file"),
        ([], 4, "sbatch is not found"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_sent(words, code, said, job, tools, capsys):
    assert submit(*words) == code
    assert said in capsys.readouterr().err


def test_sbatch_s_own_words_are_told(job, tools, capsys):
    tools("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    assert submit() == 4
    assert "invalid partition specified: x" in capsys.readouterr().err
    assert not Path("runs/small/slurm-job.txt").exists()


def test_a_folder_with_a_run_is_refused(job, tools, capsys):
    Path("runs/small").mkdir(parents=True)
    Path("runs/small/job.toml").touch()
    assert submit() == 2
    assert "already holds a run (job.toml): give another --out" in capsys.readouterr().err


def test_minutes_and_seconds_are_remarked_on(job, tools, capsys):
    tools("sbatch", "echo 41")
    assert submit("--time", "30:00") == 0
    assert "SLURM reads --time 30:00 as minutes:seconds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (["a=1,2", "b=x"], [("a=1", "b=x"), ("a=2", "b=x")]),
        (["c={ name = 'a', k = 1 },{ name = 'b' }"], [("c={ name = 'a', k = 1 }",), ("c={ name = 'b' }",)]),
        (["d=[1, 2],[3]", "e='x,y'"], [("d=[1, 2]", "e='x,y'"), ("d=[3]", "e='x,y'")]),
        ([], []),
    ],
)
def test_values_of_a_sweep_may_hold_commas(given, values):
    assert list(sweep(given)) == values


# --- status -----------------------------------------------------------------------------------------------------------


def test_status_of_a_run_without_slurm(job, tools, capsys):
    assert cli.main(["simulate", "job.toml", "--nodes", "3", "--set", "checkpoint.every=25"]) == 0
    capsys.readouterr()
    assert cli.main(["status", "--json", "runs/small"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["folder"], run["name"], run["steps"], run["job_id"], run["slurm"]) == (
        "runs/small",
        "small",
        60,
        "",
        None,
    )
    assert run["progress"]["state"] == "done: 60 steps"
    assert (run["progress"]["step"], run["progress"]["nodes"], run["checkpoint"]) == (60, 3, 50)
    assert cli.main(["status", "runs/small"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("runs/small: step 60 of 60 on 3 nodes; done: 60 steps\n")
    assert "  last checkpoint at step 50, " in said
    assert f"  objective {run['progress']['objective']:.10g} after 20 rounds" in said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            ("41", "PENDING", "1:00:00", "2030-01-01T00:00:00", 0, "Resources"),
            "PENDING, waits for: Resources, expected at 2030",
        ),
        (("41", "RUNNING", "59:58", "2020-01-01T00:00:00", 2, "None"), "RUNNING, 59:58 left, begun again 2 times"),
        (("41", "FAILED", "59:58", "N/A", 1, "NonZeroExitCode"), "FAILED, NonZeroExitCode, begun again 1 time"),
        (("7", "RUNNING", "1", "N/A", 0, "None"), "SLURM does not know it any more"),
    ],
)
def test_what_slurm_says_of_the_job(row, said, job, tools):
    tools("squeue", queue(row))
    run = Path("runs/small")
    run.mkdir(parents=True)
    shutil.copy("job.toml", run / "submitted.toml")
    (run / "slurm-job.txt").write_text("41\n")
    text = as_text(status_of([run]))
    assert text.startswith("runs/small: has not begun\n  job 41: ")
    assert said in text


def test_a_slurm_that_does_not_answer_is_no_error(job, tools):
    run = Path("runs/small")
    run.mkdir(parents=True)
    shutil.copy("job.toml", run / "submitted.toml")
    (run / "slurm-job.txt").write_text("41\n")
    tools("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    assert "squeue gives no answer" in as_text(status_of([run]))
    tools("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert "SLURM does not know it any more" in as_text(status_of([run]))
    (run / "slurm-job.txt").write_text("41; rm -rf /\n")  # not a number: not handed on
    assert "SLURM does not know it any more" in as_text(status_of([run]))


def test_damaged_metrics_do_not_end_it(job, tools):
    run = Path("runs/small")
    (run / "metrics").mkdir(parents=True)
    shutil.copy("job.toml", run / "job.toml")
    (run / "metrics" / "rank_00000.h5").write_bytes(b"x" * 100)
    assert "cannot be opened as HDF5" in as_text(status_of([run]))


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(JobError, match="holds no run"):
        status_of([tmp_path])
    (tmp_path / "sweep.json").write_text('{"runs": 3}')
    with pytest.raises(JobError, match="damaged"):
        status_of([tmp_path])
