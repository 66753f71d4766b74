"""Small run folders with figures set by hand, written as the package writes them: what is read of them is known."""

import shutil

import numpy as np

from mpi_opt.job import load_job, to_toml
from mpi_opt.metrics import schema
from mpi_opt.metrics.joined import join
from mpi_opt.metrics.recorder import Recorder

INTEGERS = [column.name for column in schema.SERIES if column.kind == "i8"]

JOB = """
name = "NAME"
seed = 0
[data]
train = "rows.txt"
partition = "shuffled"
[problem]
loss = "logistic"
[graph]
name = "ring"
weights = "metropolis"
[algorithm]
name = "sparq-sgd"
batch = 8
step_size = 0.3
sync_every = 5
threshold = 1.0
compressor = { name = "sign-top-k", k = 2 }
consensus_rate = 0.3
[stop]
steps = 60
[metrics]
every = 20
"""


def job_text(name, *settings, job=JOB):
    """Return the resolved job as a run stores it."""
    return to_toml(load_job(job.replace("NAME", name), list(settings)))


def store(
    folder,
    objectives,
    *,
    settings=(),
    nodes=3,
    spread=0.01,
    every=20,
    a_round=5,
    payload=100,
    fired=0.5,
    errors=None,
    gradient=0.5,
    status="done: 60 steps",
    library="Some MPI 1.0",
    lengths=None,
    joined=False,
    attributes=None,
    alive=None,
    short=0,
    slow=1.0,
):
    """Write a run, and return its folder.

    Row r is step ``every * r`` and round ``every * r / a_round``. Node i's own objective is the average's plus
    ``i * spread``; by row r it has handed over ``(i + 1) * payload`` bytes a round, 2 a round as headers, and spent r
    seconds computing, r / 2 compressing, r / 4 communicating, i * r / 8 waiting.

    Parameters
    ----------
    objectives : sequence of float
        At the averaged model, one a row.
    errors : sequence of float, optional
        Share of test rows wrong there; NaN without.
    status : str
        ``"running"`` leaves the files as a kill would.
    lengths : sequence of int, optional
        Rows that each node has.
    alive : sequence of int, optional
        Nodes that take part, one a row.
    short : int
        Short rounds from row to row.
    slow : float
        What all seconds are multiplied by.
    """
    settings = list(settings)
    seed = next((int(word.removeprefix("seed=")) for word in settings if word.startswith("seed=")), 0)
    job = job_text(folder.name.replace("_", "-"), *settings)
    lengths = lengths or [len(objectives)] * nodes
    for node in range(nodes):
        given = dict.fromkeys(schema.ATTRIBUTES, "text") | {
            "job": job,
            "name": folder.name,
            "seed": seed,
            "node": node,
            "nodes": nodes,
            "threads": 1,
            "host": "here",
            "mpi_library": library,
            "version_mpi_opt": "1.0",
            "graph": "ring",
            "spectral_gap": 0.5,
            "consensus_rate": 0.3,
            "clock": "",
            **(attributes or {}),
        }
        path = folder / "metrics" / f"rank_{node:05d}.h5"
        with Recorder(path, attributes=given, dim=2) as recorder:
            for row in range(lengths[node]):
                values = _row(node, row, objectives, nodes, spread, every, a_round, payload, fired, errors, gradient)
                values |= {name: slow * value for name, value in values.items() if "seconds" in name}
                recorder.row(values | {"nodes_alive": alive[row] if alive else nodes, "short_rounds": short * row})
            for sync in range(1, (lengths[node] - 1) * every // a_round + 1):
                recorder.sync(sync * a_round - 1, sync % 2 == node % 2, 1.0, 0.5, payload)
            recorder.flush()
            if status == schema.RUNNING:
                shutil.copy(path, path.with_suffix(".killed"))
            elif status.startswith("done"):
                recorder.final(np.zeros(2), None, reason=status)
            else:
                recorder.close(status)
        if status == schema.RUNNING:
            path.with_suffix(".killed").replace(path)
    (folder / "job.toml").write_text(job)
    if joined:
        join(folder)
    return folder


def _row(node, row, objectives, nodes, spread, every, a_round, payload, fired, errors, gradient):
    step = every * row
    rounds = step // a_round
    own = objectives[row] + node * spread
    error = np.nan if errors is None else errors[row]
    return dict.fromkeys(INTEGERS, 0) | {
        "step": step,
        "round": rounds,
        "epoch": step / 10,
        "seconds": 2.0 * row,
        "wall_seconds": 3.0 * row,
        "objective_average": objectives[row],
        "objective_local": own,
        "objective_mean": objectives[row] + spread * (nodes - 1) / 2,
        "objective_worst": objectives[row] + spread * (nodes - 1),
        "test_error_average": error,
        "test_error_mean": error * 1.5,
        "test_error_worst": error * 2,
        "test_error": error,
        "consensus_distance": spread**2,
        "gradient_norm": gradient / (1 + row),
        "syncs": rounds,
        "fired": int(fired * rounds),
        "messages": 2 * int(fired * rounds),
        "payload_bytes": (node + 1) * payload * rounds,
        "header_bytes": 2 * rounds,
        "control_bytes": 8 * row,
        "floor_bits": 4.0 * (node + 1) * payload * rounds,
        "compute_seconds": 1.0 * row,
        "compress_seconds": 0.5 * row,
        "communicate_seconds": 0.25 * row,
        "wait_seconds": 0.125 * node * row,
    }
