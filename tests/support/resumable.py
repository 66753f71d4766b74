"""Short jobs of every method, for tests of interrupted runs, and what must be the same at their ends."""

import numpy as np
from support.jobs import write_libsvm

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
SGD = {"steps": 31, "every": 5, "kept": 12}
NEWTON = {"steps": 7, "every": 2, "kept": 4}

_SPARQ = {
    "step_size": '{ schedule = "inverse", a = 50, b = 20.0 }', "batch": 4, "sync_every": 2, "threshold": 0.5,
    "consensus_rate": 0.3, "compressor": '{ name = "sign-top-k", k = 2 }',
}  # fmt: skip
_CHOCO = {name: value for name, value in _SPARQ.items() if name != "threshold"}
_PLAIN = {"step_size": 0.1, "batch": 4}
CASES = {
    "sparq-sgd": (SGD, "sparq-sgd", _SPARQ, ""),
    "overlap": (SGD, "sparq-sgd", {**_SPARQ, "overlap": "true"}, ""),
    "momentum": (SGD, "squarm-sgd", _SPARQ, ""),
    "choco-sgd": (SGD, "choco-sgd", _CHOCO, ""),
    "d-psgd": (SGD, "d-psgd", _PLAIN, ""),
    "firing-rate": (
        SGD, "sparq-sgd", {**_SPARQ, "threshold": '{ schedule = "firing-rate", target = 0.5 }'}, "",
    ),
    "random-k": (SGD, "sparq-sgd", {**_SPARQ, "compressor": '{ name = "random-k", k = 2 }'}, ""),
    "qsgd": (SGD, "choco-sgd", {**_CHOCO, "compressor": '{ name = "qsgd", levels = 4 }'}, ""),
    "weighted": (SGD, "sparq-sgd", {**_SPARQ, "output": '"weighted"'}, ""),
    "local": (SGD, "sparq-sgd", {**_SPARQ, "output": '"local"', "overlap": "true", "momentum": 0.5}, ""),
    "auto": (SGD, "sparq-sgd", {**_SPARQ, "consensus_rate": '"auto"'}, ""),
    "prepared": (SGD, "sparq-sgd", _SPARQ, '[prepare]\ncolumns = "standard"\nrows = "l2"\n'),
    "patience": (SGD, "allreduce-sgd", {**_PLAIN, "step_size": 3.0}, ""),
    "allreduce-sgd": (SGD, "allreduce-sgd", {**_PLAIN, "momentum": 0.5}, ""),
    "local-sgd": (SGD, "local-sgd", {**_PLAIN, "sync_every": 3}, ""),
    "local-newton": (NEWTON, "local-newton", {"local_steps": 2, "finish": '"none"'}, ""),
    "adaptive": (NEWTON, "local-newton", {"finish": '"giant"'}, ""),
    "dedicated": (NEWTON, "local-newton", {"finish": '"newton-cg"', "master": '"dedicated"'}, ""),
    "giant": (NEWTON, "giant", {}, ""),
    "newton": (NEWTON, "newton", {"hessian_every": 2}, ""),
    "newton-cg": (NEWTON, "newton-cg", {}, ""),
    "lbfgs": (NEWTON, "lbfgs", {"memory": 2}, ""),
    "admm": (NEWTON, "admm", {}, ""),
    "validated": (NEWTON, "newton-cg", {}, "[validation]\nfolds = 3\nl2 = [0.001, 0.1]\n"),
}  # fmt: skip
"""Sizes, method, its keys, and more tables."""


def write_case(folder, name, **sizes):
    """Write the job of a case, and its data where they are not there yet; return the job's path."""
    if not (folder / "train.txt").exists():
        write_libsvm(folder / "train.txt", rows=60)
    own, method, keys, more = CASES[name]
    table = "\n".join(f"{key} = {value}" for key, value in keys.items())
    text = BASE.format(**{**own, **sizes}) + f'[algorithm]\nname = "{method}"\n{table}\n{more}'
    if name == "patience":
        text = text.replace("[metrics]", "patience = 2\n[metrics]")
    if name == "validated":
        text = text.replace("l2 = 0.001\n[stop]", "[stop]")
    job = folder / f"{name}.toml"
    job.write_text(text)
    return job


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
