"""Points run by a launcher that is a script: what it is told, how it fails, hangs, is interrupted, and goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.stored_runs import JOB, store

from mpi_opt import cli
from mpi_opt.errors import JobError, LaunchError
from mpi_opt.report.scaletable import as_text
from mpi_opt.scaletest.answer import answer
from mpi_opt.scaletest.launching import Launcher, find_launcher
from mpi_opt.scaletest.local import Means, run_points
from mpi_opt.scaletest.running import run_command
from mpi_opt.scaletest.study import make_study, read_study

FAKE = """#!{python} -IS
import os, shutil, sys, time, pathlib
words = sys.argv[1:]
with open({log!r}, "a") as log:
    print(*words, file=log)
ranks = int(words[words.index("-n") + 1])
if "info" in words:
    sys.exit("no network here")
out = pathlib.Path(words[words.index("--out") + 1])
behaviour = {behaviour}
print("launched", flush=True)
if ranks == behaviour.get("fails"):
    print("mpi-opt: error: rank 1 of 4: lost its way", file=sys.stderr)
    sys.exit(behaviour.get("code", 6))
if ranks == behaviour.get("hangs"):
    time.sleep(600)
shutil.copytree(pathlib.Path({store!r}) / str(ranks), out, dirs_exist_ok=True)
"""


@pytest.fixture
def alone(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "PMI", "OMPI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.txt").write_text("".join(f"{(-1) ** j} 1:{j}\n" for j in range(40)))
    (tmp_path / "job.toml").write_text(JOB.replace("NAME", "small"))
    return tmp_path


@pytest.fixture
def fake(alone):
    """Make a launcher that leaves stored runs, or what ``behaviour`` says, and notes its command lines."""
    stored, log = alone / "stored", alone / "commands.txt"
    log.touch()
    for ranks, slow in ((1, 4.0), (2, 2.5), (4, 2.0)):
        store(stored / str(ranks), [0.9, 0.5, 0.4, 0.3, 0.2, 0.1], nodes=ranks, slow=slow)

    def make(**behaviour):
        script = alone / "fake-mpiexec"
        script.write_text(
            FAKE.format(python=sys.executable, log=str(log), store=str(stored), behaviour=repr(behaviour))
        )
        script.chmod(0o755)
        return script

    make.commands = lambda: log.read_text().splitlines()
    return make


def run(study, script, limit=60.0, tell=lambda line: None):
    means = Means(
        launcher=Launcher((str(script), "--opt")), limit=limit, environ=dict(os.environ), measure=False, tell=tell
    )
    run_points(study, means)


def study_of(ranks=(1, 2, 4), **other):
    words = {"mode": "strong", "repeats": 2, **other}
    return make_study(Path("job.toml"), ["stop.steps=100"], ranks=ranks, **words)


def test_every_point_is_an_ordinary_run_repeat_by_repeat_and_done_ones_stay(fake):
    study, told = study_of(), []
    run(study, fake(), tell=told.append)
    commands = fake.commands()
    assert [line.split()[:3] for line in commands] == [["--opt", "-n", str(n)] for n in (1, 2, 4, 1, 2, 4)]
    for line, point in zip(commands, study.plan.points(), strict=True):
        place = study.place(point)
        job = place / "submitted.toml"
        assert line.endswith(f" run {job} --out {place} --overwrite --progress none")
        assert f'name = "small-{point.ranks}-{point.repeat}"' in job.read_text()
        assert json.loads((place / "point.json").read_text())["code"] == 0
        assert (place / "output.txt").read_text() == "launched\n"
    assert str(study.place(study.plan.points()[0])) == "runs/small-scale/small-1/small-1-0"
    report = answer(study)
    assert [merit.runs for merit in report.merits] == [2, 2, 2]
    assert [merit.step for merit in report.merits] == pytest.approx([0.4, 0.25, 0.2])
    assert [merit.speedup for merit in report.merits] == pytest.approx([1.0, 1.6, 2.0])
    assert not report.failures
    # Once more, and with more: only what is not there is run.
    grown = study_of(ranks=(1, 8), repeats=2)
    assert grown.plan.ranks == (1, 2, 4, 8)
    run(grown, fake(fails=8, code=2), tell=told.append)
    new = fake.commands()[len(commands) :]
    assert [line.split()[2] for line in new] == ["8"]
    assert "[1/8] 1 rank, repeat 1: done before" in told
    assert told[-1] == "[8/8] 8 ranks, repeat 2: not tried, as the last run on as many ranks ended with exit code 2"


def test_a_point_that_fails_is_said_and_tried_again_next_time(fake):
    study, told = study_of(), []
    run(study, fake(fails=2), tell=told.append)
    assert told[1] == "[2/6] 2 ranks, repeat 1: failed, exit code 6: rank 1 of 4: lost its way"
    report = answer(study)
    assert [merit.runs for merit in report.merits] == [2, 0, 2]
    assert report.failures == (
        "2 ranks, repeat 1: exit code 6: rank 1 of 4: lost its way",
        "2 ranks, repeat 2: exit code 6: rank 1 of 4: lost its way",
    )
    assert "failed: 2 ranks, repeat 1: exit code 6: rank 1 of 4: lost its way" in as_text(report)
    before = len(fake.commands())
    run(study, fake())
    assert [line.split()[2] for line in fake.commands()[before:]] == ["2", "2"]
    assert not answer(study).failures


def test_a_point_that_hangs_is_ended_with_all_its_processes_at_the_time_limit(fake):
    study, told = study_of(ranks=(4,), repeats=1), []
    began = time.monotonic()
    run(study, fake(hangs=4), limit=1.0, tell=told.append)
    assert time.monotonic() - began < 300  # of the 600 that it would sleep
    words = r"4 ranks, repeat 1: (failed, )?ended at its time limit, after \d+ s"
    assert re.fullmatch(r"\[1/1\] " + words, told[0])
    (failure,) = answer(study).failures
    assert re.fullmatch(words, failure)


def test_no_process_is_left_behind_whatever_group_it_moved_to(tmp_path):
    child = "import os, time, sys; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    start = f"subprocess.Popen([sys.executable, '-IS', '-c', {child!r}, sys.argv[1]])"
    body = f"import subprocess, sys, time; {start}; time.sleep(600)"
    noted = tmp_path / "pid"
    for limit in (1.0, 10.0, 60.0):  # a busy machine may not have come so far
        words = (sys.executable, "-IS", "-c", body, str(noted))
        ended = run_command(words, tmp_path / "out", limit, dict(os.environ))
        assert (ended.timed_out, ended.fine) == (True, False)
        assert ended.code == -signal.SIGTERM
        if noted.exists() and noted.read_text():
            break
    pid = int(noted.read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            break
        if state == "Z":  # ended; whoever adopted it has not looked yet
            break
        time.sleep(0.05)
    else:
        pytest.fail(f"process {pid} is still there")


def test_interrupted_it_leaves_a_table_of_what_there_is(fake, alone):
    script = fake(hangs=2)
    words = ["scale", "job.toml", "--ranks", "1,2", "--repeats", "1", "--network", "none", "--figure", "none"]
    words += ["--launcher", str(script)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mpi_opt", *words],
        cwd=alone,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1]), "PYTHONWARNINGS": "default"},
    )
    try:
        for _ in range(600):
            if len(fake.commands()) == 2:
                break
            time.sleep(0.1)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "small: strong scaling of sparq-sgd" in out
    assert re.search(r"^2 +0 of 1 .* no figures$", out, re.MULTILINE)
    assert "note: the ratios are against 1 rank, a point that is itself marked: one run" in out
    assert "interrupted: the point under way was ended; the same command goes on with the others" in err


def command(*words):
    return cli.main(["scale", *map(str, words)])


def test_the_command_writes_all_forms_and_collects_again(fake, alone, capsys):
    words = ("--network", "none", "--csv", "a.csv", "--json", "a.json", "--markdown", "a.md", "--figure", "a.svg")
    asked = ("--set", "stop.steps=100", "--ranks", "1,2", "--repeats", "2")
    assert command("job.toml", *asked, "--launcher", fake(), *words) == 0
    first = capsys.readouterr().out
    assert "Karp-Flatt" in first
    # The same from the folder, without running anything.
    ran = len(fake.commands())
    assert command("runs/small-scale", "--network", "none", "--skip", 30) == 0
    assert capsys.readouterr().out == first
    assert len(fake.commands()) == ran == 4
    assert Path("a.csv").read_text().count("\n") == 3
    assert json.loads(Path("a.json").read_text())["mode"] == "strong"
    assert "| ranks | runs |" in Path("a.md").read_text()
    assert Path("a.svg").read_text().startswith("<?xml")
    assert Path("runs/small-scale/scale.png").exists()


def test_a_failed_point_gives_a_code_of_its_own(fake, capsys):
    asked = ("job.toml", "--ranks", "1,2", "--repeats", "1", "--network", "none", "--figure", "none")
    assert command(*asked, "--launcher", fake(fails=2)) == 6
    assert "failed: 2 ranks, repeat 1: exit code 6" in capsys.readouterr().out
    assert command("runs/small-scale", "--network", "none", "--figure", "none") == 0
    assert not list(Path("runs/small-scale").glob("scale.p*"))


def test_without_matplotlib_the_table_is_made_all_the_same(fake, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    asked = ("job.toml", "--ranks", "1", "--repeats", "1", "--network", "none", "--launcher", fake())
    assert command(*asked) == 0
    told = capsys.readouterr()
    assert "small: strong scaling" in told.out
    assert "no plot: matplotlib is not installed; pip install 'mpi_opt[report]'" in told.err


def test_a_target_is_told_apart(fake, capsys):
    asked = ("--ranks", "1,2", "--repeats", "2", "--network", "none", "--figure", "none", "--launcher", fake())
    # stored: F = 0.3 at row 3, step 60, 3 x 2 s x slow
    assert command("job.toml", *asked, "--target", "0.3", "--measure", "objective") == 0
    lines = capsys.readouterr().out.split("apart from that: objective <= 0.3 at the averaged model")[1].splitlines()
    rows = {line.split()[0]: line.split()[4:6] for line in lines if line[:1].isdigit()}
    assert rows == {"1": ["60", "12"], "2": ["60", "12"]}
    assert "24 s" in lines[4]
    assert "15 s" in lines[5]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["job.toml"], "--ranks: missing"),
        (["job.toml", "--ranks", "1,x"], "'x' is no number of ranks"),
        (["job.toml", "--ranks", "1", "--rows-per-rank", "5"], "--rows-per-rank: has no meaning without --mode weak"),
        (["job.toml", "--ranks", "1", "--measure", "error"], "--measure without --target"),
        (["job.toml", "--ranks", "1", "--network", "carrier-pigeon"], "network 'carrier-pigeon' is not known"),
        (["job.toml", "--ranks", "1", "--figure", "a.gif"], "--figure a.gif: allowed"),
        (["job.toml", "--ranks", "1", "--slurm"], "--slurm without --ranks-per-node"),
        (["job.toml", "--ranks", "1", "--print"], "--print: prints batch files"),
        (["job.toml", "--ranks", "1", "--launcher", "no-such-thing -x"], "no-such-thing is not found"),
        (["job.toml", "--ranks", "1,5", "--set", "graph.name=hypercube"], "--ranks 5: "),
        (["nowhere", "--collect"], "--ranks: missing"),
        ([".", "--collect"], "holds no scaling test"),
    ],
)
def test_wrong_words_are_told_before_anything_runs(alone, capsys, words, told):
    assert command(*words) in (2, 4)
    assert told in capsys.readouterr().err
    assert not (alone / "runs").exists()


def test_the_folder_of_another_test_is_refused(alone):
    study_of().save()
    for change in ({"settings": ["stop.steps=90"]}, {"settings": ["stop.steps=100"], "mode": "weak"}):
        asked = {"ranks": (1,), "mode": "strong", "repeats": 1, "out": Path("runs/small-scale"), **change}
        with pytest.raises(JobError, match="holds a scaling test of"):
            make_study(Path("job.toml"), asked.pop("settings"), **asked)
    store(Path("runs/other"), [0.5, 0.4])
    with pytest.raises(JobError, match="holds something else than a scaling test"):
        study_of(out=Path("runs/other"))
    assert read_study(Path("runs/small-scale")) == study_of()


def test_weak_scaling_keeps_the_rows_of_a_rank(alone):
    study = study_of(mode="weak")
    assert study.folder == Path("runs/small-scale-weak")
    assert study.plan.rows == 10  # 40 rows on the most ranks
    rows = {point.ranks: study.job_of(point).data.rows for point in study.plan.points()}
    assert rows == {1: 10, 2: 20, 4: 40}
    assert study_of(mode="weak", rows=3, out=Path("other")).plan.rows_on(4) == 12
    study.save()
    with pytest.raises(JobError, match="--rows-per-rank 3: the test in .* has 10"):
        study_of(mode="weak", rows=3)
    assert read_study(study.folder).plan == study.plan


def test_what_starts_ranks_is_found_beside_this_python_or_as_it_is_named(tmp_path, monkeypatch):
    beside = tmp_path / "scripts"
    beside.mkdir()
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(beside))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="no mpiexec is found"):
        find_launcher(None, {})
    for folder, name in ((tmp_path, "mpirun"), (beside, "mpiexec"), (tmp_path, "srun"), (tmp_path, "mpiexec.openmpi")):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
        if name == "mpirun":
            assert find_launcher(None, {}).words == (str(tmp_path / "mpirun"),)
    assert find_launcher(None, {}).command(3, ("a", "b")) == (str(beside / "mpiexec"), "-n", "3", "a", "b")
    assert find_launcher(None, {"SLURM_JOB_ID": "7"}).words == ("srun", "--kill-on-bad-exit=1")
    named = find_launcher("mpiexec.openmpi --map-by ':OVERSUBSCRIBE'", {"SLURM_JOB_ID": "7"})
    assert named.words == (str(tmp_path / "mpiexec.openmpi"), "--map-by", ":OVERSUBSCRIBE")
    with pytest.raises(JobError, match="No closing quotation"):
        find_launcher("mpiexec 'x", {})
    with pytest.raises(LaunchError, match="nothing is not found"):
        find_launcher("", {})
