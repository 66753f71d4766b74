"""What becomes of a run when something happens to one of its ranks: all end soon, say why, and lose nothing."""

import re
import time
from pathlib import Path

import pytest
from support.commands import settings
from support.faults import (
    GO,
    KILL,
    SEGV,
    STOP,
    TERM,
    USR1,
    Live,
    check_metrics,
    committed,
    hit,
    wait_for,
    whole_checkpoints,
)
from support.mpirun import find_launcher
from support.resumable import same_runs, simulated, write_case

N = 3
PLANTED = Path(__file__).parents[1] / "support" / "planted.py"
LONG = ("stop.steps=100000000", "metrics.every=200", "checkpoint.every=200")
QUIET = ("--progress", "none")
CODES = {
    "mpich": {KILL: 9, SEGV: 11}, "openmpi4": {KILL: 137, SEGV: 139}, "openmpi5": {KILL: 137, SEGV: 139},
    "intel": {KILL: 255, SEGV: 255},
}  # fmt: skip
"""As docs/exit-codes.md has them."""


def everything(result):
    return result.output + "".join(result.logs.values())


def start(tmp_path, *words, n=N, case="sparq-sgd", until=2, timeout=180):
    """Start a run that goes on for good; return it once it has written a checkpoint or two, and its processes."""
    job, out = write_case(tmp_path, case), tmp_path / "out"
    live = Live(n, ["mpi-opt", "run", job, "--out", out, *QUIET, *settings(*LONG, *words)], timeout)
    pids = live.all_ranks()
    wait_for(lambda: len(list((out / "checkpoints").glob("step_*"))) >= until or not live.going)
    assert live.going, str(live.end())
    return live, pids, out


def ranks(pids, *besides):
    return [pid for name, pid in pids.items() if type(name) is int and name not in besides]


def newest(out):
    return max(int(path.name.removeprefix("step_")) for path in (out / "checkpoints").glob("step_*"))


def goes_on(mpirun, tmp_path, out, n=N):
    """Resume to an end a little beyond the last checkpoint, and hold it against a run without a fault."""
    end = whole_checkpoints(out)[0] + 150
    words = settings(f"stop.steps={end}")
    mpirun(n, ["mpi-opt", "resume", out, *QUIET, *words], timeout=90).check()
    job = tmp_path / "sparq-sgd.toml"
    whole = simulated(job, tmp_path / "whole", n, *LONG, "checkpoint.every=", f"stop.steps={end}")
    same_runs(whole, out, n, besides=("control_bytes",))


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


def test_a_rank_that_stops_is_named_and_all_end(tmp_path):
    live, pids, out = start(tmp_path, "network.watchdog=3")
    hit(pids[2], STOP)
    seconds = live.gone(ranks(pids), 3 + 15)
    result = live.end()
    print(f"SIGSTOP to rank 2: all gone after {seconds:.2f} s, code {result.code}")
    assert seconds > 2.5
    assert result.code == 6, str(result)
    assert re.search(
        r"mpi-opt: error: step \d+: rank [01] of 3 has waited \d s for (neighbours [0-2], [0-2]|all ranks.*); no sign "
        r"of life of rank 2 \(network\.watchdog = 3 s\)",
        everything(result),
    ), str(result)
    check_metrics(out, N)
    assert whole_checkpoints(out)


def test_a_slow_rank_is_waited_for_others_are_kept_out_and_one_signal_pauses(mpirun, tmp_path):
    live, pids, out = start(tmp_path, "network.watchdog=6")
    hit(pids[1], STOP)
    time.sleep(3.5)  # more than half of it, when the others begin to look
    hit(pids[1], GO)
    again = ["mpi-opt", "run", tmp_path / "sparq-sgd.toml", "--out", out, "--overwrite"]
    refused = mpirun(1, again, timeout=60)
    assert refused.code == 2, str(refused)
    assert re.search(r"mpi-opt: error: another run writes to \S*out \(.*, process \d+\): ", everything(refused))
    before = newest(out)
    wait_for(lambda: newest(out) > before or not live.going)
    assert live.going, str(live.end())
    hit(pids[0], USR1)
    result = live.end()
    assert result.code == 75, str(result)
    said = (out / "log.txt").read_text()
    step = int(re.search(r"paused: SIGUSR1; a checkpoint holds all up to step (\d+)", said)[1])
    assert re.search(r"go on with: mpiexec -n \d+ mpi-opt resume \S*out$", said, re.M)
    assert whole_checkpoints(out)[0] == step
    assert not (out / ".alive").exists()
    assert not (out / ".lock").exists()


def test_a_later_signal_ends_at_once(mpirun, tmp_path):
    """While the others do not come to the step at which all would pause."""
    live, pids, out = start(tmp_path)
    hit(pids[0], STOP)
    hit(pids[1], TERM)
    time.sleep(4.0)  # two seconds apart, also where the first is noticed late
    assert live.going
    hit(pids[1], TERM)
    seconds = live.gone(ranks(pids), 15)
    result = live.end()
    print(f"second SIGTERM to rank 1: all gone after {seconds:.2f} s, code {result.code}")
    assert result.code not in (0, 75), str(result)
    assert whole_checkpoints(out)


def planted(mpirun, tmp_path, what, rank, *words, step=40, timeout=120):
    job, out = write_case(tmp_path, "sparq-sgd", every=10), tmp_path / "out"
    command = [PLANTED, what, rank, step, "run", job, "--out", out, *QUIET, *settings(*words)]
    result = mpirun(N, [str(word) for word in command], timeout=timeout)
    assert not result.timed_out, str(result)
    return result, out


def test_a_long_computation_is_waited_for(mpirun, tmp_path):
    result, _ = planted(mpirun, tmp_path, "long_compute", 1, "network.watchdog=2", step=20)
    result.check()
    assert result.seconds > 5


def test_a_rank_that_stops_before_training_is_named(mpirun, tmp_path):
    result, out = planted(mpirun, tmp_path, "early_stop", 1, "network.watchdog=3")
    assert result.code == 6, str(result)
    assert re.search(r"step 0: .* for all ranks, before training; no sign of life of rank 1 ", everything(result))


def test_a_rank_that_stops_when_all_is_done_keeps_nobody(mpirun, tmp_path):
    """In MPI's own end no thread watches any more: the system's clock ends who waits."""
    result, out = planted(mpirun, tmp_path, "late_stop", 1, "network.watchdog=3", step=20)
    print(f"SIGSTOP to rank 1 at the very end: code {result.code}")
    assert result.code == {"mpich": 14, "openmpi4": 142, "openmpi5": 142}[find_launcher().kind], str(result)
    assert check_metrics(out, N)
    mpirun(1, ["mpi-opt", "resume", out]).check()


def test_an_exception_in_one_rank_ends_all(mpirun, tmp_path):
    result, out = planted(mpirun, tmp_path, "exception", 2, "stop.steps=1000")
    assert result.code == 6, str(result)
    said = everything(result)
    assert "mpi-opt: error: unexpected failure on rank 2 of 3\nTraceback (most recent call last):\n" in said
    assert said.count("ZeroDivisionError: planted") == 1
    assert check_metrics(out, N)[0][0] >= 4
    assert whole_checkpoints(out) == [36, 24]


def test_a_data_file_that_vanishes_ends_all_alike(mpirun, tmp_path):
    result, out = planted(mpirun, tmp_path, "vanish", 1)
    assert result.code == 3, str(result)
    said = everything(result)
    assert re.search(r"^mpi-opt: error: .*train\.txt: .*No such file", said, re.M), said
    assert said.count("mpi-opt: error: ") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("what", "words", "sentence"),
    [
        (
            "nothing_left", (),
            r"rank 1 of 3: \S*rank_00001\.h5 cannot be written: .*Its first \d rows are safe; is the disk full\?",
        ),
        (
            "room_for_metrics", ("data.features=40000",),
            r"checkpoint \S*0048 cannot be written: .*node_00001\.h5: .*File too large.*Earlier checkpoints stand",
        ),
    ],
)  # fmt: skip
def test_a_full_disk_on_one_rank_is_told_and_what_was_there_stands(what, words, sentence, mpirun, tmp_path):
    result, out = planted(mpirun, tmp_path, what, 1, "stop.steps=1000", *words)
    assert result.code == 6, str(result)
    assert re.search("mpi-opt: error: " + sentence, everything(result)), str(result)
    assert min(rows for rows, _ in check_metrics(out, N).values()) >= 4
    assert whole_checkpoints(out) == [36, 24]
    mpirun(N, ["mpi-opt", "resume", out, *QUIET, "--set", "stop.steps=60"], timeout=60).check()
    job = tmp_path / "sparq-sgd.toml"
    whole = simulated(job, tmp_path / "whole", N, *words, "stop.steps=60", "checkpoint.every=")
    same_runs(whole, out, N, besides=("control_bytes",))
