"""Signals: the first is remembered, those right after it are the same wish, a later one ends the process."""

import os
import signal
import subprocess
import sys

import pytest

from mpi_opt.run.signals import ASKING, Signals


@pytest.mark.parametrize("number", ASKING)
def test_the_first_is_remembered_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with Signals() as seen:
        assert seen.came == 0
        os.kill(os.getpid(), number)
        assert seen.came == number
    assert signal.getsignal(number) == before


def test_those_right_after_it_are_the_same_wish():
    """SLURM tells the ranks and their mpirun, which tells the ranks again: nobody asked twice."""
    with Signals() as seen:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert seen.came == signal.SIGTERM


def test_a_later_one_ends_the_process():
    code = """
import os, signal, time
from mpi_opt.run import signals
signals._TOGETHER = 0.1
with signals.Signals():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
    print("still here", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # as in a library that does not come back
    print("and now?", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "still here\n")


def child(code):
    whole = f"import os, signal\nfrom mpi_opt.run.signals import Signals, hold\n{code}"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_notice_that_comes_early_waits_for_the_run():
    code = """
hold()
os.kill(os.getpid(), signal.SIGUSR1)
with Signals() as seen:
    print(seen.came == signal.SIGUSR1)
"""
    assert child(code) == (0, "True\n")


def test_a_notice_that_comes_late_does_no_harm():
    code = """
hold()
with Signals() as seen:
    pass
os.kill(os.getpid(), signal.SIGUSR1)
print(seen.came, "done")
"""
    assert child(code) == (0, "0 done\n")


def test_when_the_run_is_over_the_end_of_other_ranks_is_not_ones_own():
    """As by ``srun --kill-on-bad-exit``, both before and behind the exit, long after the first signal."""
    code = """
import sys, time
from mpi_opt.run import signals
signals._TOGETHER = 0.1
with Signals() as seen:
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.2)
    seen.over()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
os.kill(os.getpid(), signal.SIGTERM)
print(seen.came == signal.SIGUSR1)
with Signals() as again:
    os.kill(os.getpid(), signal.SIGTERM)
    print(again.came == signal.SIGTERM)
sys.exit(75)
"""
    assert child(code) == (75, "True\nTrue\n")


def test_who_does_not_hold_it_has_it_as_before():
    code = """
with Signals():
    pass
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    assert child(code) == (0, "set()\n")
