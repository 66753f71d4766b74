"""Runs over MPI that were interrupted, once and again, end as those that were not, to the last bit."""

import json
import re
from pathlib import Path

import pytest
from support import interrupted
from support.commands import settings
from support.resumable import CASES, NEWTON, same_runs, write_case

from mpi_opt.cli import main

N = 3
QUIET = ("--progress", "none")
SCRIPT = Path(interrupted.__file__)


def several(mpirun, folder, orders, n=N, timeout=200):
    """Run the commands in one start of ``n`` ranks; return the exit codes, which are everybody's, and what was said."""
    (folder / "orders.json").write_text(json.dumps(orders))
    result = mpirun(n, [SCRIPT, folder / "orders.json"], timeout=timeout).check()
    parts = [re.split(r"\nexit code (\d+)\n", result.logs[rank]) for rank in range(n)]
    codes = [[int(code) for code in part[1::2]] for part in parts]
    assert codes == [codes[0]] * n, str(result)
    said = ["".join(texts) for texts in zip(*(part[0::2] for part in parts), strict=True)]
    return codes[0], said


def simulated(job, out, *words, n=N):
    assert main(["simulate", str(job), "--nodes", str(n), "--out", str(out), *QUIET, *settings(*words)]) == 0
    return out


def test_every_method_interrupted_ends_as_if_it_was_not(mpirun, tmp_path):
    """All ranks are asked the first time; every other run is asked again, one rank alone, after it was resumed.

    Resumed by another process, which has nothing left of the first one's memory. Held against lockstep, which wrote no
    checkpoint and was not interrupted.
    """
    first, second, third = {}, {}, {}
    for number, (name, (sizes, *_)) in enumerate(CASES.items()):
        out = str(tmp_path / name)
        at, again = (2, 4) if sizes is NEWTON else (8, 21)
        job = write_case(tmp_path, name)
        first[name] = {"argv": ["run", str(job), "--out", out, *QUIET], "at": at, "ranks": list(range(N))}
        second[name] = {"argv": ["resume", out, *QUIET]}
        if number % 2:
            second[name] |= {"at": again, "ranks": [number % N], "signal": 15}
            third[name] = {"argv": ["resume", out, *QUIET]}
    codes, said = several(mpirun, tmp_path, list(first.values()))
    assert codes == [75] * len(first), said
    codes, said = several(mpirun, tmp_path, [*second.values(), *third.values()])
    assert set(codes[: len(second)]) == {0, 75}, said
    assert codes.count(75) >= len(third) - 2, said
    assert codes[len(second) :] == [0] * len(third), said
    for name in CASES:
        whole = simulated(tmp_path / f"{name}.toml", tmp_path / f"{name}-whole", "checkpoint.every=")
        same_runs(whole, tmp_path / name, N, besides=("control_bytes",))
