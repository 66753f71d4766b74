"""In CI the emulated network is left out where the machine withholds it, and missed where a program is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.netlab import obstacle

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("ci", "asked"), [("1", "required"), ("1", "")])
def test_without_ip(tmp_path, ci, asked):
    for name in ("sh", "unshare", "mount", "hostname"):  # all but ip
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    environment = {**os.environ, "PATH": str(tmp_path), "CI": ci, "MPI_OPT_NETLAB_TESTS": asked}
    words = [sys.executable, "-m", "pytest", "netlab", "-q", "-k", "counted_by_sender"]
    done = subprocess.run(words, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=120, check=False)
    missed = ci and asked and obstacle() is None
    assert done.returncode == (1 if missed else 0), done.stdout
    assert "1 skipped" in done.stdout
    reason = (obstacle() or "no ip: install iproute2") if asked else "make test-netlab"
    assert reason.partition(":")[0] in done.stdout
    assert ("CI must run them" in done.stdout) == bool(missed)
