"""Metrics files without a run: plausible rows, counters that rise; also as a process that is killed while it writes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from mpi_opt.metrics import schema
from mpi_opt.metrics.recorder import Recorder

TESTS = Path(__file__).parents[1]


def write_rank(folder, node, nodes, rows, *, syncs=7, job="", end="done: all", **recorder):
    """Write ``metrics/rank_*.h5`` with ``rows`` evaluations, one each 10 steps; return the recorder.

    ``end=None`` leaves it open. Every third objective is not finite, as nodes that are not sampled have it.
    """
    given = dict.fromkeys(schema.ATTRIBUTES, "text") | {"seed": 7, "node": node, "nodes": nodes, "threads": 1}
    given |= {"host": f"host{node}", "job": job, "name": "planted", "spectral_gap": float("nan")}
    path = folder / "metrics" / f"rank_{node:05d}.h5"
    path.unlink(missing_ok=True)
    made = Recorder(path, attributes=given, dim=3, average=node == 0, flush_seconds=1e9, **recorder)
    rng = np.random.default_rng(node)
    for row in range(rows):
        values = {c.name: rng.random() + row if c.kind == "f8" else 10 * row + node for c in schema.SERIES}
        values |= {"step": 10 * row, "round": 2 * row, "syncs": 9 * row, "fired": row, "nodes_alive": nodes}
        values |= {"wall_seconds": 0.5 * row, "seconds": 0.4 * row, "objective_average": 1.0 / (1 + row)}
        values |= {"objective_local": np.nan if row % 3 == 0 else np.pi * row + node}
        made.row(values)
    for sync in range(syncs):
        made.sync(5 * sync + 4, sync % 2 == node % 2, rng.random(), 0.25, 17 * (sync % 2))
    made.flush()
    if end is not None:
        made.final(np.arange(3.0) + node, np.ones(3) if node == 0 else None, reason=end)
        made.close()
    return made


def write_killed(folder, node, nodes, rows, *, syncs=7, job=""):
    """As `write_rank`, by a process that is then killed with everything open; return its number."""
    program = (
        "import os, pathlib, sys; from support.rankfiles import write_rank; folder, job = sys.argv[1:];"
        f"kept = write_rank(pathlib.Path(folder), {node}, {nodes}, {rows}, syncs={syncs}, job=job, end=None);"
        "os.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))}
    with subprocess.Popen([sys.executable, "-c", program, str(folder), job], env=env) as process:
        assert process.wait(timeout=60) == -9
        return process.pid
