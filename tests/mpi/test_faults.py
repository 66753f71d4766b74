"""What becomes of a run when something happens to one of its ranks: all end soon, say why, and lose nothing."""

import re
import time

import pytest
from support.commands import settings
from support.faults import GO, KILL, SEGV, STOP, TERM, USR1, Live, alive, check_metrics, committed, hit, wait_for
from support.faults import whole_checkpoints
from support.mpirun import find_launcher
from support.resumable import same_runs, write_case

N = 3
LONG = ("stop.steps=100000000", "metrics.every=200", "checkpoint.every=200")
QUIET = ("--progress", "none")
CODES = {
    "mpich": {KILL: 9, SEGV: 11}, "openmpi4": {KILL: 137, SEGV: 139}, "openmpi5": {KILL: 137, SEGV: 139},
    "intel": {KILL: 255, SEGV: 255},
}  # fmt: skip
"""As docs/exit-codes.md has them."""


def everything(result):
    return result.output + "".join(result.logs.values())


def start(tmp_path, *words, n=N, case="sparq-sgd", until=2, timeout=90):
    """Start a run that goes on for good; return it once it has written a checkpoint or two, and its processes."""
    job, out = write_case(tmp_path, case), tmp_path / "out"
    live = Live(n, ["mpi-opt", "run", job, "--out", out, *QUIET, *settings(*LONG, *words)], timeout)
    pids = live.all_ranks()
    wait_for(lambda: len(list((out / "checkpoints").glob("step_*"))) >= until or not live.going)
    assert live.going, str(live.end())
    return live, pids, out


def ranks(pids, *besides):
    return [pid for name, pid in pids.items() if type(name) is int and name not in besides]


def goes_on(mpirun, tmp_path, out, n=N):
    """Resume to an end a little beyond the last checkpoint, and hold it against a run without a fault."""
    end = whole_checkpoints(out)[0] + 150
    words = settings(f"stop.steps={end}")
    mpirun(n, ["mpi-opt", "resume", out, *QUIET, *words], timeout=90).check()
    job = tmp_path / "sparq-sgd.toml"
    other = settings(*LONG, "checkpoint.every=", f"stop.steps={end}")
    mpirun(n, ["mpi-opt", "run", job, "--out", tmp_path / "whole", *QUIET, *other], timeout=90).check()
    same_runs(tmp_path / "whole", out, n)


@pytest.mark.parametrize(("number", "victim"), [(KILL, 1), (SEGV, 0)])
def test_the_death_of_one_rank_ends_all_and_loses_nothing(mpirun, tmp_path, number, victim):
    live, pids, out = start(tmp_path)
    seen = committed(out, N)
    hit(pids[victim], number)
    seconds = live.gone(ranks(pids), 15)
    result = live.end()
    print(f"signal {number} to rank {victim}: all gone after {seconds:.2f} s, code {result.code}")
    assert not result.timed_out
    assert result.code == CODES[find_launcher().kind][number], str(result)
    left = check_metrics(out, N)
    assert all(left[node] >= seen[node] for node in range(N)), (seen, left)
    assert whole_checkpoints(out)
    if number == KILL:
        goes_on(mpirun, tmp_path, out)
