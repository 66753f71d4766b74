"""The watchdog: who is silent is named, who computes or was stopped together with all others is waited for."""

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from mpi_opt.network.base import Whereabouts
from mpi_opt.run import watchdog
from mpi_opt.run.watchdog import Watchdog


def watch(folder, rank, where, told, seconds=0.4, size=2):
    return Watchdog(folder, rank, size, where, seconds, told.append)


def until(told, seconds=60):
    """Return once something is told."""
    end = time.monotonic() + seconds
    while not told and time.monotonic() < end:
        time.sleep(0.02)
    assert told


def test_a_rank_that_computes_or_moves_is_waited_for(tmp_path):
    told = []
    mine, theirs = Whereabouts(waiting="neighbours 1"), Whereabouts()
    with watch(tmp_path / ".alive", 0, mine, told, 1.0), watch(tmp_path / ".alive", 1, theirs, told, 1.0):
        threading.Event().wait(2.5)
    assert told == []
    assert not tmp_path.exists() or list(tmp_path.iterdir()) == []


def test_a_silent_rank_is_named_with_step_and_wait(tmp_path):
    told = []
    mine = Whereabouts(step=12, waiting="neighbours 1, 3")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "kept").touch()
    with watch(tmp_path / "run" / ".alive", 0, mine, told):
        (tmp_path / "run" / ".alive" / "rank_00001").write_text("7 3 0 11")  # it never changes
        until(told)
    for word in ("step 12", "rank 0 of 2", "neighbours 1, 3", "no sign of life of rank 1", "network.watchdog = 0.4"):
        assert word in told[0]


def test_ranks_that_wait_for_each_other_are_ended(tmp_path):
    told = []
    with (
        watch(tmp_path / ".alive", 0, Whereabouts(waiting="rank 1"), told),
        watch(tmp_path / ".alive", 1, Whereabouts(waiting="rank 0"), told),
    ):
        until(told)
    assert "all ranks wait for each other" in told[0]


def test_a_rank_that_does_not_wait_judges_nobody(tmp_path):
    told = []
    with watch(tmp_path / ".alive", 0, Whereabouts(), told):
        threading.Event().wait(1.0)
    assert told == []


@pytest.mark.parametrize("lives", [True, False])
def test_time_in_which_all_were_stopped_is_nobodys_silence(lives, tmp_path, monkeypatch):
    """All ranks of a suspended job stop for a day, whenever in the wait that is; after it this one runs first."""
    for at in range(1, 40):
        told, clock = [], [0.0]
        monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda clock=clock: clock[0]))
        dog = watch(tmp_path, 0, Whereabouts(waiting="rank 1"), told, 10.0)
        calls = iter(range(1, 60))

        def wait(seconds, at=at, clock=clock, calls=calls):
            call = next(calls, None)
            clock[0] += 86400 if call == at else seconds
            if lives and call != at:
                (tmp_path / "rank_00001").write_text(f"{call} 3 0 11")
            return call is None

        (tmp_path / "rank_00001").write_text("0 3 0 11")
        monkeypatch.setattr(dog._stop, "wait", wait)
        dog._watch()
        assert bool(told) is not lives, (at, told)


def test_mpis_own_end_is_given_ten_seconds_at_least():
    """However short the watchdog: leaving takes its time on a busy machine."""
    code = (
        "import signal\nfrom mpi_opt.run.watchdog import end_in_time\nfor seconds in (2.0, 300.0, 0.0):\n"
        "    end_in_time(seconds)\n    print(round(signal.getitimer(signal.ITIMER_REAL)[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.returncode) == (["10", "300", "0"], 0), done.stderr


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such timer here")
def test_who_is_still_there_then_is_ended(monkeypatch):
    code = (
        "import time\nfrom mpi_opt.run import watchdog\nwatchdog._LEAST_END = 0.2\nwatchdog.end_in_time(0.1)\n"
        "time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGALRM


def test_told_to_end_it_waits_eight_seconds_for_a_silent_rank_not_the_whole_patience(tmp_path):
    """SLURM ends the other ranks half a minute after one has died; they leave by themselves before."""
    told = []
    mine = Whereabouts(step=3, waiting="neighbours 1", asked=True)
    with watch(tmp_path / ".alive", 0, mine, told, seconds=300.0):
        (tmp_path / ".alive" / "rank_00001").write_text("7 3 0 3")
        began = time.monotonic()
        while not told and time.monotonic() - began < 25:
            time.sleep(0.1)
        took = time.monotonic() - began
    assert told
    assert "told to end by SIGTERM" in told[0]
    assert 7 < took < 20
