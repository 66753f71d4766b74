"""``mpi-opt verify`` without MPI: what it says of a sound installation, and of one with a planted fault."""

import fcntl
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from support.verify_faults import FAULTS, planted
from twins import compressors, setting, sparq_matrix

from mpi_opt import cli, launch
from mpi_opt.errors import RankFailedError
from mpi_opt.metrics.recorder import Recorder
from mpi_opt.network.collectives import Solo
from mpi_opt.verify import cases, checks, open_file, reference, runs
from mpi_opt.verify import setting as places
from mpi_opt.verify.findings import Outcome, merged
from mpi_opt.verify.limit import Limit

NAMES = ["launch", "reference", "lockstep", "replicas", "gossip", "bytes", "resume", "metrics"]
NEEDS_MPI = {"lockstep", "bytes"}


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in launch.KNOWN_VARIABLES:
        if not name.endswith("_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "running_world", lambda: None)


def run(folder, capsys, *words):
    code = cli.main(["verify", "--dir", str(folder), *words])
    assert list(Path(folder).iterdir()) == [], "something was left behind"
    return code, capsys.readouterr().out


def checks_of(folder, capsys):
    code, out = run(folder, capsys, "--json")
    report = json.loads(out)
    assert report["exit_code"] == code
    return code, {check["name"]: check for check in report["checks"]}


def only(monkeypatch, *names):
    monkeypatch.setattr(checks, "CHECKS", tuple(check for check in checks.CHECKS if check.name in names))


def alone(folder, **changes):
    fields = {
        "collectives": Solo(), "nodes": 3, "local": (0, 1, 2), "comm": None, "folder": folder, "shared": "",
        "seconds": 30.0,
    }  # fmt: skip
    return places.Setting(**{**fields, **changes})


def test_sound(tmp_path, capsys):
    code, out = run(tmp_path, capsys)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "mpi-opt verify: 4 virtual nodes in one process, no MPI"
    assert [line[10:].split()[0] for line in lines[1:-1]] == NAMES
    for line in lines[1:-1]:
        name = line[10:].split()[0]
        assert line.startswith("left out" if name in NEEDS_MPI else "ok "), line
        assert ("mpiexec -n 4 mpi-opt verify" in line) == (name in NEEDS_MPI)
    assert lines[-1].startswith("6 ok, 0 failed, 2 left out, in ")
    assert lines[-1].endswith("; with MPI: mpiexec -n 4 mpi-opt verify")


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - {"byte", "evaluation", "lost", "hangs"}))
def test_planted(name, tmp_path, capsys):
    with planted(name):
        code, found = checks_of(tmp_path, capsys)
    assert code == 6
    assert found.keys() == set(FAULTS[name][1])
    for check in found.values():
        assert check["status"] == ("ok" if (name, check["name"]) == ("raises", "gossip") else "FAILED"), check
        assert bool(check["what_to_do"]) == (check["status"] == "FAILED")
    if name == "raises":
        assert "ZeroDivisionError: planted (verify_faults.py:" in found["reference"]["detail"]


def test_failure_is_told_with_its_remedy(tmp_path, capsys):
    with planted("turned"):
        code, out = run(tmp_path, capsys)
    line, remedy, end = out.splitlines()[1:]
    assert code == 6
    assert line.startswith("FAILED    reference  SPARQ-SGD: after step ")
    assert remedy.strip().startswith("what to do: trust no result of this installation. Try 'mpi-opt verify'")
    assert end.startswith("0 ok, 1 failed, 0 left out")


def test_metrics_not_written_while_open(monkeypatch, tmp_path, capsys):
    only(monkeypatch, "resume", "metrics")
    monkeypatch.setattr(open_file.Recorder, "position", lambda self: (0, 0))
    code, found = checks_of(tmp_path, capsys)
    assert code == 6
    assert found["metrics"]["detail"] == "rank_00000.h5 shows 0 rows while it is open, written were 5"


def test_metrics_with_a_row_missing(monkeypatch, tmp_path, capsys):
    only(monkeypatch, "resume", "metrics")
    plain = Recorder.row
    monkeypatch.setattr(Recorder, "row", lambda self, values: None if values["step"] == 12 else plain(self, values))
    code, found = checks_of(tmp_path, capsys)
    assert code == 6
    assert found["metrics"]["status"] == "FAILED"
    assert "6 rows" in found["metrics"]["detail"] or "(6, 12)" in found["metrics"]["detail"]


def test_no_checkpoint_is_no_success(monkeypatch, tmp_path, capsys):
    """Without one the resumed run would begin anew, and end alike."""
    only(monkeypatch, "resume")
    monkeypatch.setattr(runs, "_JOB", runs._JOB.replace("every = 12", "every = 1000"))
    code, found = checks_of(tmp_path, capsys)
    assert code == 6
    assert found["resume"]["detail"].startswith("a run of 36 steps wrote no checkpoint")


def test_metrics_are_left_out_without_a_run(monkeypatch, tmp_path, capsys):
    only(monkeypatch, "metrics")
    code, found = checks_of(tmp_path, capsys)
    assert (code, found["metrics"]["status"]) == (0, "left out")
    assert "resume" in found["metrics"]["detail"]


def test_folder_that_ranks_do_not_share(monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "_SIGHT", 0.2)
    for check in (runs.resume, runs.metrics):
        assert "--dir" in check(alone(tmp_path, shared="not seen by ranks [1]")).left_out
    assert checks._sees(tmp_path, Solo()) == f"the folder {tmp_path.parent} of rank 0 is not seen by ranks [0]"


def test_locks(monkeypatch, tmp_path):
    assert open_file.locks(alone(tmp_path)) == ("file locks hold", [])
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert "do not hold" in open_file.locks(alone(tmp_path))[0]

    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    assert open_file.locks(alone(tmp_path))[0].startswith("no file locks here (Operation not supported)")


@pytest.mark.parametrize("words", [["--timeout", "0"], ["--timeout", "nan"], ["--timeout", "x"], ["--dir", ""]])
def test_wrong_words(words, capsys):
    assert cli.main(["verify", *words]) == 2
    assert "allowed" in capsys.readouterr().err


def test_folder_that_is_not_there(tmp_path, capsys):
    assert cli.main(["verify", "--dir", str(tmp_path / "none")]) == 2
    assert "give --dir a folder that exists" in capsys.readouterr().err


def test_limit_ends_and_cleans(tmp_path, capsys):
    folder, ended = tmp_path / "mine", []
    folder.mkdir()
    here = alone(folder, seconds=0.3)
    with Limit(here, ended.append) as limit, here.where.wait_in("neighbours 1, 3"):
        limit.begin("bytes")
        until = time.monotonic() + 10
        while not ended and time.monotonic() < until:
            time.sleep(0.01)
    assert ended == [6]
    assert not folder.exists()
    assert "verify: bytes: not done within 0.3 s, waits for neighbours 1, 3" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_and_clean(number, tmp_path, capsys):
    folder, ended, before = tmp_path / "mine", [], signal.getsignal(number)
    folder.mkdir()
    with Limit(alone(folder), ended.append) as limit:
        limit.begin("resume")
        os.kill(os.getpid(), number)
        until = time.monotonic() + 10
        while not ended and time.monotonic() < until:
            time.sleep(0.01)
    assert ended == [128 + number]
    assert not folder.exists()
    assert f"verify: resume: ended by {number.name}" in capsys.readouterr().err
    assert signal.getsignal(number) is before


def test_faults_of_all_ranks_are_told():
    outcomes = [Outcome("well"), Outcome("well", ["a", "b"]), Outcome("well", ["c"])]
    assert merged("x", "", "do", outcomes, 0.0).detail == "rank 1: a (and 2 more)"
    assert merged("x", "", "do", [Outcome("well"), Outcome("ill")], 0.0).detail == "well"


def test_error_of_a_rank_is_told_by_its_first_line():
    assert checks._told(RankFailedError("one\ntwo")) == "one"


def test_reference_is_independent():
    text = Path(reference.__file__).read_text()
    assert [line for line in text.splitlines() if line.startswith(("import ", "from "))] == [
        "from collections.abc import Sequence", "from typing import NamedTuple", "import numpy as np",
        "import numpy.typing as npt",
    ]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 5])
def test_reference_against_the_tests_own(n):
    parts, W = cases.data(n), reference.metropolis(n, reference.ring(n))
    np.testing.assert_allclose(W, setting.metropolis(n, setting.ring(n)), atol=1e-15)
    total = sum(len(y) for _, y in parts)

    def grad(i, x, rows):
        A, y = parts[i][0][rows], parts[i][1][rows]
        share = n * len(parts[i][1]) / total
        return share * (A.T @ (-y / (1 + np.exp(y * (A @ x))))) / len(y) + cases.L2 * x

    def rows(i, t):
        size, per = len(parts[i][1]), -(-len(parts[i][1]) // cases.BATCH)
        sequence = np.random.SeedSequence(cases.SEED, spawn_key=(1, i, t // per))
        order = np.random.Generator(np.random.PCG64(sequence)).permutation(size)
        return order[t % per * cases.BATCH :][: cases.BATCH]

    twin = sparq_matrix.sparq(
        grad, W, np.zeros((n, cases.DIM)), steps=cases.STEPS, step_size=setting.constant(cases.STEP_SIZE),
        sync_every=cases.SYNC_EVERY, compress=compressors.always(compressors.sign_top_k, cases.K),
        consensus_rate=cases.CONSENSUS_RATE, threshold=setting.constant(cases.THRESHOLD), rows=rows,
    )  # fmt: skip
    course = reference.sparq_sgd(
        parts, W, steps=cases.STEPS, step_size=cases.STEP_SIZE, sync_every=cases.SYNC_EVERY,
        threshold=cases.THRESHOLD, k=cases.K, consensus_rate=cases.CONSENSUS_RATE, batch=cases.BATCH, l2=cases.L2,
        seed=cases.SEED,
    )  # fmt: skip
    np.testing.assert_allclose(course.models, twin.X, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(course.fired, twin.fired)
    assert 0.2 < course.fired.mean() < 0.6


def test_page_shows_what_the_command_shows(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "verify.md").read_text()
    shown = page.split("```")[3].strip().splitlines()
    assert [row.split("`")[1] for row in page.splitlines() if row.startswith("| `") and "--" not in row] == NAMES
    _, out = run(tmp_path, capsys)
    for here, there in zip(out.splitlines()[1:-1], shown[1:-1], strict=True):
        if here.startswith("ok") and here[10:16] != "launch":
            words = here.split(" moved by ")[0]
            assert there.startswith(words[:70]), (here, there)
