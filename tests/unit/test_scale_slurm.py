"""A scaling test by SLURM: the batch file, and what is submitted, left alone and told, with stand-ins for SLURM."""

import os
import re
import shutil
from pathlib import Path

import pytest
from support.stored_runs import JOB, store

from mpi_opt import cli, scheduler
from mpi_opt.scaletest.answer import answer
from mpi_opt.scaletest.queueing import Queue, batches
from mpi_opt.scaletest.study import Study, make_study, read_study
from mpi_opt.slurm import batch_text
from mpi_opt.status import status_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "scale"


@pytest.fixture
def alone(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "PMI", "OMPI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.txt").write_text("".join(f"{(-1) ** j} 1:{j}\n" for j in range(40)))
    (tmp_path / "job.toml").write_text(JOB.replace("NAME", "small"))
    (tmp_path / "site.toml").write_text('command = ["/home/me/venv/bin/mpi-opt"]\nsbatch = ["--exclusive"]\n')
    return tmp_path


@pytest.fixture
def slurm(alone, monkeypatch):
    """Stand-ins: an sbatch that numbers jobs and notes its words, a squeue that answers what it is told to."""
    tools = alone / "tools"
    tools.mkdir()
    for name in ("cat", "sh"):
        (tools / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tools))

    def make(name, body):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)

    make(
        "sbatch", f'echo "$@" >>{alone}/sent\nn=0; while read -r _; do n=$((n+1)); done <{alone}/sent; echo $((100+n))'
    )
    make("squeue", "true")

    def queued(*rows):
        widths = list(scheduler._FIELDS.values())
        lines = ["".join(str(v).ljust(w) for v, w in zip(row, widths, strict=True)) for row in rows]
        make("squeue", "\n".join(["cat <<'END'", *lines, "END"]))

    queued.sent = lambda: (alone / "sent").read_text().splitlines() if (alone / "sent").exists() else []
    return queued


WORDS = (
    "--ranks",
    "1,2,6",
    "--repeats",
    "3",
    "--ranks-per-node",
    "4",
    "--time",
    "10",
    "--site",
    "site.toml",
    "--slurm",
)


def scale(*words):
    return cli.main(["scale", "job.toml", *WORDS, *map(str, words)])


def test_the_batch_file_is_the_golden_one(alone):
    study = make_study(Path("job.toml"), [], ranks=(2, 6), mode="weak", repeats=3, rows=5)
    study = Study(Path("/home/me/runs/small-scale-weak"), study.job, study.plan)
    queue = Queue(
        ranks_per_node=4,
        time="10",
        site=Path("site.toml"),
        launcher=None,
        dependency="afterok:7",
        command=("mpi-opt", "scale", "job.toml", "--mode", "weak"),
    )
    made = batches(study, queue)
    assert {ranks: (batch.nodes, batch.ntasks) for ranks, batch in made.items()} == {2: (1, 2), 6: (2, 6)}
    path, text = GOLDEN / "weak-6.sbatch", batch_text(made[6])
    if os.environ.get("MPI_OPT_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"if the change is meant, write {path.name} anew with MPI_OPT_WRITE_GOLDEN=1"


def test_print_only_prints_one_file_a_number_of_ranks(slurm, alone, capsys):
    assert scale("--print") == 0
    text = capsys.readouterr().out
    assert text.count("#!/bin/bash") == 3
    assert re.findall(r"#SBATCH --(?:nodes|ntasks|array)=\S+", text) == [
        *("#SBATCH --nodes=1", "#SBATCH --ntasks=1", "#SBATCH --array=0-2%1"),
        *("#SBATCH --nodes=1", "#SBATCH --ntasks=2", "#SBATCH --array=0-2%1"),
        *("#SBATCH --nodes=2", "#SBATCH --ntasks=6", "#SBATCH --array=0-2%1"),
    ]
    assert not slurm.sent()
    assert not (alone / "runs").exists()


def test_jobs_are_sent_then_only_what_is_not_done_and_not_queued(slurm, capsys):
    assert scale() == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:3] == [
        "1 rank: job 101, 3 of 3 runs on 1 host",
        "2 ranks: job 102, 3 of 3 runs on 1 host",
        "6 ranks: job 103, 3 of 3 runs on 2 hosts",
    ]
    assert "mpi-opt scale runs/small-scale --collect" in told[3]
    assert [line.split()[-1] for line in slurm.sent()] == [
        str(Path(f"runs/small-scale/small-{n}/submit.sbatch").absolute()) for n in (1, 2, 6)
    ]
    study = read_study(Path("runs/small-scale"))
    for point in study.plan.points():
        assert f'name = "{point.name("small")}"' in (study.place(point) / "submitted.toml").read_text()
        number = {1: 101, 2: 102, 6: 103}[point.ranks]
        assert (study.place(point) / "slurm-job.txt").read_text() == f"{number}_{point.repeat}\n"
    assert [Path(status.folder).name for status in status_of([study.folder])] == [
        point.name("small") for point in sorted(study.plan.points())
    ]
    # 1 rank is done but for its second repeat, 2 ranks wait, one of 6 was killed on its way.
    for name in ("small-1-0", "small-1-2", "small-6-0", "small-6-1"):
        store(study.folder / name.rpartition("-")[0] / name, [0.5, 0.4], nodes=int(name[6]), status="done: 60 steps")
    killed = study.folder / "small-6" / "small-6-2"
    store(killed, [0.5, 0.4], nodes=6, status="running")
    slurm(*(((f"102_{k}"), "PENDING", "", "", 0, "Priority") for k in range(3)), ("101_1", "FAILED", "", "", 0, ""))
    capsys.readouterr()
    assert scale() == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "1 rank: job 104, 1 of 3 runs on 1 host",
        "2 ranks: nothing to submit, 0 of 3 done, 3 in the queue",
        "6 ranks: job 105, 1 of 3 runs on 2 hosts",
    ]
    assert [line.split()[1:-1] for line in slurm.sent()[3:]] == [["--array=1%1"], ["--array=2%1"]]
    assert not (killed / "metrics").exists()  # it begins again, not from where it was
    report = answer(read_study(study.folder))
    assert [merit.runs for merit in report.merits] == [2, 0, 2]
    assert report.failures[0].startswith("1 rank, repeat 2: no figures of SLURM's job 104_1: it waits, or see ")
    assert report.failures[0].endswith("small-1-1/slurm-104_1.out")


def test_without_slurm_it_says_so_and_leaves_the_files(alone, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(alone))
    assert scale() == 4
    assert "sbatch is not found" in capsys.readouterr().err
    assert (alone / "runs/small-scale/small-1/submit.sbatch").exists()
    assert scale("--collect") == 2
    assert "--slurm: not together with --collect" in capsys.readouterr().err
