"""The command as a subprocess without MPI, and what its runs leave."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parents[2]


def settings(*words):
    """Return ``--set`` for each word."""
    return [part for word in words for part in ("--set", word)]


def simulate(job, nodes, out, *words, timeout=120, env=None):
    """Run ``mpi-opt simulate`` with every warning an error, and fail with its output if it fails."""
    command = [sys.executable, "-m", "mpi_opt", "simulate", job, "--nodes", nodes, "--out", out, *settings(*words)]
    strict = {**(os.environ if env is None else env), "PYTHONWARNINGS": "error"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, env=strict)
    assert done.returncode == 0, done.stdout + done.stderr


def finals(out, n):
    """Return the nodes' final models, (n, d)."""
    models = []
    for i in range(n):
        with h5py.File(out / "metrics" / f"rank_{i:05d}.h5") as file:
            models.append(file["final/model"][:])
    return np.array(models)
