"""``mpi-opt verify`` under mpiexec: sound, with faults planted on one rank, and where a rank fails or stops."""

import json
from pathlib import Path

import pytest
from support.verify_faults import FAULTS

SCRIPT = Path(__file__).parents[1] / "support" / "verify_faults.py"
ENDING = ("raises", "hangs")
"""Faults that end all ranks."""


def everything(result):
    return result.output + "".join(result.logs.values())


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_sound(n, mpirun, tmp_path):
    result = mpirun(n, ["mpi-opt", "verify", "--dir", tmp_path, "--json"], timeout=200).check()
    text = everything(result)
    report = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert (report["ranks"], report["nodes"]) == (n, n)
    found = {check["name"]: check["status"] for check in report["checks"]}
    assert len(found) == 8
    assert {name for name, status in found.items() if status != "ok"} == ({"replicas"} if n == 1 else set())
    assert list(tmp_path.iterdir()) == []


def test_faults_on_one_rank(mpirun, tmp_path):
    """Each is found by the checks it is about; one rank has it, not the one that compares."""
    names = [name for name in FAULTS if name not in ENDING]
    result = mpirun(4, [SCRIPT, tmp_path, "1", *names], timeout=200)
    assert result.code == 6, result
    for name in names:
        report = json.loads((tmp_path / f"{name}.json").read_text())
        for check in report["checks"]:
            assert check["status"] == "FAILED", (name, check)
            assert check["what_to_do"]
            if check["name"] in ("bytes", "replicas", "resume"):
                assert check["detail"].startswith("rank "), check
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.json" for name in names)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "verify: reference: rank 1 of 3: ZeroDivisionError: planted (verify_faults.py:"),
        ("hangs", "verify: reference: rank 0 of 3: not done within 4 s, waits for "),
    ],
)
def test_a_rank_that_fails_or_stops_ends_all(name, said, mpirun, tmp_path):
    result = mpirun(3, [SCRIPT, tmp_path, "1", name], timeout=60)
    assert not result.timed_out, result
    assert result.code == 6, result
    assert said in everything(result), result
    assert list(tmp_path.iterdir()) == [], "something was left behind"


def test_folder_that_is_not_there(mpirun, tmp_path):
    result = mpirun(2, ["mpi-opt", "verify", "--dir", tmp_path / "none"], timeout=60)
    assert result.code == 2, result
    assert everything(result).count("give --dir a folder that exists") == 1
