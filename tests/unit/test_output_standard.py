"""Standard output that is full or closed: one line and code 2, not a traceback."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mpi_opt.model import save_model

COMMANDS = ["predict m.h5 set", "evaluate m.h5 set", "model info m.h5", "data check set", "data info set"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standard")
    (folder / "set").write_text("1 1:1\n-1 2:1\n")
    facts = {"features": 2, "intercept": False, "index_base": 1, "l2": 0.1, "job": "", "provenance": {}}
    save_model(folder / "m.h5", np.array([1.0, -1.0]), loss="logistic", labels={-1.0: -1.0, 1.0: 1.0}, **facts)
    return folder


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [*COMMANDS, "data convert set --overwrite --out x.h5"])
def test_full(folder, command):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mpi_opt", *command.split()],
            cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("mpi-opt: error: cannot write ")
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_closed(folder):
    words = f"exec {sys.executable} -m mpi_opt predict m.h5 set >&-"
    done = subprocess.run(["sh", "-c", words], cwd=folder, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert (
        done.stderr == "mpi-opt: error: cannot write predictions: standard output is closed; name a file with --out\n"
    )
