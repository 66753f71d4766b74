"""One BLAS thread, in a process of its own: SciPy's BLAS, which is loaded late, must not be there already."""

import json
import os
import subprocess
import sys

import pytest
from support.jobs import write_job

ASKED = """
import json, sys
import numpy as np, threadpoolctl
def threads():
    import scipy.linalg
    pools = threadpoolctl.threadpool_info()
    return {pool["filepath"]: pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}
"""
CONTEXT = """
from mpi_opt.threads import one_thread
with one_thread():
    inside = threads()
print(json.dumps([inside, threads()]))
"""
SEEN = """
from mpi_opt.algorithms.parts import solver
inside, plain = {}, solver.factor_symmetric
def factor_symmetric(h):
    made = plain(h)
    inside.update(threads())
    return made
solver.factor_symmetric = factor_symmetric
"""
TRAINED = """
from mpi_opt.cli import main
main(["simulate", "job.toml", "--nodes", "2", "--set", "algorithm=", "--set", "algorithm.name=newton",
      "--set", "stop=", "--set", "stop.rounds=2", "--set", "metrics.every=1"])
"""
SOUGHT = """
from mpi_opt.job import load_job
from mpi_opt.optimum import find_optimum
from pathlib import Path
find_optimum(load_job(Path("job.toml"), []), None, {}, [])
"""


def answer(folder, code):
    """Return what ``code`` printed last, in a process whose BLAS may take two threads."""
    environ = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", ASKED + code], cwd=folder, capture_output=True, text=True, timeout=120, env=environ
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_inside_one_and_outside_as_before(tmp_path):
    inside, after = answer(tmp_path, CONTEXT)
    free = answer(tmp_path, "print(json.dumps(threads()))")
    assert after == free
    assert set(inside.values()) == {1}


@pytest.mark.parametrize("code", [TRAINED, SOUGHT], ids=["training", "optimum"])
def test_newton_methods_take_one(tmp_path, code):
    write_job(tmp_path)
    inside = answer(tmp_path, SEEN + code + "\nprint(json.dumps(inside))")
    assert set(inside.values()) == {1}
