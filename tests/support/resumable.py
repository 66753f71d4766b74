"""Short jobs of every method, for tests of interrupted runs, and what must be the same at their ends."""

import numpy as np
from support.commands import settings
from support.jobs import write_libsvm

from mpi_opt.cli import main
from mpi_opt.metrics.joined import read_joined
from mpi_opt.metrics.rank_file import read_rank
from mpi_opt.model import load_model

BASE = """
name = "resumable"
seed = 5
[data]
train = "train.txt"
partition = "contiguous"
[problem]
loss = "logistic"
l2 = 0.001
[stop]
steps = {steps}
[metrics]
every = {every}
[checkpoint]
minutes = "never"
every = {kept}
[network]
reductions = "ordered"
"""
QUIET = ("--progress", "none")
SGD = {"steps": 33, "every": 10, "kept": 12}
NEWTON = {"steps": 7, "every": 2, "kept": 4}

_CHOCO = {
    "step_size": '{ schedule = "inverse", a = 50, b = 20.0 }', "batch": 4, "sync_every": 2, "consensus_rate": 0.3,
    "compressor": '{ name = "sign-top-k", k = 2 }',
}  # fmt: skip
_SPARQ = {**_CHOCO, "threshold": 0.5}
_PLAIN = {"step_size": 0.1, "batch": 4}
CASES = {
    "sparq-sgd": (SGD, "sparq-sgd", {**_SPARQ, "consensus_rate": '"auto"'}, ""),
    "overlap": (SGD, "sparq-sgd", {**_SPARQ, "output": '"local"', "overlap": "true", "momentum": 0.5}, ""),
    "firing-rate": (
        SGD, "sparq-sgd", {**_SPARQ, "threshold": '{ schedule = "firing-rate", target = 0.5 }'}, "",
    ),
    "weighted": (
        SGD, "sparq-sgd", {**_SPARQ, "compressor": '{ name = "random-k", k = 2 }', "output": '"weighted"'}, "",
    ),
    "by-tensor": (
        SGD, "squarm-sgd",
        {
            **_SPARQ, "overlap": "true", "trigger": '"tensor"', "longest_silence": 4,
            "threshold": '{ schedule = "firing-rate", target = 0.4 }',
            "compressor": '{ name = "blockwise", sizes = [3, 1, 2], inner = { name = "sign-top-k", k = 2 } }',
        },
        "",
    ),
    "squarm-sgd": (SGD, "squarm-sgd", {**_SPARQ, "overlap": "true"}, ""),
    "choco-sgd": (SGD, "choco-sgd", {**_CHOCO, "compressor": '{ name = "qsgd", levels = 4 }'}, ""),
    "d-psgd": (SGD, "d-psgd", _PLAIN, ""),
    "allreduce-sgd": (SGD, "allreduce-sgd", {**_PLAIN, "momentum": 0.5}, ""),
    "local-sgd": (SGD, "local-sgd", {**_PLAIN, "sync_every": 3}, '[prepare]\ncolumns = "standard"\nrows = "l2"\n'),
    "local-newton": (NEWTON, "local-newton", {"local_steps": 2, "finish": '"none"'}, ""),
    "adaptive": (NEWTON, "local-newton", {"finish": '"giant"', "master": '"dedicated"'}, ""),
    "giant": (NEWTON, "giant", {}, ""),
    "newton": (NEWTON, "newton", {"hessian_every": 2}, ""),
    "newton-cg": (NEWTON, "newton-cg", {}, "[validation]\nfolds = 2\nl2 = [0.001, 0.1]\n"),
    "lbfgs": (NEWTON, "lbfgs", {"memory": 2}, ""),
    "admm": (NEWTON, "admm", {}, ""),
}  # fmt: skip
"""Sizes, method, its keys, and more tables."""


def write_case(folder, name, **sizes):
    """Write the job of a case, and its data where they are not there yet; return the job's path."""
    if not (folder / "train.txt").exists():
        write_libsvm(folder / "train.txt", rows=60)
    own, method, keys, more = CASES[name]
    table = "\n".join(f"{key} = {value}" for key, value in keys.items())
    text = BASE.format(**{**own, **sizes}) + f'[algorithm]\nname = "{method}"\n{table}\n{more}'
    if "[validation]" in more:  # which chooses it
        text = text.replace("l2 = 0.001\n[stop]", "[stop]")
    job = folder / f"{name}.toml"
    job.write_text(text)
    return job


def simulated(job, out, n, *words):
    """Run a job in lockstep, in this process; return the folder."""
    assert main(["simulate", str(job), "--nodes", str(n), "--out", str(out), *QUIET, *settings(*words)]) == 0
    return out


def rows_of(path):
    """Return a metrics file's figures by name, those of time left out; only what is committed."""
    read = read_rank(path)
    plain = {f"series/{name}": values for name, values in read.series.items() if "seconds" not in name}
    return plain | {f"syncs/{name}": values for name, values in read.syncs.items()}


def same_runs(one, other, n, *, besides=()):
    """Hold two finished runs' folders against each other: every figure but time, every model, to the last bit."""
    for node in range(n):
        paths = [run / "metrics" / f"rank_{node:05d}.h5" for run in (one, other)]
        a, b = map(rows_of, paths)
        assert a.keys() == b.keys()
        for name, values in a.items():
            if name.removeprefix("series/") not in besides:
                np.testing.assert_array_equal(values, b[name], err_msg=f"{other}: node {node}, {name}", strict=True)
        a, b = map(read_rank, paths)
        assert a.model.tobytes() == b.model.tobytes(), (other, node)
        assert (a.average is None) == (b.average is None)
        assert a.average is None or a.average.tobytes() == b.average.tobytes(), other
        assert a.status == b.status
    a, b = (load_model(run / "model.h5") for run in (one, other))
    assert a.weights.tobytes() == b.weights.tobytes(), other
    joined = read_joined(other / "metrics.h5")
    assert joined.series["step"].shape == (n, len(rows_of(paths[0])["series/step"]))
