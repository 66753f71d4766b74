"""The rules of ``conftest.py``: skips are listed with their reasons, and CI does not accept those of data tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

SESSION = """
import pytest

def test_needs_data(datasets):
    raise AssertionError("there is none")

@pytest.mark.skip(reason="out of season")
def test_other():
    pass

def test_plain():
    pass
"""

OTHERS = """
import pytest

@pytest.mark.skip(reason="out of order")
def test_of_a_folder():
    pass
"""


@pytest.fixture
def session(tmp_path):
    """Run a small session under this folder's conftest; return its exit code and what it printed."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "tests" / "test_small.py").write_text(SESSION)
    (tmp_path / "tests" / "data").mkdir()  # a folder's name is no mark
    (tmp_path / "tests" / "data" / "test_others.py").write_text(OTHERS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    data: x\n    mpi: x\n    slurm: x\n")

    def run(folder, *options, ci):
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        changed = {"PYTHONPATH": path, "MPI_OPT_DATASETS": str(folder), "CI": "true" if ci else ""}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "tests"],
            cwd=tmp_path,
            env={**os.environ, **changed},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_missing_data_skips_and_is_listed(session, tmp_path):
    code, printed = session(tmp_path / "nowhere", ci=False)
    assert code == 0, printed
    assert "test_needs_data: no data sets: set MPI_OPT_DATASETS" in printed
    assert "test_other: out of season" in printed
    assert "1 passed, 3 skipped" in printed


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_missing_data_fails_in_ci(session, tmp_path, options):
    code, printed = session(tmp_path / "nowhere", *options, ci=True)
    assert code == 1, printed
    assert "skipped, but CI must run them" in printed
    forbidden = printed.partition("skipped, but CI must run them")[2]
    assert "test_needs_data" in forbidden
    assert "test_of_a_folder" not in forbidden
    assert "1 passed, 3 skipped" in printed


def test_present_data_are_handed_over(session):
    code, printed = session(TESTS, ci=True)
    assert code == 1, printed
    assert "there is none" in printed
    assert "skipped, but CI must run them" not in printed
